"""What every request passes before it is read: the token, and the limit of its size."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Collection
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diffor.serving.server.refusals import RefusedError, refusal

DRAINED = 4
"""How many times the limit of a body that is too large is read, so that its sender gets to the answer ..."""
DRAIN_SECONDS = 10.0
"""... and for how long."""


def refused(error: RefusedError) -> Response:
    """A refusal as a response."""
    return JSONResponse({"detail": error.problems}, error.status, error.headers)


class TokenGate:
    """Lets requests through that have the token, and those for paths that are open to all."""

    def __init__(self, app: ASGIApp, token: str, open_paths: Collection[str]) -> None:
        self.app, self.token, self.open_paths = app, token.encode(), open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401."""
        if scope["type"] != "http" or scope["path"] in self.open_paths or self._is_authorized(scope):
            await self.app(scope, receive, send)
            return
        message = "a request must carry the server's token, but {}; send the header Authorization: Bearer TOKEN"
        found = "it carries another" if _header(scope, b"authorization") else "it carries none"
        error = refusal(401, "token", message.format(found), WWW_Authenticate="Bearer")
        await refused(error)(scope, receive, send)

    def _is_authorized(self, scope: Scope) -> bool:
        kind, _, given = _header(scope, b"authorization").partition(b" ")
        # Compared in constant time, so that the time tells nothing about the token.
        return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.token)


class SizeGate:
    """Refuses bodies of more than ``max_bytes``, whether they say their length or not."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with a body that ends the request where it grows too large."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = _header(scope, b"content-length")
        if length.isdigit() and int(length) > self.max_bytes:
            await self._drain(receive)
            await refused(self._too_large(f"it has {int(length)}"))(scope, receive, send)
            return
        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self.max_bytes:
                raise self._too_large("it goes on")
            return message

        await self.app(scope, counted, send)

    async def _drain(self, receive: Receive) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._read_away(receive), DRAIN_SECONDS)

    async def _read_away(self, receive: Receive) -> None:
        n_bytes, is_more = 0, True
        while is_more and n_bytes <= DRAINED * self.max_bytes:
            message: Any = await receive()
            n_bytes += len(message.get("body", b""))
            is_more = message["type"] == "http.request" and message.get("more_body", False)

    def _too_large(self, found: str) -> RefusedError:
        message = f"a request must have at most {self.max_bytes} bytes, but {found}; send it in several"
        return refusal(413, "too_large", message, "body")


def _header(scope: Scope, name: bytes) -> bytes:
    values = [value for key, value in scope["headers"] if key == name]
    return bytes(values[0]) if values else b""
