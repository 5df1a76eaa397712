"""Who may ask under which name and from which page, and what every answer carries."""

import asyncio

import httpx
import pytest
from serving import as_rows, make_flats

pytest.importorskip("fastapi")

from diffor.serving.server.application import serve_loaded
from diffor.serving.server.description import Limits
from diffor.serving.server.gates import HELD, SAFE_HEADERS
from diffor.serving.server.loaded import Identity, Loaded
from diffor.serving.server.metrics import Metrics

HOSTS = ["127.0.0.1", "[::1]", "localhost", "flats.example"]


@pytest.fixture(scope="module")
def row():
    return as_rows(make_flats()[0])[0]


def send(model, *requests, hosts=HOSTS, limits=None):
    """The answers to requests, each a method, a path, and what else httpx takes."""

    async def ask():
        metrics, bounds = Metrics(), limits or Limits()
        app = serve_loaded(Loaded(model, None, bounds, 0, {}, Identity("flats"), metrics), bounds, metrics, hosts=hosts)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            answers = [await client.request(method, path, **more) for method, path, more in requests]
        await app.state.service.close()
        return answers

    return asyncio.run(ask())


def named(host, path="/model"):
    return ("GET", path, {"headers": {"Host": host}})


def test_only_its_own_names_reach_it(flat_model):
    mine = ("127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "flats.example")
    others = ("rebound.example:8000", "127.0.0.1.example", "localhost.example", "[::2]", "", "flats.example.other")
    answers = send(flat_model[1], *(named(host) for host in (*mine, *others)))
    assert [answer.status_code for answer in answers] == [200] * len(mine) + [421] * len(others)
    assert answers[len(mine)].json()["detail"][0] == {
        "type": "host",
        "loc": ["header", "Host"],
        "msg": "a request must name this server as 127.0.0.1 or [::1] or flats.example or localhost, but the header "
        "Host is 'rebound.example:8000'; ask under such a name, or start the server with --allow-host",
    }
    health, page = send(flat_model[1], named("10.0.0.7", "/health"), named("10.0.0.7", "/"))
    assert (health.status_code, page.status_code) == (200, 421)
    (anywhere,) = send(flat_model[1], named("rebound.example"), hosts=None)
    assert anywhere.status_code == 200


def test_other_pages_may_not_ask(flat_model, row):
    mine = ("http://127.0.0.1:8000", "https://flats.example")
    others = ("http://127.0.0.1:9000", "http://localhost:8000", "https://evil.example", "null", "file://")
    answers = send(
        flat_model[1],
        *(
            ("POST", "/predict", {"json": {"rows": [row]}, "headers": {"Origin": origin}})
            for origin in (*mine, *others)
        ),
    )
    assert [answer.status_code for answer in answers] == [200] * len(mine) + [403] * len(others)
    assert answers[-1].json()["detail"][0]["msg"] == (
        "only the server's own page may ask from a browser, but the header Origin is 'file://'; ask from a program, "
        "or through a server of your own"
    )


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"])
def test_rows_must_be_called_json(flat_model, row, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    (refused,) = send(flat_model[1], ("POST", "/predict", {"content": b'{"rows":[]}', "headers": headers}))
    assert refused.status_code == 415
    assert f"but the content is {kind or ''!r}; send JSON as" in refused.json()["detail"][0]["msg"]
    (good,) = send(
        flat_model[1],
        ("POST", "/predict", {"json": {"rows": [row]}, "headers": {"Content-Type": "Application/JSON; charset=utf-8"}}),
    )
    assert good.status_code == 200


def test_every_answer_carries_what_keeps_browsers_in_bounds(flat_model, row):
    paths = ("/", "/page/page.js", "/model", "/health", "/metrics", "/none")
    asked = [
        ("POST", "/predict", {"json": {"rows": [row]}}),
        named("evil.example"),
        *(("GET", path, {}) for path in paths),
    ]
    for answer in send(flat_model[1], *asked):
        for name, value in SAFE_HEADERS.items():
            assert answer.headers[name] == value
    policy = SAFE_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_bodies_that_are_held_are_bounded_together(flat_model, row):
    async def ask():
        limits, metrics = Limits(max_bytes=1000, max_seconds=5), Metrics()
        app = serve_loaded(Loaded(flat_model[1], None, limits, 0, {}, Identity("flats"), metrics), limits, metrics)
        go_on = asyncio.Event()

        async def slowly():
            yield b" " * 900
            await go_on.wait()
            yield b"{}"

        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Content-Type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            asking = [
                asyncio.create_task(client.post("/predict", content=slowly(), headers=headers))
                for _ in range(HELD * 1000 // 900)
            ]
            await asyncio.sleep(0.2)
            refused = await client.post("/predict", content=b" " * 900, headers=headers)
            go_on.set()
            held = [(await one).status_code for one in asking]
            after = await client.post("/predict", content=b" " * 900, headers=headers)
        await app.state.service.close()
        return refused, held, after

    refused, held, after = asyncio.run(ask())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "at most 32000 bytes can be held" in refused.json()["detail"][0]["msg"]
    assert set(held) == {422}
    assert after.status_code == 422
