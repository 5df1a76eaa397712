"""Who may ask under which name and from which page, and what every answer carries."""

import asyncio

import httpx
import pytest
from serving import make_app, told
from serving import send as send_to

pytest.importorskip("fastapi")

from diffor.serving.server.description import Limits
from diffor.serving.server.gates import HELD, SAFE_HEADERS

HOSTS = ["127.0.0.1", "[::1]", "localhost", "flats.example"]


def send(model, *requests, hosts=HOSTS):
    return send_to(model, *requests, hosts=hosts)


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
    assert told(answers[-1]) == (
        "only the server's own page may ask from a browser, but the header Origin is 'file://'; ask from a program, "
        "or through a server of your own"
    )


def test_rows_must_be_called_json(flat_model, row):
    kinds = ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"]
    *refused, good = send(
        flat_model[1],
        ("POST", "/predict", {"content": b"{}"}),
        *(("POST", "/predict", {"content": b"{}", "headers": {"Content-Type": kind}}) for kind in kinds),
        ("POST", "/predict", {"json": {"rows": [row]}, "headers": {"Content-Type": "Application/JSON; charset=utf-8"}}),
    )
    for kind, answer in zip(["", *kinds], refused, strict=True):
        assert answer.status_code == 415
        assert f"but the content is {kind!r}; send JSON as" in told(answer)
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
        app = make_app(flat_model[1], Limits(max_bytes=1000, max_seconds=5))
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
    assert "at most 32000 bytes can be held" in told(refused)
    assert set(held) == {422}
    assert after.status_code == 422
