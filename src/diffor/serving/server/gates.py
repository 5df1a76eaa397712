"""What every request passes before it is read: where it comes from, its token, the limit of its size; and what every
answer carries."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Callable, Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diffor.serving.server.refusals import Refused, RefusedError, refusal

DRAINED = 4
"""How many times the limit of a body that is too large is read, so that its sender gets to the answer ..."""
DRAIN_SECONDS = 10.0
"""... and for how long."""
HELD = 32
"""How many times the limit of one body all bodies that are held may have together."""
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


Check = Callable[[Scope], RefusedError | None]


class Gate:
    """Refuses requests in which a check finds a flaw, but for ``open_paths``, and passes the others on."""

    def __init__(self, app: ASGIApp, check: Check, open_paths: Collection[str] = ()) -> None:
        self.app, self.check, self.open_paths = app, check, open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        is_open = scope["type"] != "http" or scope["path"] in self.open_paths
        error = None if is_open else self.check(scope)
        await (self.app if error is None else Refused(error))(scope, receive, send)


def origin_check(hosts: Collection[str] | None) -> Check:
    """A check that finds requests which a browser sends for another page than the server's own (403, 421).

    ``hosts`` are the names under which the server is known (None: any), without ports. A page of a stranger can reach
    a server on the visitor's own machine: under a name of its own that it lets point to 127.0.0.1, which the header
    Host tells, or under the server's address, which the header Origin tells.
    """
    known = None if hosts is None else {host.lower() for host in hosts}
    # Pages of other servers on this machine are strangers, though they have its names.
    origins = (known or set()) - {"127.0.0.1", "[::1]", "localhost"}

    def check(scope: Scope) -> RefusedError | None:
        host = _header(scope, b"host").decode("latin-1").lower()
        if known is not None and _name(host) not in known:
            message = (
                f"a request must name this server as {' or '.join(sorted(known))}, but the header Host is "
                f"{host[:100]!r}; ask under such a name, or start the server with --allow-host"
            )
            return refusal(421, "host", message, "header", "Host")
        origin = _header(scope, b"origin").decode("latin-1").lower()
        place = origin.partition("://")[2]
        if not origin or (place and (place == host or _name(place) in origins)):
            return None
        message = f"only the server's own page may ask from a browser, but the header Origin is {origin[:100]!r}"
        return refusal(403, "origin", f"{message}; ask from a program, or through a server of your own",
                       "header", "Origin")  # fmt: skip

    return check


def token_check(token: str) -> Check:
    """A check that finds requests without the token (401)."""

    def check(scope: Scope) -> RefusedError | None:
        kind, _, given = _header(scope, b"authorization").partition(b" ")
        # Compared in constant time, so that the time tells nothing about the token.
        if kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode()):
            return None
        found = "it carries another" if kind else "it carries none"
        message = f"a request must carry the server's token, but {found}; send the header Authorization: Bearer TOKEN"
        return refusal(401, "token", message, WWW_Authenticate="Bearer")

    return check


def _name(place: str) -> str:
    """A host without its port."""
    return place.rpartition("]")[0] + "]" if place.startswith("[") else place.partition(":")[0]


class SizeGate:
    """Refuses bodies of more than ``max_bytes``, whether they say their length or not, and bodies that would need too
    much memory beside those that are held already."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes
        self.n_held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with a body that ends the request where it grows too large."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = _header(scope, b"content-length")[:20]
        if length.isdigit() and int(length) > self.max_bytes:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._read_away(receive), DRAIN_SECONDS)
            await Refused(self._too_large(f"it has {int(length)}"))(scope, receive, send)
            return
        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            size = len(message.get("body", b""))
            n_bytes += size
            self.n_held += size
            if n_bytes > self.max_bytes:
                raise self._too_large("it goes on")
            if self.n_held > HELD * self.max_bytes:
                held = f"at most {HELD * self.max_bytes} bytes can be held, but so many are already; try again soon"
                raise refusal(503, "busy", held, "body", Retry_After="1", Connection="close")
            return message

        try:
            await self.app(scope, counted, send)
        finally:
            self.n_held -= n_bytes

    async def _read_away(self, receive: Receive) -> None:
        n_bytes, is_more = 0, True
        while is_more and n_bytes <= DRAINED * self.max_bytes:
            message: Any = await receive()
            n_bytes += len(message.get("body", b""))
            is_more = message["type"] == "http.request" and message.get("more_body", False)

    def _too_large(self, found: str) -> RefusedError:
        message = f"a request must have at most {self.max_bytes} bytes, but {found}; send it in several"
        return refusal(413, "too_large", message, "body")


class HeaderGate:
    """Gives every answer the headers that keep browsers from doing anything with it that is not meant.

    While the server ``is_ending``, it also asks clients to come back over a new connection, which finds another server.
    """

    def __init__(self, app: ASGIApp, is_ending: Any) -> None:
        self.app, self.is_ending = app, is_ending
        self._headers = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                ending = [(b"connection", b"close")] if self.is_ending() else []
                message = {**message, "headers": [*message.get("headers", []), *self._headers, *ending]}
            await send(message)

        await self.app(scope, receive, send_safely)


def _header(scope: Scope, name: bytes) -> bytes:
    values = [value for key, value in scope["headers"] if key == name]
    return bytes(values[0]) if values else b""
