"""What docs/serving.md shows is what the server takes and gives."""

import json
import re
from pathlib import Path

import pytest
from serving import predict

pytest.importorskip("fastapi")

from diffor.serving.server.description import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()


def test_the_examples_are_those_of_a_real_server(flat_model):
    request, answer, refusal = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))

    without_city = {name: value for name, value in request["rows"][0].items() if name != "city"}
    good, bad = (found.json() for found in predict(flat_model[1], request, {"rows": [without_city]}))
    assert list(good) == list(answer)
    (found,), (shown,) = good["predictions"], answer["predictions"]
    assert list(found) == list(shown)
    assert list(found["quantiles"]) == list(shown["quantiles"])
    assert len(found["increments"]) == len(shown["increments"])
    assert bad == refusal


def test_the_limits_are_those_of_the_code():
    limits = Limits()
    assert f"rows of a request: {limits.max_rows:,}" in PAGE
    assert f"{limits.max_bytes // 2**20} MiB ({limits.max_images} images at most)" in PAGE
    assert f"{limits.max_seconds:g} s" in PAGE
    assert f"rows of all requests that wait: {limits.max_waiting:,}" in PAGE
