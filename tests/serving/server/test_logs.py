"""Lines that the server writes, and that nobody can make it write without end."""

import io
import json
import logging
import socket

import pytest
from serving import serve

pytest.importorskip("uvicorn")

from diffor.serving.server.logs import Pace, PacedFilter


def test_a_pace_recovers_with_time():
    now = [0.0]
    pace = Pace(per_second=2, at_once=3, clock=lambda: now[0])
    assert [pace.lets_through() for _ in range(5)] == [True, True, True, False, False]
    now[0] = 1.0
    assert [pace.lets_through() for _ in range(3)] == [True, True, False]
    assert (pace.take_skipped(), pace.take_skipped()) == (3, 0)


def test_a_log_says_how_many_lines_it_leaves_out():
    now, stream = [0.0], io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(PacedFilter(Pace(1, 2, clock=lambda: now[0])))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for place in range(100):
        logger.warning("wrong %d", place)
    now[0] = 2.0
    logger.warning("wrong %d", 100)
    assert stream.getvalue().splitlines() == [
        "wrong 0",
        "wrong 1",
        "wrong 100 (and 98 lines before it that are left out)",
    ]


def test_each_request_is_a_line_of_json_if_wanted_and_a_flood_of_noise_a_few_lines(flat_model, row):
    with serve(flat_model[0], "--access-log") as running, running.client() as client:
        client.post("/predict", json={"rows": [row, row]})
        client.post("/predict", json={"rows": [{}]})
        client.get("/" + "x" * 1000)
        lines = [json.loads(running.process.stdout.readline()) for _ in range(3)]
        port = int(running.address.rsplit(":", 1)[1])
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"\x16\x03\x01 noise\r\n\r\n")
                connection.settimeout(30)
                connection.recv(1000)
        assert client.get("/health").status_code == 200
        running.process.terminate()
        errors = running.process.communicate(timeout=60)[1].splitlines()
    assert [(line["method"], line["status"], line["rows"]) for line in lines] == [
        ("POST", 200, 2),
        ("POST", 422, 0),
        ("GET", 404, 0),
    ]
    assert lines[0]["client"] == "127.0.0.1"
    assert lines[0]["ms"] > 0
    assert lines[1]["reason"] == "missing_column"
    assert len(lines[2]["path"]) == 200
    assert 10 < len(errors) < 180
    assert not any("Traceback" in line for line in errors)
