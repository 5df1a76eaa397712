"""The load test of the server, in a run small enough to test."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def test_every_answer_of_a_real_server_is_compared(serve, tmp_path, capsys):
    out = tmp_path / "serve.json"
    serve.main(["--quick", "--clients", "1", "3", "--seconds", "0.3", "--out", str(out)])
    found = json.loads(out.read_text())
    assert [stage["clients"] for stage in found["stages"]] == [1, 3]
    for stage in found["stages"]:
        assert (stage["wrong"], stage["failed"], stage["first_failure"]) == (0, 0, None)
        assert stage["requests"] > 0
        assert 0 < stage["p50_ms"] <= stage["p99_ms"]
        assert stage["memory_mib"] > 50
    assert found["in_process"]["batch_of_64_rows_per_second"] > found["in_process"]["one_row_rows_per_second"] > 0
    assert found["command"] == "python benchmarks/serve.py --quick --clients 1 3 --seconds 0.3 --out serve.json"
    assert "wrong answers: 0, failed requests: 0 (required 0 and 0: met)" in capsys.readouterr().out


def test_a_wrong_answer_is_counted(serve):
    asked = serve.Asked(None, [b""], np.zeros((1, 8)))
    client = serve.Client("", 0, asked, 0)
    told = {"point": 1.0, "quantiles": dict.fromkeys("abcde", 2.0), "interval": [1.0, 3.0]}
    client.compare(told, np.array([1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 3.0]))
    assert (client.n_wrong, client.n_exact) == (0, 1)
    client.compare(told, np.array([1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 3.0001]))
    assert (client.n_wrong, client.n_exact) == (1, 1)


def test_growing_memory_is_told(serve):
    stage = {"clients": 1, "requests": 9, "requests_per_second": 9.0, "p50_ms": 1.0, "p99_ms": 2.0, "wrong": 0,
             "memory_mib": 110.0}  # fmt: skip
    found = {
        "stages": [stage],
        "in_process": {"one_row_p50_ms": 1.0, "one_row_rows_per_second": 3.0, "batch_of_64_rows_per_second": 18.0},
        "memory": {"after_warm_up_mib": 100.0, "at_the_end_mib": 110.0, "growth": 0.1},
        "wrong": 0,
        "failed": 1,
    }
    text = serve.describe(found)
    assert "growth 10.0% (required <= 5%: NOT met)" in text
    assert "served at best: 3.00 x one row at a time here, 0.50 x 64 at a time here" in text
    assert "failed requests: 1 (required 0 and 0: NOT met)" in text
