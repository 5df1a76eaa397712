"""The benchmark of scoring, on few enough rows to test."""

import json
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_scoring_is_measured_and_every_row_counted(scale_score, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    out = tmp_path / "scale.json"
    tiny = ["--fit-rows", "200", "--max-steps", "2", "--samples", "2"]
    scale_score.main(["--sizes", "40", *tiny, "--folder", str(tmp_path), "--out", str(out)])
    written = json.loads(out.read_text())
    assert written == json.loads(capsys.readouterr().out)
    assert [(run["rows"], run["processes"]) for run in written["runs"]] == [(40, 1), (40, 2)]
    assert written["all_rows_once_and_alike"]
    assert all(run["seconds"] > 0 and run["peak_mib"] > 50 for run in written["runs"])
    assert written["speedup_of_two"].keys() == {"40"}
    assert written["start_seconds"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["scale.json"]


def test_rows_are_of_kuairecs_schema_and_the_same_each_time(scale_score):
    from diffor.datasets.paper.watchtime import USER_COLUMNS

    first, again = scale_score.Log(0).rows(3, 50), scale_score.Log(0).rows(3, 50)
    assert first.equals(again)
    tags = [f"feat{number}" for number in range(4)]
    assert first.columns.tolist() == ["row", "user_id", "video_id", *USER_COLUMNS, *tags, "duration", "watched"]
    assert (first["watched"] > 0).all()


def test_ratios_are_those_of_the_same_number_of_rows(scale_score):
    def run(rows, processes, seconds, peak):
        return {"rows": rows, "processes": processes, "scoring_seconds": seconds, "peak_mib": peak,
                "every_row_once": True, "as_one_process": True}  # fmt: skip

    runs = [run(100, 1, 1.0, 300), run(100, 2, 0.8, 300), run(1000, 1, 10.0, 315), run(1000, 2, 5.0, 320)]
    found = scale_score.judge(runs)
    assert found["speedup_of_two"] == {"100": pytest.approx(1.25), "1000": pytest.approx(2)}
    assert found["speedup_met"]
    assert found["seconds_exponent"] == pytest.approx(1)
    assert found["memory_growth"] == pytest.approx(1.05)
    assert found["memory_flat"]
    assert found["all_rows_once_and_alike"]
