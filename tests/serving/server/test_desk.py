"""Requests that cost most for their size: each is answered or refused, and meanwhile the server answers others."""

import json
import threading
import time

import pytest
from serving import as_rows, make_flats, serve

pytest.importorskip("uvicorn")

LIMIT = 8 * 2**20
HEALTH_SECONDS = 8.0
"""Far more than it takes, even beside many others, and far less than any of these requests took before."""
JSON = {"Content-Type": "application/json"}


def filled(piece, start=b"[", end=b"]"):
    """A body of about the largest size, made of one piece again and again."""
    return start + b",".join([piece] * ((LIMIT - 100) // (len(piece) + 1))) + end


def distinct(n, start=b'{"rows":[{', end=b"}]}"):
    return start + b",".join(b'"%x":0' % place for place in range(n)) + end


WORST = {
    "ten thousand unknown names": distinct(10_000),
    "as many unknown names as fit": distinct(800_000),
    "names of options": distinct(800_000, b"{", b"}"),
    "empty lists": filled(b"[]"),
    "empty rows": filled(b"{}", b'{"rows":[', b"]}"),
    "a thousand empty rows": b'{"rows":[' + b",".join([b"{}"] * 300) + b"]}",
    "one long text": b'{"rows":[{"size":"' + b"9" * (LIMIT - 100) + b'","rooms":1,"city":null}]}',
    "long numbers": filled(b"9" * 4000),
    "one very long number": b'{"rows":[{"size":' + b"9" * (LIMIT - 100) + b"}]}",
    "deep": b"[" * (LIMIT - 10),
    "a level of each quantile": filled(b"0.5", b'{"rows":[],"quantiles":[', b"]}"),
    "wrong values": b'{"rows":[' + b",".join([b'{"size":[],"rooms":"x","city":{}}'] * 300) + b"]}",
    "new levels": b'{"rows":[' + b",".join(b'{"size":1,"rooms":1,"city":"%s"}' % (b"%d" % n * 6000) for n in range(300))
                  + b"]}",
}  # fmt: skip


@pytest.fixture(scope="module")
def hurried(flat_model):
    with serve(flat_model[0], "--max-rows", "300") as running:
        yield running


@pytest.mark.parametrize("name", WORST)
def test_others_are_answered_beside_the_worst_bodies(hurried, name):
    body, slowest, is_over = WORST[name][:LIMIT], [0.0], threading.Event()

    def ask_on():
        with hurried.client() as client:
            while not is_over.is_set():
                started = time.monotonic()
                assert client.get("/health").status_code == 200
                slowest.append(time.monotonic() - started)

    asking = threading.Thread(target=ask_on)
    asking.start()
    while len(slowest) < 2 and asking.is_alive():  # small bodies may be answered before the first question
        time.sleep(0.01)
    with hurried.client() as client:
        for _ in range(2):
            answer = client.post("/predict", content=body, headers=JSON)
            assert answer.status_code in (200, 413, 422)
            assert answer.status_code == 200 or len(answer.content) < 20_000
    is_over.set()
    asking.join()
    assert len(slowest) > 1
    assert max(slowest) < HEALTH_SECONDS


def test_a_large_answer_is_the_same_as_small_ones(served):
    rows = as_rows(make_flats(n=40, seed=1)[0])
    with served.client() as client:
        whole = client.post("/predict", json={"rows": rows}).json()["predictions"]
        each = [client.post("/predict", json={"rows": [row]}).json()["predictions"][0] for row in rows[:3]]
    assert len(whole) == 40
    for ours, theirs in zip(whole[:3], each, strict=True):
        assert ours["point"] == pytest.approx(theirs["point"], rel=1e-5)


def test_a_large_request_is_read_beside_the_loop(served):
    rows = as_rows(make_flats(n=300, seed=1)[0])
    body = json.dumps({"rows": rows}, indent=8)
    assert len(body) > 2**15
    with served.client() as client:
        assert len(client.post("/predict", content=body, headers=JSON).json()["predictions"]) == 300
