"""``diffor serve`` as it runs: a real process on a free port of this machine, and real clients."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from serving import QUICK, as_rows, make_flats, serve

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from diffor import DiffoRRegressor
from diffor.cli.main import main

JSON = {"Content-Type": "application/json"}
TOKEN = "a-token-of-sixteen-signs"


@pytest.fixture(scope="module")
def rows():
    return as_rows(make_flats(n=64, seed=1)[0])


@pytest.fixture(scope="module")
def client(served):
    with served.client() as client:
        yield client


def test_the_answer_is_that_of_the_model(client, flat_model, rows):
    table = make_flats(n=64, seed=1)[0]
    told = client.post("/predict", json={"rows": rows, "coverage": 0.8}).text
    answer = json.loads(told, parse_constant=pytest.fail)  # strict JSON has no NaN
    model = flat_model[1]
    assert np.array([one["point"] for one in answer["predictions"]]) == pytest.approx(model.predict(table), rel=1e-5)
    intervals = np.array([one["interval"] for one in answer["predictions"]])
    assert intervals == pytest.approx(model.predict_interval(table, coverage=0.8), rel=1e-5)
    increments = np.array([one["increments"] for one in answer["predictions"]])
    assert increments == pytest.approx(model.predict_increments(table), abs=1e-3)


def test_clients_that_come_together_get_the_answers_of_each(served, flat_model, rows):
    expected = flat_model[1].predict(make_flats(n=64, seed=1)[0])

    def ask(first):
        with served.client() as client:
            told = [client.post("/predict", json={"rows": rows[place : place + 1 + place % 3]}).json()
                    for place in range(first, 60, 16)]  # fmt: skip
        return [[one["point"] for one in answer["predictions"]] for answer in told]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    for first, found in enumerate(answers):
        for place, points in zip(range(first, 60, 16), found, strict=True):
            assert points == pytest.approx(expected[place : place + 1 + place % 3], rel=1e-5)


def test_the_model_tells_what_it_is(client, flat_model):
    told = client.get("/model").json()
    model = flat_model[1]
    assert [column["name"] for column in told["columns"]] == ["size", "rooms", "city"]
    assert (told["name"], told["target"], told["bounds"], told["grades"]) == ("flats", None, [0, 500], None)
    assert told["training"]["validation_crps"] == model.history_.best_score
    assert told["increment_edges"] == pytest.approx(model.scale_.from_unit(np.linspace(0, 1, 9)).tolist())
    assert (told["limits"]["max_rows"], told["n_samples"]) == (300, model.settings_.n_samples)
    assert {"python", "diffor", "torch"} <= set(told["versions"])
    assert client.get("/health").json() == {"status": "ok", "waiting": 0}


def test_the_document_has_the_models_own_columns_and_its_example_is_answered(client):
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/predict", "/model", "/health", "/ready"}  # no chain
    body = document["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    row = body["properties"]["rows"]["items"]
    assert row["required"] == ["size", "rooms", "city"]
    assert client.post("/predict", json={"rows": [row["example"]]}).status_code == 200


def test_the_chain_of_one_row(served_chain, client, rows):
    assert client.post("/trajectory", json={"rows": rows[:1]}).status_code >= 400  # of a model that has none
    with served_chain.client() as client:
        told = client.post("/trajectory", json={"rows": rows[:1]}).json()
        refused = client.post("/trajectory", json={"rows": rows[:2]})
        assert "/trajectory" in client.get("/openapi.json").json()["paths"]
    assert [step["time"] for step in told["steps"]] == sorted((step["time"] for step in told["steps"]), reverse=True)
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["msg"] == "a chain is that of one row, but there are 2; send one"


GOOD = '{"size": 1, "rooms": 2, "city": "Oslo"}'


@pytest.mark.parametrize(
    ("body", "status", "place", "message"),
    [
        ("", 422, ["body"], "body must be JSON, but Expecting value"),
        ("[1]", 422, ["body"], 'a request must be an object as {"rows": []}, but got [1]'),
        ("{}", 422, ["rows"], "a request must have rows, but it has none"),
        ('{"rows": [], "row": 1}', 422, ["row"], "a request has rows, quantiles, coverage, increments, "),
        ('{"rows": [{"size": 1, "rooms": "x", "city": null}]}', 422, ["rows", 0, "rooms"], "'rooms' of row 0 must be"),
        (f'{{"rows": [{GOOD}], "quantiles": [2]}}', 422, ["quantiles"], "quantiles must be a list of 1 to 256 levels"),
        (f'{{"rows": [{GOOD}], "coverage": 1}}', 422, ["coverage"], "coverage must lie between 0 and 1, as 0.9 does"),
        (f'{{"rows": [{GOOD}], "increments": 1}}', 422, ["increments"], "increments must be true or false, but got 1"),
        (f'{{"rows": [{", ".join([GOOD] * 301)}]}}', 413, ["rows"], "a request must have at most 300 rows"),
        (" " * (8 * 2**20 + 1), 413, ["body"], "a request must have at most 8388608 bytes, but it has 8388609"),
        ('{"rows": [{"\\ud800": 1}]}', 422, ["rows", 0, "size"], "row 0 must have the column 'size'"),
        ("[" * 10**6, 422, ["body"], "body must be JSON, but it is nested too deeply"),
    ],
)  # fmt: skip
def test_wrong_requests_are_refused_with_the_field(client, body, status, place, message):
    refused = client.post("/predict", content=body, headers=JSON)
    assert refused.status_code == status
    first = refused.json()["detail"][0]
    assert first["loc"] == place
    assert first["msg"].startswith(message)
    assert client.get("/health").json()["status"] == "ok"


def test_a_body_that_does_not_say_its_length_is_bounded_too(client):
    refused = client.post("/predict", content=(b" " * 65536 for _ in range(140)))
    assert (refused.status_code, refused.json()["detail"][0]["type"]) == (413, "too_large")


def test_what_is_no_path_and_no_form_is_refused(client):
    told = client.get("/nothing").json()["detail"][0]["msg"]
    assert told == "a path of this server must be asked, but GET /nothing is none; see /docs"
    assert client.get("/predict").status_code == 405
    refused = client.post("/predict", files={"images": b"x"})
    assert refused.status_code == 415
    assert refused.json()["detail"][0]["msg"].startswith("this model reads rows of a table, but ")


def test_page_and_documents_come_with_the_package(client):
    for path, kind in (("/", "text/html"), ("/docs", "text/html"), ("/page/page.js", "text/javascript")):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
    assert "http://" not in client.get("/page/page.css").text


def test_stopping_finishes_what_is_under_way(flat_model, rows):
    with serve(flat_model[0], "--wait-ms", "1000") as running, running.client() as client:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(client.post("/predict", json={"rows": rows[:2]})))
        asking.start()
        with running.client() as other:
            for _ in range(200):
                if other.get("/health").json()["waiting"]:
                    break
                time.sleep(0.01)
        code = running.stop()
        asking.join(30)
    assert code == 0
    assert (answers[0].status_code, len(answers[0].json()["predictions"])) == (200, 2)
    with pytest.raises(httpx.ConnectError):
        httpx.get(running.address + "/health")


def test_limits_token_and_side_columns_of_a_model_from_the_command_line(tmp_path):
    table, price = make_flats()
    table.assign(length=price + 20, price=price).to_csv(tmp_path / "rows.csv", index=False)
    words = ["--target", "price", "--method", "cwm", "--duration", "length", "--drop", "length"]
    words += ["--preset", "fast", "--max-steps", "5", "--quiet", "--out", str(tmp_path / "model")]
    assert main(["fit", str(tmp_path / "rows.csv"), *words]) == 0
    row = {"size": 50.0, "rooms": 2, "city": "Oslo"}
    limits = ["--max-rows", "3", "--max-seconds", "0.4", "--max-waiting", "3", "--wait-ms", "900", "--token", TOKEN]
    with serve(tmp_path / "model", *limits) as running, running.client() as client:
        assert all(client.get(path).status_code == 200 for path in ("/health", "/", "/docs"))
        for headers, found in (({}, "it carries none"), ({"Authorization": "Bearer no"}, "it carries another")):
            refused = client.get("/model", headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert refused.json()["detail"][0]["msg"] == (
                f"a request must carry the server's token, but {found}; send the header Authorization: Bearer TOKEN"
            )
        assert (client.get("/metrics").status_code, client.get("/ready").status_code) == (401, 200)
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        told = client.get("/model").json()
        last = told["columns"][-1]
        assert (told["target"], last["name"], last["role"]) == ("price", "length", "duration")
        missing = client.post("/predict", json={"rows": [row]}).json()["detail"]
        assert [(one["type"], one["loc"][-1]) for one in missing] == [("missing_column", "length")]
        assert client.post("/trajectory", json={"rows": [row]}).status_code == 404
        with socket.create_connection(("127.0.0.1", int(running.address.rsplit(":", 1)[1]))) as connection:
            head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            connection.sendall(head.encode() + b'Content-Length: 50\r\n\r\n{"rows"')  # and never the rest
            told = "".join(part.decode() for part in iter(lambda: connection.recv(65536), b""))  # until it is closed
        assert told.startswith("HTTP/1.1 408")
        assert "a request must arrive within 0.4 s, but it is not whole yet; send it faster" in told
        whole = {"rows": [{**row, "length": 200.0}] * 2}
        with ThreadPoolExecutor(2) as pool:
            late, busy = sorted(pool.map(lambda _: client.post("/predict", json=whole), range(2)),
                                key=lambda answer: -answer.status_code)  # fmt: skip
        assert (late.status_code, busy.status_code) == (504, 503)
        assert busy.headers["retry-after"] == "1"
        assert "but 2 do already; try again in a moment" in busy.json()["detail"][0]["msg"]


def test_rows_to_start_from_are_told_as_clients_send_them(flat_model, tmp_path, refused):
    table = make_flats(n=30, seed=5)[0]
    table.to_csv(tmp_path / "rows.csv", index=False)
    with serve(flat_model[0], "--examples", str(tmp_path / "rows.csv")) as running, running.client() as client:
        examples = client.get("/model").json()["examples"]
        assert client.post("/predict", json={"rows": examples}).status_code == 200
    assert len(examples) == 20
    assert examples[3]["size"] is None
    assert examples[4] == as_rows(table)[4]
    table.drop(columns="city").to_csv(tmp_path / "rows.csv", index=False)
    assert "city" in refused("serve", flat_model[0], "--examples", tmp_path / "rows.csv")


def test_a_name_of_a_proxy_is_let_in(flat_model, rows):
    with serve(flat_model[0], "--allow-host", "flats.example") as running, running.client() as client:
        for host, status in (("flats.example", 200), ("localhost:1", 200), ("other.example", 421)):
            assert client.get("/model", headers={"Host": host}).status_code == status
        headers = {"Host": "flats.example", "Origin": "https://flats.example"}
        assert client.post("/predict", json={"rows": rows[:1]}, headers=headers).status_code == 200


def test_every_answer_says_which_model_it_is_from(served_chain, client, flat_model, rows):
    told = client.post("/predict", json={"rows": rows[:1]}).json()["model"]
    assert told == client.get("/ready").json()["model"] == client.get("/model").json()["identity"]
    assert told["name"] == "flats"
    assert len(told["hash"]) == 16
    assert told["version"].startswith("20")
    with served_chain.client() as other:
        assert other.post("/trajectory", json={"rows": rows[:1]}).json()["model"]["name"] == "chain"


def test_a_port_that_is_taken_is_refused(flat_model, served, refused):
    port = served.address.rsplit(":", 1)[1]
    told = refused("serve", flat_model[0], "--port", port)
    assert f"127.0.0.1:{port} must be free to listen on, but Address already in use" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "a host that other machines reach needs a token, but --host 0.0.0.0 comes without"
                                "; add --token TEXT or set DIFFOR_TOKEN, or bind to 127.0.0.1"),
        (["--token", "short"], "a token must have at least 16 letters, digits or signs without spaces, but it has "
                               "5 characters"),
        (["--port", "70000"], "argument --port: must be a whole number from 0 to 65535, but got '70000'"),
        (["--wait-ms", "-1"], "argument --wait-ms: must be a number from 0 to 1000, but got '-1'"),
        (["--drain-seconds", "-1"], "argument --drain-seconds: must be a number from 0 to 3600, but got '-1'"),
        (["--max-per-client", "0"], "argument --max-per-client: must be a whole number from 1 on"),
        (["--examples", "none.csv"], "none.csv"),
        (["--max-rows", "0"], "argument --max-rows: must be a whole number from 1 on"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line(flat_model, refused, monkeypatch, words, message):
    monkeypatch.delenv("DIFFOR_TOKEN", raising=False)
    assert message in refused("serve", flat_model[0], *words)


def test_models_without_names_and_folders_without_models_are_refused(here, refused):
    model = DiffoRRegressor("fast", **{**QUICK, "max_steps": 2})
    model.fit(np.arange(40.0)[:, None], np.arange(40.0)).save("nameless")
    assert "must know its columns by name, but it was fitted on rows without names" in refused("serve", "nameless")
    assert "none is not a folder" in refused("serve", "none")


def test_a_missing_extra_names_its_cure(flat_model, tmp_path):
    (tmp_path / "fastapi.py").write_text("raise ImportError('no fastapi')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "diffor", "serve", str(flat_model[0]), "--port", "0"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.strip() == (
        'diffor: error: serving needs FastAPI, uvicorn and python-multipart: pip install "diffor[serve]"'
    )
