"""The soak of the server, in a run small enough to test."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def test_nothing_is_wrong_or_lost_while_models_and_servers_change(soak, tmp_path, capsys):
    out = tmp_path / "soak.json"
    soak.main(["--quick", "--clients", "3", "--minutes", "0.05", "--out", str(out)])
    found = json.loads(out.read_text())
    assert (found["wrong"], found["first_wrong"], found["lost"], found["first_lost"]) == (0, None, 0, None)
    assert (found["codes_at_the_end"], found["first_error"]) == ([0, 0], None)
    assert (found["models_switched"], found["servers"]) == (4, 2)
    assert len(found["answers_by_model"]) == 2
    assert min(found["answers_by_model"]) > 0
    assert set(found["statuses"]) > {"200", "422"}
    assert sum(found["statuses"].values()) == found["requests"]
    assert all(one["at_the_end_mib"] > 50 for one in found["memory"])
    assert "wrong 0, lost 0, lines of errors 0 (required 0, 0, 0: met)" in capsys.readouterr().out


def test_wrong_answers_are_noticed(soak):
    expected = np.arange(8.0)[None, :]
    client = soak.Client(0, {"abc": soak.Asked(None, [b""], expected)}, 0)

    def told(digits, change=0.0):
        answer = {"point": 0.0, "quantiles": dict(zip("abcde", [1.0, 2.0, 3.0, 4.0, 5.0 + change], strict=True)),
                  "interval": [6.0, 7.0]}  # fmt: skip
        return {"model": {"hash": digits}, "predictions": [answer]}

    client.compare(told("abc"), 0)
    assert client.wrong == []
    client.compare(told("abc", change=0.1), 0)
    client.compare(told("another"), 0)
    assert len(client.wrong) == 2


def test_growth_and_losses_are_told(soak):
    found = {"requests": 1, "minutes": 1.0, "clients": 1, "requests_per_second": 1.0, "p50_ms": 1.0, "p99_ms": 1.0,
             "statuses": {"200": 1}, "models_switched": 0, "servers": 1, "wrong": 0, "lost": 1, "lines_of_errors": 0,
             "codes_at_the_end": [0], "memory_growth": 0.2}  # fmt: skip
    text = soak.describe(found)
    assert "lost 1, lines of errors 0 (required 0, 0, 0: NOT met)" in text
    assert "memory grew by 20.0% at most (required <= 10%: NOT met)" in text
