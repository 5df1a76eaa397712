"""Requests that cost most for their size: each is answered or refused, and meanwhile the server answers others."""

import json
import threading
import time

import pytest
from serving import as_rows, make_flats

pytest.importorskip("uvicorn")

LIMIT = 8 * 2**20
HEALTH_SECONDS = 0.05
"""Within which the server's health is told while it reads any body, beyond what it takes when it does nothing else."""
ATTEMPTS = 5
"""A busy machine may be late at any time, but what holds the server up does so each time."""
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
    "lists in a row": filled(b"[]", b'{"rows":[{"size":[', b"]}]}"),
    "a list in each row": filled(b'{"size":[{"a":[]}]}', b'{"rows":[', b"]}"),
    "fractions": filled(b"1.5"),
    "texts": filled(b'"ab"', b'{"rows":[{"size":[', b"]}]}"),
    "spaces": b'{"rows":[' + b" " * (LIMIT - 100) + b"]}",
    "escapes": b'{"rows":["' + b"\\u00e9" * (LIMIT // 6 - 100) + b'"]}',
    "new levels": b'{"rows":[' + b",".join(b'{"size":1,"rooms":1,"city":"%s"}' % (b"%d" % n * 6000) for n in range(300))
                  + b"]}",
}  # fmt: skip


class Asking(threading.Thread):
    """Asks for a server's health again and again, and remembers what took longest."""

    def __init__(self, client):
        super().__init__()
        self.client, self.is_over, self.slowest, self.n = client, threading.Event(), 0.0, 0

    def run(self):
        while not self.is_over.is_set():
            started = time.monotonic()
            assert self.client.get("/health").status_code == 200
            self.slowest, self.n = max(self.slowest, time.monotonic() - started), self.n + 1

    def __enter__(self):
        self.start()
        while self.n < 2 and self.is_alive():  # the first opens the connection
            time.sleep(0.001)
        self.slowest = 0.0
        return self

    def __exit__(self, *error):
        n = self.n
        while self.n < n + 2 and self.is_alive():
            time.sleep(0.001)
        self.is_over.set()
        self.join()


@pytest.mark.parametrize("name", WORST)
def test_health_is_told_at_once_beside_the_worst_bodies(served, name):
    body, found = WORST[name][:LIMIT], []
    with served.client() as client, served.client() as other:
        for _ in range(ATTEMPTS):
            with Asking(client) as idle:
                time.sleep(0.1)
            with Asking(client) as busy:
                answer = other.post("/predict", content=body, headers=JSON)
            assert answer.status_code in (200, 413, 422)
            assert answer.status_code == 200 or len(answer.content) < 20_000
            found.append((busy.slowest, idle.slowest))
            if busy.slowest < HEALTH_SECONDS + idle.slowest:
                return
    pytest.fail(f"health took {found} s, beside the body and without it")


def test_a_large_request_is_read_beside_the_loop_and_answered_as_small_ones_are(served):
    rows = as_rows(make_flats(n=300, seed=1)[0])
    body = json.dumps({"rows": rows}, indent=8)
    assert len(body) > 2**15
    with served.client() as client:
        whole = client.post("/predict", content=body, headers=JSON).json()["predictions"]
        each = [client.post("/predict", json={"rows": [row]}).json()["predictions"][0] for row in rows[:3]]
    assert len(whole) == 300
    for ours, theirs in zip(whole[:3], each, strict=True):
        assert ours["point"] == pytest.approx(theirs["point"], rel=1e-5)
