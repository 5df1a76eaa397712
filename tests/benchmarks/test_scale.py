"""The benchmark of scale, on files small enough to test."""

import json

import pytest

pytest.importorskip("pyarrow")


def test_fits_are_measured_by_one_process_and_by_two(scale, tmp_path, capsys):
    out = tmp_path / "scale.json"
    out.write_text('{"score": {"kept": true}}')
    scale.main(["--part", "fit", "--rows", "600", "--batch", "128", "--folder", str(tmp_path), "--out", str(out)])
    written = json.loads(out.read_text())
    assert written["score"] == {"kept": True}
    assert {"fit": written["fit"]} == json.loads(capsys.readouterr().out)
    assert written["fit"]["command"].startswith("python benchmarks/scale.py --part fit --rows 600")
    one, two = written["fit"]["figures"]
    assert (one["processes"], two["processes"]) == (1, 2)
    assert one["rows_learned"] == two["rows_learned"] == 540
    assert one["steps"] == 5
    assert two["steps"] == 3
    for each in (one, two):
        assert each["peak_mib"] > each["imported_mib"]
        assert 0 < each["rows_per_second"] < 1.001 * 600 / each["seconds"]  # the slowest of the processes counts
    assert written["fit"]["two_processes_times_one_600"] == two["rows_per_second"] / one["rows_per_second"]
    assert [path.name for path in tmp_path.iterdir()] == ["scale.json"]


def test_tables_are_measured_at_each_size(scale, tmp_path, capsys):
    scale.main(["--part", "tables", "--buckets", "64", "4096", "--batch", "32", "--folder", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)["tables"]
    assert [each["buckets"] for each in found["figures"]] == [64, 4096]
    assert found["step_ratio"] > 0
    assert found["figures"][1]["stated_mib"] == pytest.approx(4098 * 132 / 2**20)


def test_a_part_must_be_named(scale):
    with pytest.raises(SystemExit, match="--part must be one of fit"):
        scale.main(["--rows", "600"])
