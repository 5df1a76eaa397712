"""Figures as Prometheus reads them."""

import re

import httpx
import pytest
from serving import as_rows, make_flats, serve_here

pytest.importorskip("fastapi")

from diffor.serving.server.metrics import Histogram, figure

LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[0-9.e+-]+|\+Inf)$')


def read(text):
    """Values by name and labels, from a text that has the right form."""
    found, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("#"):
            _, word, name, rest = line.split(" ", 3)
            if word == "TYPE":
                assert name not in kinds, "each has its type once"
                kinds[name] = rest
            continue
        name, labels, value = LINE.match(line).groups()
        assert re.sub("_(bucket|sum|count)$", "", name) in kinds or name in kinds
        assert (name, labels) not in found
        found[name, labels] = float(value)
    return found, kinds


def test_text_has_the_form_that_is_asked_for():
    histogram = Histogram([0.1, 1])
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe(value)
    lines = [*figure("a_total", "A.", {('a"b\\c\nd', "x"): 2, ("\ud800", ""): 1}, "path", "status"),
             *histogram.to_text("b", "B."), *figure("c", "C.", 0.25), *figure("d", "D.", {}, "path")]  # fmt: skip
    assert lines == [
        "# HELP a_total A.",
        "# TYPE a_total counter",
        'a_total{path="a\\"b\\\\c\\nd",status="x"} 2',
        'a_total{path="\\\\ud800",status=""} 1',
        "# HELP b B.",
        "# TYPE b histogram",
        'b_bucket{le="0.1"} 2',
        'b_bucket{le="1"} 3',
        'b_bucket{le="+Inf"} 4',
        "b_sum 7.65",
        "b_count 4",
        "# HELP c C.",
        "# TYPE c gauge",
        "c 0.25",
    ]


def test_a_server_tells_what_it_did(flat_model):
    rows = as_rows(make_flats(n=700, seed=1)[0])
    with serve_here(flat_model[1]) as here, httpx.Client(base_url=here.address, timeout=60) as client:
        client.post("/predict", json={"rows": rows[:3]})
        client.post("/predict", json={"rows": [{**rows[0], "size": 1e6, "city": "Paris"}]})
        client.post("/predict", json={"rows": [{}]})
        for path in ("/wp-admin", "/.env", "/health"):
            client.get(path)
        answer = client.get("/metrics")
        found, kinds = read(answer.text)
        client.post("/predict", json={"rows": rows})
        client.post("/predict", json={"rows": [{**row, "size": (row["size"] or 50) + 60} for row in rows]})
        moved, _ = read(client.get("/metrics").text)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert found["diffor_requests_total", 'path="/predict",status="200"'] == 2
    assert found["diffor_requests_total", 'path="/predict",status="422"'] == 1
    assert found["diffor_requests_total", 'path="other",status="404"'] == 2
    assert found["diffor_rows_total", None] == 4
    assert found["diffor_refusals_total", 'reason="missing_column"'] == 1
    assert found["diffor_request_seconds_count", None] == 3
    assert found["diffor_batch_rows_sum", None] == 4
    assert found["diffor_waiting_rows", None] == 0
    assert found["diffor_connections", None] >= 1
    assert found["diffor_input_values_total", 'column="size"'] == 4
    assert found["diffor_input_outside_total", 'column="size"'] == 1
    assert found["diffor_input_outside_total", 'column="city"'] == 1
    assert kinds["diffor_request_seconds"] == "histogram"
    assert ("diffor_input_drift", 'column="size"') not in found  # too few rows to tell
    assert moved["diffor_input_drift", 'column="size"'] > 0.25
    assert moved["diffor_prediction_drift", None] > 0
