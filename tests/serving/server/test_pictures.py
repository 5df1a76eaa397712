"""Image models behind the application: uploads, columns beside them, and files that are none."""

import asyncio
import io
import json
import threading
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("PIL")

from image_examples import TINY
from PIL import Image
from serving import serve

from diffor import DiffoRRegressor
from diffor.serving.server import pictures
from diffor.serving.server.application import make_application
from diffor.serving.server.description import Limits


def send(model, *requests, **settings):
    """The answers to several requests that come one after the other."""

    async def ask():
        app = make_application(model, **settings)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            answers = [await client.post(path, **content) for path, content in requests]
        await app.state.service.close()
        return answers

    return asyncio.run(ask())


def upload(*paths):
    return [("images", (path.rsplit("/", 1)[-1], open(path, "rb").read())) for path in paths]


def test_images_are_answered_as_files_are(face_model, faces, tmp_path):
    folder = tmp_path / "faces"
    face_model.save(folder)
    paths = faces[1][:3]
    with serve(folder) as running, running.client() as client:
        answer = client.post("/predict", files=upload(*paths), data={"coverage": "0.8", "quantiles": "[0.5]"})
        assert answer.status_code == 200, answer.text
        assert client.get("/model").json()["images"] == {"side": 16}
        assert client.post("/trajectory", files=upload(paths[0])).status_code >= 400  # there is no chain
        document = client.get("/openapi.json").json()
    told = answer.json()["predictions"]
    assert np.array([one["point"] for one in told]) == pytest.approx(face_model.predict(paths), rel=1e-5)
    expected = face_model.predict_interval(paths, coverage=0.8)
    assert np.array([one["interval"] for one in told]) == pytest.approx(expected, rel=1e-5)
    assert "multipart/form-data" in document["paths"]["/predict"]["post"]["requestBody"]["content"]


def test_large_photos_are_decoded_as_files_are(face_model, tmp_path):
    random = np.random.default_rng(0)
    path = str(tmp_path / "photo.jpg")
    Image.fromarray(random.integers(0, 255, (300, 240, 3)).astype(np.uint8)).save(path)
    (answer,) = send(face_model, ("/predict", {"files": upload(path)}))
    assert answer.json()["predictions"][0]["point"] == pytest.approx(face_model.predict([path])[0], rel=1e-6)


def test_columns_beside_images(faces):
    _, paths, y = faces
    table = pd.DataFrame({"path": paths, "height": np.linspace(1, 2, len(paths))})
    model = DiffoRRegressor("fast", bounds=(0, 100), **{**TINY, "max_steps": 5}).fit(table, y)
    rows = [{"height": height} for height in table["height"][:2]]
    good, few, none = send(
        model,
        ("/predict", {"files": upload(*paths[:2]), "data": {"rows": json.dumps(rows)}}),
        ("/predict", {"files": upload(*paths[:2]), "data": {"rows": json.dumps(rows[:1])}}),
        ("/predict", {"files": upload(*paths[:2])}),
    )
    points = [one["point"] for one in good.json()["predictions"]]
    assert points == pytest.approx(model.predict(table[:2]).tolist(), rel=1e-5)
    assert few.json()["detail"][0]["msg"] == "each image must have its row, but there are 2 images and 1 rows"
    assert none.json()["detail"][0]["type"] == "missing_rows"


def cut_short(path):
    """The beginning of an image, whose header is whole."""
    whole = io.BytesIO()
    Image.open(path).save(whole, "PNG")
    return whole.getvalue()[: len(whole.getvalue()) // 2]


def test_what_is_no_image_is_refused(face_model, faces, monkeypatch):
    path = faces[1][0]
    monkeypatch.setattr(pictures, "MAX_PIXELS", 16 * 18)
    wide = io.BytesIO()
    Image.new("RGB", (17, 18)).save(wide, "PNG")
    before = threading.active_count()
    text, short, large, many, none, name, rows, form = send(
        face_model,
        ("/predict", {"files": [("images", ("note.txt", b"hello"))]}),
        ("/predict", {"files": [("images", ("half.png", cut_short(path)))]}),
        ("/predict", {"files": [("images", ("wide.png", wide.getvalue()))]}),
        ("/predict", {"files": upload(path, path, path)}),
        ("/predict", {"files": {"x": ("", b"")}, "data": {"coverage": "0.9"}}),
        ("/predict", {"files": [("picture", ("a.png", b"a"))]}),
        ("/predict", {"json": {"rows": [{}]}}),
        ("/predict", {"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=y"}}),
        limits=Limits(max_images=2),
    )
    messages = [
        (answer.status_code, answer.json()["detail"][0]["msg"]) for answer in (text, short, large, many, name, rows)
    ]
    assert messages[0] == (422, "image 0, 'note.txt', must be a whole image, but its format is not known; send a "
                                "PNG or JPEG file, say")  # fmt: skip
    assert messages[1][0] == 422
    assert messages[1][1].startswith("image_0 must be a whole image, but ")
    assert messages[2] == (422, "image 0, 'wide.png', must have at most 288 pixels, but it has 17 x 18; make it "
                                "smaller")  # fmt: skip
    assert messages[3][0] == 413
    assert "at most 2 images, but it has 3" in messages[3][1]
    assert messages[4] == (422, "files must be called images, but got 'picture'")
    assert messages[5][0] == 415
    assert "this model reads images, but the content is 'application/json'" in messages[5][1]
    assert none.status_code == form.status_code == 422
    assert threading.active_count() <= before + 1


def as_file(image, kind, **settings):
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def test_small_files_that_unfold_to_much_are_refused_before_they_do(face_model):
    large = as_file(Image.new("L", (7000, 7000)), "PNG")
    assert len(large) < 100_000
    header = bytearray(as_file(Image.new("1", (8, 8)), "BMP"))
    header[18:26] = (60_000).to_bytes(4, "little") * 2  # it only says that it is so large
    three, bomb = send(
        face_model,
        ("/predict", {"files": [("images", (f"{place}.png", large)) for place in range(3)]}),
        ("/predict", {"files": [("images", ("bomb.bmp", bytes(header)))]}),
    )
    assert (three.status_code, three.json()["detail"][0]["msg"]) == (
        413,
        "the images of a request must have at most 100,000,000 pixels together, but they have 147,000,000; send them "
        "in several",
    )
    assert bomb.status_code == 422
    assert "image 0, 'bomb.bmp', must" in bomb.json()["detail"][0]["msg"]


def test_formats_that_few_use_are_not_even_opened(face_model):
    square = Image.new("RGB", (16, 16), "red")
    refused = send(face_model, *(("/predict", {"files": [("images", ("a", as_file(square, kind)))]})
                                 for kind in ("EPS", "PPM", "ICO", "TGA")))  # fmt: skip
    for answer in refused:
        assert answer.status_code == 422
        assert "its format is not known; send a PNG or JPEG file, say" in answer.json()["detail"][0]["msg"]
    good = send(face_model, *(("/predict", {"files": [("images", ("a", as_file(square, kind)))]})
                              for kind in pictures.FORMATS))  # fmt: skip
    assert [answer.status_code for answer in good] == [200] * len(pictures.FORMATS)


def test_a_file_name_is_shown_but_leads_nowhere(face_model, faces, tmp_path):
    content = Path(faces[1][0]).read_bytes()
    good, bad = send(
        face_model,
        ("/predict", {"files": [("images", ("../../etc/passwd\0<script>", content))]}),
        ("/predict", {"files": [("images", ("x" * 5000, b"no"))]}),
    )
    assert good.status_code == 200
    assert len(bad.json()["detail"][0]["msg"]) < 250
