"""A server that anything is sent to: every answer is one that it means, its log holds no failure, and it goes on."""

import io
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from odd_requests import Requests
from odd_requests import answer_to as send
from odd_uploads import Uploads
from serving import serve

pytest.importorskip("uvicorn")

N_REQUESTS, N_UPLOADS = 300, 120
SEEDS = (20_261, 20_262)
MEANT = {100, 200, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 431, 503, 504}
"""Statuses that the server gives on purpose; 500 is not one of them."""
STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ")


def play(requests, n, folder, *words):
    """Send ``n`` requests to a server of the model in a folder; how often each kind had each status."""
    statuses, strange = Counter(), []

    def send_one(sent):
        return sent, send(sent, port, time.sleep)

    with serve(folder, "--max-seconds", "20", *words) as running, ThreadPoolExecutor(4) as pool:
        port = int(running.address.rsplit(":", 1)[1])
        for first in range(0, n, 100):
            for sent, told in pool.map(send_one, [requests.make() for _ in range(min(100, n - first))]):
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
    assert len(errors.splitlines()) < 60 + n
    assert "diffor_waiting_rows 0" in figures  # nothing was left behind
    assert 'status="500"' not in figures
    assert sum(statuses.values()) == n
    return statuses


def test_whatever_is_sent_is_answered_on_purpose(flat_model, hostile_scale):
    for seed in SEEDS[:hostile_scale]:
        statuses = play(Requests(seed), N_REQUESTS * hostile_scale, flat_model[0], "--max-rows", "300")
        assert {kind for kind, _ in statuses} >= {"right", "wrong_rows", "damaged_text", "chunks", "cut_short"}
        assert statuses["right", 200] > 0
        assert statuses["wrong_rows", 422] > 0


def test_whatever_is_uploaded_is_answered_on_purpose(face_model, hostile_scale, tmp_path):
    images = pytest.importorskip("PIL.Image")
    face_model.save(tmp_path / "faces")
    picture = images.effect_noise((24, 20), 60)
    files = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        file = io.BytesIO()
        (picture.convert("RGB") if kind != "GIF" else picture.convert("P")).save(file, kind)
        files.append(file.getvalue())
    statuses = play(Uploads(SEEDS[0], files), N_UPLOADS * hostile_scale, tmp_path / "faces")
    assert statuses["right", 200] > 0
    assert statuses["damaged_image", 422] > 0
