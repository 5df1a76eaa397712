"""Requests to a server of a model of tables: right ones, wrong ones, and what is hardly a request, from a seed.

Each is a list of pieces of bytes that a client sends one after the other over one connection, and how it behaves: it
may stop before the end, or wait between pieces. Most begin as a right request, of which one or two things are changed,
so that what lies behind the first check is reached too.
"""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GOOD: dict[str, Any] = {"size": 50.0, "rooms": 2, "city": "Oslo"}
PATHS = ("/", "/docs", "/openapi.json", "/model", "/health", "/ready", "/metrics", "/page/page.js", "/trajectory",
         "/none", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page/../application.py", "/\u00ff", "*",
         "http://x/predict",
         "//predict", "/predict/", "/predict?rows=[]", "/" + "a" * 5000, "/%00", "/page/%ff.js")  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "X" * 300)
VALUES: tuple[Any, ...] = (
    None, True, 0, -0.0, 1e308, -1e308, 5e-324, 10**18, 10**400, float("nan"), float("inf"), "", "Oslo", "12", "nan",
    "\0", "\ud800", "\u202e=1+1", "x" * 70_000, [], [1], {}, {"a": {}}, "\U0001f600", "'; drop table", "../../x",
)  # fmt: skip
HEADERS = (
    "Host: rebound.example", "Host:", "Origin: https://evil.example", "Origin: null", "Content-Type: text/plain",
    "Content-Type: multipart/form-data; boundary=x", "Content-Type: application/json; charset=utf-16",
    "Content-Encoding: gzip", "Expect: 100-continue", "Expect: a miracle", "Connection: upgrade\r\nUpgrade: websocket",
    "Connection: close", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked", "Content-Length: 0",
    "Content-Length: -1", "Content-Length: 99999999999999999999999", "Content-Length: 5, 6", "Authorization: Bearer x",
    "X-Forwarded-For: 1.2.3.4", "X: " + "y" * 9000, "X: y\r\n folded", "X : spaced", "Range: bytes=0-9999", "\0: \0",
    "Cookie: " + "a=b; " * 500, "Accept: \u00ff\u00fe",
)  # fmt: skip
NOISE = (b"", b"\r\n", b"\0" * 100, b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
         b"GET / HTTP/9.9\r\n\r\n",
         b"GET /\r\n\r\n", b"POST /predict HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\xff" * 3000)  # fmt: skip


LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
SHORT, LONG = 0.5, 60.0
"""Seconds to wait for an answer to what may be no request, and to one."""


@dataclass(frozen=True)
class Sent:
    """What a client does with one connection."""

    pieces: list[bytes]
    is_whole: bool = True
    """Whether it waits for an answer; otherwise it goes away in the middle."""
    is_right: bool = False
    """Whether it must be answered with a prediction."""
    pause: float = 0.0
    kind: str = ""


