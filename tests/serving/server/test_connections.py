"""Clients that connect and do not ask: real sockets to a real server, with small limits where time counts."""

import socket

import httpx
import pytest
from serving import serve_here, told, until

pytest.importorskip("uvicorn")

from diffor.serving.server.connections import FREE_PIECES, MEAN_PIECE, Places

HALF = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PROBE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Clients:
    """Connections that stay open until the test is over."""

    def __init__(self, port):
        self.port, self.open = port, []

    def connect(self, content=b"", source="127.0.0.1"):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))
        connection.sendall(content)
        self.open.append(connection)
        return connection

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for connection in self.open:
            connection.close()


def read_all(connection):
    """What comes until the other side closes; an end by force is one too."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


def read_to(connection, words):
    """What comes until these words have."""
    found = b""
    while words not in found:
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


def test_six_hundred_half_sent_heads_lock_nobody_out(served, row):
    with Clients(int(served.address.rsplit(":", 1)[1])) as clients, served.client() as client:
        for _ in range(600):
            clients.connect(HALF)
        assert client.get("/health").status_code == 200
        assert client.post("/predict", json={"rows": [row]}).status_code == 200
        for _ in range(300):  # and those who come later find no one locked in either
            clients.connect(HALF)
        assert client.post("/predict", json={"rows": [row]}).status_code == 200


def test_a_head_that_does_not_come_ends_its_connection(flat_model):
    places = Places(head_seconds=0.3, idle_seconds=1)
    with serve_here(flat_model[1], places) as here, Clients(here.port) as clients:
        silent, half, second = clients.connect(), clients.connect(HALF), clients.connect(PROBE)
        read_to(second, b'"status":"ok"')
        second.sendall(HALF)  # the second request of a connection is no better than the first
        for connection in (silent, half, second):
            assert read_all(connection).startswith(b"HTTP/1.1 408")
        idle = clients.connect(PROBE)
        answered = read_all(idle)
        assert answered.startswith(b"HTTP/1.1 200")
        assert b"408" not in answered
        until(lambda: len(here.service.guard) == 0)


def test_one_client_cannot_take_all_places(flat_model, row):
    places = Places(n_all=6, n_of_client=4)
    with serve_here(flat_model[1], places) as here, Clients(here.port) as clients:
        first = [clients.connect(HALF, source="127.0.0.2") for _ in range(4)]
        until(lambda: len(here.service.guard) == 4)
        other = clients.connect(HALF, source="127.0.0.3")
        until(lambda: len(here.service.guard) == 5)
        clients.connect(HALF, source="127.0.0.2")
        assert read_all(first[0]) == b""  # its own oldest makes room
        until(lambda: here.service.guard.n_sent_away == 1)
        clients.connect(HALF, source="127.0.0.4")
        until(lambda: len(here.service.guard) == 6)
        clients.connect(HALF, source="127.0.0.5")  # all are taken: who has most loses one, not who has waited longest
        assert read_all(first[1]) == b""
        other.settimeout(0.2)
        with pytest.raises(TimeoutError):
            other.recv(1)


def test_a_place_is_kept_for_health(flat_model, row):
    places = Places(n_all=2, n_of_client=2, n_spare=2)
    with serve_here(flat_model[1], places) as here, Clients(here.port) as clients:
        busy = [clients.connect(HEAD + b"Content-Length: 50\r\n\r\n{") for _ in range(2)]
        until(lambda: len(here.service.guard) == 2 and here.service.guard.n_waited_for == 0)
        for _ in range(5):  # those who only hold the spare places lose them
            clients.connect(HALF)
        health = httpx.get(here.address + "/health")
        assert (health.status_code, health.headers["connection"]) == (200, "close")
        assert httpx.get(here.address + "/ready").status_code == 200
        refused = httpx.post(here.address + "/predict", json={"rows": [row]})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert told(refused) == (
            "a server must have a place for each connection, but all are taken; try again in a moment"
        )
        busy[0].close()
        until(lambda: httpx.post(here.address + "/predict", json={"rows": [row]}).status_code == 200)


def test_who_does_not_read_an_answer_is_let_go(flat_model, row):
    body = b'{"rows":[' + b",".join([b'{"size":1,"rooms":2,"city":null}'] * 1000) + b'],"quantiles":['
    body += b",".join(b"0.%03d" % place for place in range(250)) + b"]}"
    places = Places(unread_seconds=0.5)
    with serve_here(flat_model[1], places) as here, Clients(here.port) as clients:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", here.port))
        clients.open.append(deaf)
        deaf.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: here.service.guard.n_sent_away == 1)
        until(lambda: len(here.service.guard) == 0)


def chunked(piece, count):
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"%x\r\n%s\r\n" % (len(piece), piece)) * count


def test_bodies_in_crumbs_are_refused(flat_model):
    with serve_here(flat_model[1]) as here, Clients(here.port) as clients:
        crumbs = clients.connect(chunked(b" ", FREE_PIECES + 1))
        assert read_all(crumbs).startswith(b"HTTP/1.1 400")
        whole = clients.connect(chunked(b" " * MEAN_PIECE, FREE_PIECES + 1) + b"0\r\n\r\n")
        read_to(whole, b"body must be JSON, but Expecting value")


def test_what_is_no_http_after_an_answer_leaves_no_trace_in_the_log(flat_model, caplog):
    with serve_here(flat_model[1]) as here, Clients(here.port) as clients:
        wrong = HEAD.replace(b"/predict", b"/nothing") + b"Transfer-Encoding: chunked\r\n\r\n"
        answered = clients.connect(wrong)
        assert read_to(answered, b"see /docs").startswith(b"HTTP/1.1 404")
        answered.sendall(b"zzz\r\n\r\n")
        read_all(answered)
        assert httpx.get(here.address + "/health").status_code == 200
    assert "Traceback" not in caplog.text
