"""Bodies of requests: what is read, and what is none."""

import json

import pytest

pytest.importorskip("fastapi")

from diffor.serving.server.refusals import RefusedError
from diffor.serving.server.requests import SMALL_BYTES, parse_json

MANY = 10**6


def refused(text, max_values=MANY):
    with pytest.raises(RefusedError) as caught:
        parse_json(text, max_values)
    return caught.value


@pytest.mark.parametrize("n_spaces", [0, SMALL_BYTES])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "body must be JSON, but Expecting property name"),
        (b"\xff\xfe", "body must be JSON"),
        (b"NaN", "body must be JSON, but NaN is no JSON; send null for what is not known"),
        (b'[{"a":1,"b":Infinity}]', "body must be JSON, but Infinity is no JSON; send null for what is not known"),
        (b"[" * 100_000, "body must be JSON, but it is nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused(text, message, n_spaces):
    assert str(refused(b" " * n_spaces + text)).startswith(message)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "rows",
    [
        [{"size": 1.5, "rooms": 2, "city": "Oslo"}] * 2000,
        [{"size": None, "city": "} ] { [", "a": [], "b": {"c": [{}, []]}}] * 1000,
        [{"text": "{" * 50_000, "\u00e9": '"' * 10_000}, [[{"a": [{}]}]], {}, [], "}", 1e300, -3, True],
    ],
)
def test_large_bodies_are_read_as_small_ones_are(rows, encoding):
    text = json.dumps({"rows": rows, "quantiles": [0.5]}, indent=1)
    assert parse_json(text.encode(encoding), MANY) == json.loads(text)
    for damaged in (text[:-1], text.replace(",", ",,", 1), text[:-2] + "]"):
        with pytest.raises(ValueError, match=r"^E") as caught:
            json.loads(damaged)
        assert str(refused(damaged.encode(encoding))) == f"body must be JSON, but {caught.value}"


def test_more_values_than_any_request_needs_are_not_read():
    error = refused(b"[" + b"0," * 40_000 + b"0]", max_values=1000)
    assert (error.status, error.problems[0]["type"]) == (413, "too_many_values")
    assert str(error) == "a request must have at most 1,000 values, but it has more; send it in several"
