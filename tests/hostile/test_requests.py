"""A server that anything is sent to: every answer is one that it means, its log holds no failure, and it goes on."""

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from odd_requests import Requests
from odd_requests import answer_to as send
from serving import serve

pytest.importorskip("uvicorn")

N_REQUESTS = 400
SEEDS = (20_261, 20_262)
MEANT = {100, 200, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 431, 503, 504}
"""Statuses that the server gives on purpose; 500 is not one of them."""
STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ")


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_sent_is_answered_on_purpose(flat_model, hostile_scale, seed):
    requests, statuses, strange = Requests(seed), Counter(), []
    n = N_REQUESTS // len(SEEDS) * hostile_scale
    with serve(flat_model[0], "--max-rows", "300", "--max-seconds", "20") as running, ThreadPoolExecutor(4) as pool:
        port = int(running.address.rsplit(":", 1)[1])

        def play(sent):
            return sent, send(sent, port, time.sleep)

        for first in range(0, n, 100):
            for sent, told in pool.map(play, [requests.make() for _ in range(min(100, n - first))]):
                found = STATUS.match(told)
                status = int(found.group(1)) if found else 0
                statuses[sent.kind, status] += 1
                if (status and status not in MEANT) or told == b"timeout" or (sent.is_right and status != 200):
                    strange.append((status, sent.kind, told[-300:], sent.pieces[0][:300]))
            with running.client() as client:
                assert client.get("/health").json()["status"] == "ok"
                assert running.process.poll() is None
        with running.client() as client:
            figures = client.get("/metrics").text
        running.process.terminate()
        errors = running.process.communicate(timeout=60)[1]
    print(n, dict(sorted(statuses.items())))
    assert strange == []
    assert "Traceback" not in errors, errors
    assert "diffor_waiting_rows 0" in figures  # nothing was left behind
    assert 'status="500"' not in figures
    assert len(errors.splitlines()) < 60 + n
    assert sum(statuses.values()) == n
    assert {kind for kind, _ in statuses} >= {"right", "wrong_rows", "damaged_text", "chunks", "cut_short"}
    assert statuses["right", 200] > 0
    assert statuses["wrong_rows", 422] > 0