class Requests:
    """An endless supply of requests.

    >>> first, second = Requests(seed=3), Requests(seed=3)
    >>> [first.make() for _ in range(50)] == [second.make() for _ in range(50)]
    True
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> Sent:
        """The next one."""
        kinds: list[tuple[Callable[[], Sent], int]] = [
            (self.right, 4), (self.wrong_rows, 8), (self.wrong_options, 3), (self.damaged_text, 5),
            (self.other_path, 4), (self.other_headers, 6), (self.chunks, 4), (self.form, 4), (self.cut_short, 4),
            (self.slow, 1), (self.pipeline, 2), (self.noise, 2), (self.large, 1),
        ]  # fmt: skip
        make = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        sent = make()
        return Sent(sent.pieces, sent.is_whole, sent.is_right, sent.pause, make.__name__)

    def right(self) -> Sent:
        """A request that must be answered."""
        return Sent([post_bytes(_dump(self._body()))], is_right=True)

    def wrong_rows(self) -> Sent:
        """Rows of which something is changed."""
        body = self._body()
        for _ in range(self.random.randint(1, 3)):
            row = self.random.choice(body["rows"])
            if not isinstance(row, dict):
                continue
            change = self.random.randrange(5)
            name = self.random.choice(list(GOOD))
            if change == 0:
                row.pop(name, None)
            elif change == 1:
                row[self._word()] = self._value()
            elif change == 2:
                body["rows"][self.random.randrange(len(body["rows"]))] = self._value()
            elif change == 3:
                row.update({f"{self._word()}{place}": 0 for place in range(self.random.choice((1, 50, 3000)))})
            else:
                row[name] = self._value()
        return Sent([post_bytes(_dump(body))])

    def wrong_options(self) -> Sent:
        """What is asked beside rows, changed."""
        body = self._body()
        name = self.random.choice(("rows", "quantiles", "coverage", "increments", self._word()))
        body[name] = self.random.choice((self._value(), [self._value() for _ in range(self.random.choice((1, 300)))]))
        return Sent([post_bytes(_dump(body))])

    def damaged_text(self) -> Sent:
        """A body of which bytes are changed, lost or put in."""
        text = bytearray(_dump(self._body()))
        for _ in range(self.random.randint(1, 8)):
            place, what = self.random.randrange(len(text)), self.random.randrange(4)
            if what == 0:
                text[place] = self.random.randrange(256)
            elif what == 1:
                del text[place : place + self.random.randint(1, 5)]
            elif what == 2:
                text[place:place] = self.random.choice((b"[" * 3000, b"{", b'"', b"\\u", b"\xff\xfe", b"1e999", b"\0"))
            else:
                text[place:place] = text[: self.random.randint(1, 100)]
            text = text or bytearray(b" ")
        encoded = bytes(text)
        if self.random.random() < 0.1:
            encoded = encoded.decode("latin-1").encode(self.random.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))
        return Sent([post_bytes(encoded)])

    def other_path(self) -> Sent:
        """Another path, another method."""
        method, path = self.random.choice(METHODS), self.random.choice(PATHS)
        return Sent([f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("latin-1")])

    def other_headers(self) -> Sent:
        """Headers that contradict, repeat or make no sense."""
        headers = [self.random.choice(HEADERS) for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.05:
            headers += [f"X-{place}: y" for place in range(3000)]
        return Sent([post_bytes(_dump(self._body()), headers)])

    def chunks(self) -> Sent:
        """A body in chunks, most of which are right."""
        body, pieces = _dump(self._body()), [_head(["Transfer-Encoding: chunked"])]
        while body:
            n = self.random.choice((1, 3, 100, 5000))
            part, body = body[:n], body[n:]
            size = b"%x" % len(part)
            if self.random.random() < 0.05:
                size = self.random.choice((b"zz", b"-1", b"fffffffffffffff", b"0", b" 5", b"1;" + b"x" * 500))
            pieces.append(size + b"\r\n" + part + self.random.choice((b"\r\n",) * 20 + (b"", b"\n")))
        return Sent([*pieces, self.random.choice((b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b""))])

    def form(self) -> Sent:
        """Uploads of files, to a model that reads none, or under a wrong name."""
        mark = self.random.choice(("x", "----y", "z" * 300))
        parts = b""
        for _ in range(self.random.choice((0, 1, 3, 1500))):
            name = self.random.choice(("images", "rows", "coverage", '"', "a" * 1000))
            parts += f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="../x"\r\n\r\n'.encode()
            parts += self.random.choice((b"", b"x" * 100, _dump(self._body()))) + b"\r\n"
        end = self.random.choice((f"--{mark}--\r\n".encode(), b"", b"--"))
        return Sent([post_bytes(parts + end, [f"Content-Type: multipart/form-data; boundary={mark}"], None)])

    def cut_short(self) -> Sent:
        """A client that goes away before its request is whole."""
        whole = b"".join(self.random.choice((self.right, self.chunks, self.other_headers))().pieces)
        return Sent([whole[: self.random.randrange(len(whole))]], is_whole=False)

    def slow(self) -> Sent:
        """A right request that takes its time."""
        whole = self.right().pieces[0]
        cuts = sorted(self.random.randrange(len(whole)) for _ in range(5))
        pieces = [whole[first:last] for first, last in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        return Sent(pieces, is_right=True, pause=0.02)

    def pipeline(self) -> Sent:
        """Several requests at once, the last of which ends the connection."""
        made = [self.random.choice((self.right, self.wrong_rows, self.other_path))() for _ in range(5)]
        return Sent([b"".join(piece for sent in made for piece in sent.pieces)])

    def noise(self) -> Sent:
        """Hardly HTTP, or not at all."""
        return Sent(
            [self.random.choice(NOISE) + self.random.randbytes(self.random.choice((0, 10, 500)))], is_whole=False
        )

    def large(self) -> Sent:
        """About as much as is allowed, or more."""
        n = self.random.choice((2**20, 2**23 - 200, 2**23 + 10))
        piece = self.random.choice((b"[],", b'"a":1,', b"1e5,", b" ", b'{"size":1},'))
        start = self.random.choice((b'{"rows":[', b"[", b'{"rows":[{'))
        return Sent([post_bytes(start + piece * (n // len(piece)) + b"0]}")])

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"rows": [dict(GOOD) for _ in range(self.random.choice((1, 1, 1, 2, 7)))]}
        if self.random.random() < 0.3:
            body["quantiles"] = [self.random.random() for _ in range(self.random.choice((1, 5)))]
        if self.random.random() < 0.3:
            body["coverage"] = self.random.uniform(0.01, 0.99)
        if self.random.random() < 0.5:
            body["increments"] = False
        return body

    def _word(self) -> str:
        return self.random.choice(("Size", "x", "", "\0", "rooms ", "__proto__", "\ud800", "row", "ß" * 200))

    def _value(self) -> Any:
        return self.random.choice(VALUES)


def _dump(body: Any) -> bytes:
    return json.dumps(body).encode()


def _head(headers: list[str]) -> bytes:
    lines = ["POST /predict HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post_bytes(
    body: bytes, headers: list[str] | None = None, kind: str | None = "Content-Type: application/json"
) -> bytes:
    """A request for predictions; ``kind`` is its header about the content, None for none."""
    lines = ["POST /predict HTTP/1.1", "Host: localhost", *([kind] if kind else []), f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *(headers or []), "", ""]).encode("latin-1") + body


def answer_to(sent: Sent, port: int, wait: Callable[[float], object]) -> bytes:
    """What a server on this machine says first to a request; empty where the client does not stay for it."""
    with socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection:
        try:
            for piece in sent.pieces:
                connection.sendall(piece)
                if sent.pause:
                    wait(sent.pause)
            return _first_answer(connection, sent) if sent.is_whole else b""
        except ConnectionError:  # a server may hang up on nonsense
            return b""
        except TimeoutError:  # but not leave a client waiting without an end
            return b"timeout"


def _first_answer(connection: socket.socket, sent: Sent) -> bytes:
    # What is not whole is waited for by the server too; a client that has said all it wants ends that.
    connection.settimeout(LONG if sent.is_right else SHORT)
    told, n_wanted = b"", None
    while n_wanted is None or len(told) < n_wanted:
        try:
            part = connection.recv(65536)
        except TimeoutError:
            if sent.is_right or connection.gettimeout() == LONG:
                raise
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(LONG)
            continue
        if not part:
            break
        told += part
        head = told.partition(b"\r\n\r\n")[0]
        length = LENGTH.search(head)
        if len(head) < len(told) and length:
            n_wanted = len(head) + 4 + int(length.group(1))
    return told
