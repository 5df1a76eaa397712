"""The benchmark of streaming, on a file small enough to test."""

import json

import pytest


def test_reading_is_measured_and_resumed_after_a_kill(streaming, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    out = tmp_path / "streaming.json"
    streaming.main(["--bytes", "3e6", "--folder", str(tmp_path), "--out", str(out)])
    written = json.loads(out.read_text())
    assert written == json.loads(capsys.readouterr().out)
    assert written["command"].startswith("python benchmarks/streaming.py --bytes 3e6")
    assert 3e6 <= written["bytes"] < 20e6
    assert written["parts"] == 1
    assert written["within_limit"]
    assert written["cache_peak_mib"] > written["imported_mib"]
    assert written["cache_rows_per_second"] == pytest.approx(written["rows"] / written["cache_seconds"])
    assert written["kept_parts"] == written["killed_at_parts"] == 1
    assert written["resumed_equals_undisturbed"]
    assert [path.name for path in tmp_path.iterdir()] == ["streaming.json"]
