"""Image models behind the application: uploads, columns beside them, and files that are none."""

import io
import json
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("PIL")

from image_examples import TINY
from PIL import Image
from serving import send, told

from diffor import DiffoRRegressor
from diffor.serving.server import pictures
from diffor.serving.server.description import Limits


def post(model, *contents, **settings):
    return send(model, *(("POST", "/predict", content) for content in contents), **settings)


def upload(*paths):
    return [("images", (path.rsplit("/", 1)[-1], open(path, "rb").read())) for path in paths]


def test_images_are_answered_as_files_are(face_model, faces, served_faces):
    paths = faces[1][:3]
    with served_faces.client() as client:
        answer = client.post("/predict", files=upload(*paths), data={"coverage": "0.8", "quantiles": "[0.5]"})
        assert answer.status_code == 200, answer.text
        assert client.get("/model").json()["images"] == {"side": 16}
        assert client.post("/trajectory", files=upload(paths[0])).status_code >= 400  # there is no chain
        document = client.get("/openapi.json").json()
    found = answer.json()["predictions"]
    assert np.array([one["point"] for one in found]) == pytest.approx(face_model.predict(paths), rel=1e-5)
    expected = face_model.predict_interval(paths, coverage=0.8)
    assert np.array([one["interval"] for one in found]) == pytest.approx(expected, rel=1e-5)
    assert "multipart/form-data" in document["paths"]["/predict"]["post"]["requestBody"]["content"]


def test_large_photos_are_decoded_as_files_are(face_model, tmp_path):
    random = np.random.default_rng(0)
    path = str(tmp_path / "photo.jpg")
    Image.fromarray(random.integers(0, 255, (300, 240, 3)).astype(np.uint8)).save(path)
    (answer,) = post(face_model, {"files": upload(path)})
    assert answer.json()["predictions"][0]["point"] == pytest.approx(face_model.predict([path])[0], rel=1e-6)


def test_columns_beside_images(faces):
    _, paths, y = faces
    table = pd.DataFrame({"path": paths, "height": np.linspace(1, 2, len(paths))})
    model = DiffoRRegressor("fast", bounds=(0, 100), **{**TINY, "max_steps": 5}).fit(table, y)
    rows = [{"height": height} for height in table["height"][:2]]
    good, few, none = post(
        model,
        {"files": upload(*paths[:2]), "data": {"rows": json.dumps(rows)}},
        {"files": upload(*paths[:2]), "data": {"rows": json.dumps(rows[:1])}},
        {"files": upload(*paths[:2])},
    )
    points = [one["point"] for one in good.json()["predictions"]]
    assert points == pytest.approx(model.predict(table[:2]).tolist(), rel=1e-5)
    assert told(few) == "each image must have its row, but there are 2 images and 1 rows"
    assert none.json()["detail"][0]["type"] == "missing_rows"


def file(name, data):
    return {"files": [("images", (name, data))]}


def as_file(image, kind, **settings):
    content = io.BytesIO()
    image.save(content, kind, **settings)
    return content.getvalue()


def test_what_is_no_image_is_refused(face_model, faces, monkeypatch):
    path = faces[1][0]
    monkeypatch.setattr(pictures, "MAX_PIXELS", 16 * 18)
    whole = as_file(Image.open(path), "PNG")
    before = threading.active_count()
    cases = [
        (file("note.txt", b"hello"), 422, "image 0, 'note.txt', must be a whole image, but its format is not known; "
                                          "send a PNG or JPEG file, say"),
        (file("half.png", whole[: len(whole) // 2]), 422, "image_0 must be a whole image, but "),  # its head is whole
        (file("wide.png", as_file(Image.new("RGB", (17, 18)), "PNG")), 422, "image 0, 'wide.png', must have at most "
                                          "288 pixels, but it has 17 x 18; make it smaller"),
        ({"files": upload(path, path, path)}, 413, "a request must have at most 2 images, but it has 3"),
        ({"files": {"x": ("", b"")}, "data": {"coverage": "0.9"}}, 422, "x must be JSON, but "),
        ({"files": {"coverage": (None, "0.9")}}, 422, "a request must have an image, but it has none; send them as"),
        ({"files": [("picture", ("a.png", b"a"))]}, 422, "files must be called images, but got 'picture'"),
        ({"json": {"rows": [{}]}}, 415, "this model reads images, but the content is 'application/json'"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=y"}}, 422, "a form must be "),
    ]  # fmt: skip
    answers = post(face_model, *(content for content, *_ in cases), limits=Limits(max_images=2))
    for answer, (_, status, message) in zip(answers, cases, strict=True):
        assert answer.status_code == status
        assert told(answer).startswith(message)
    assert threading.active_count() <= before + 1


def test_small_files_that_unfold_to_much_are_refused_before_they_do(face_model):
    large = as_file(Image.new("L", (7000, 7000)), "PNG")
    assert len(large) < 100_000
    header = bytearray(as_file(Image.new("1", (8, 8)), "BMP"))
    header[18:26] = (60_000).to_bytes(4, "little") * 2  # it only says that it is so large
    three, bomb = post(
        face_model,
        {"files": [("images", (f"{place}.png", large)) for place in range(3)]},
        file("bomb.bmp", bytes(header)),
    )
    assert (three.status_code, told(three)) == (
        413,
        "the images of a request must have at most 100,000,000 pixels together, but they have 147,000,000; send them "
        "in several",
    )
    assert bomb.status_code == 422
    assert "image 0, 'bomb.bmp', must" in told(bomb)


def test_formats_that_few_use_are_not_even_opened(face_model):
    square, kinds = Image.new("RGB", (16, 16), "red"), ("EPS", "PPM", "ICO", "TGA", *pictures.FORMATS)
    answers = post(face_model, *(file("a", as_file(square, kind)) for kind in kinds))
    assert [answer.status_code for answer in answers] == [422] * 4 + [200] * len(pictures.FORMATS)
    assert all("its format is not known; send a PNG or JPEG file, say" in told(answer) for answer in answers[:4])


def test_a_file_name_is_shown_but_leads_nowhere(face_model, faces):
    content = Path(faces[1][0]).read_bytes()
    good, bad = post(face_model, file("../../etc/passwd\0<script>", content), file("x" * 5000, b"no"))
    assert good.status_code == 200
    assert len(told(bad)) < 250
