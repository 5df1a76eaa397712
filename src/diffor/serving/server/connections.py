"""Connections: how many there may be, of whom, and how long each may take to say what it wants.

A client that opens connections and never finishes a request costs a place each. So there are places for so many
connections, a part of them for one client at most, and whoever waits for its client can be sent away for one who comes
new: first those of the client with the most. Some places are kept for questions about the server's health, which are
answered even while all others are at work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from diffor.serving.server.refusals import Refused, refusal

PROBES = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are answered when all places are taken."""
FREE_PIECES = 1000
"""Pieces of a body that may be of any size ..."""
MEAN_PIECE = 64
"""... before their mean must have so many bytes: each piece costs as much time as thousands of bytes."""
SWEEP_SECONDS = 0.5
_LATE = b"a request must have a whole head in time, but it has none; send it faster"
TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_LATE), _LATE)
)


@dataclass(frozen=True)
class Places:
    """How many connections there may be, and for how long they may keep their place without a request."""

    n_all: int = 512
    n_of_client: int = 256
    n_spare: int = 32
    """Places beside them for questions about health."""
    head_seconds: float = 10.0
    """Time from the first byte of a request's head, or from the connection, to its last."""
    idle_seconds: float = 60.0
    """Time between requests."""
    unread_seconds: float = 30.0
    """Time in which a client must read some of its answer."""


class Guard:
    """Who is connected to a server; decides who may come and who must go."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.members: set[GuardedProtocol] = set()
        self.spare: set[GuardedProtocol] = set()
        self.n_sent_away = 0
        """Connections that lost their place, or got none."""
        self._is_sweeping = False

    def __len__(self) -> int:
        return len(self.members) + len(self.spare)

    @property
    def n_waited_for(self) -> int:
        """Connections whose client has not sent a whole head yet."""
        return sum(one.is_waited_for for one in self.members | self.spare)

    def admit(self, new: GuardedProtocol) -> None:
        """Give a new connection a place, that of another if need be, or turn it away."""
        places = self.places
        of_client = {one for one in self.members if one.peer == new.peer}
        crowd = of_client if len(of_client) >= places.n_of_client else self.members
        has_room = crowd is self.members and len(self.members) < places.n_all
        if has_room or self._send_one_away(crowd):
            self.members.add(new)
        elif len(self.spare) < places.n_spare or self._send_one_away(self.spare):
            self.spare.add(new)
            new.app = ProbesOnly(new.app)
        else:
            self._send_away(new)
        if not self._is_sweeping:
            self._is_sweeping = True
            new.loop.call_later(SWEEP_SECONDS, self._sweep, new.loop)

    def leave(self, one: GuardedProtocol) -> None:
        """Forget a connection that has ended."""
        self.members.discard(one)
        self.spare.discard(one)

    def _send_one_away(self, among: set[GuardedProtocol]) -> bool:
        """End the connection that waits for its client and can best be spared, if any does."""
        waiting = [one for one in among if one.is_waited_for]
        if waiting:
            share = Counter(one.peer for one in among)
            # Whoever has most loses first, and of these the one that has waited longest.
            self._send_away(max(waiting, key=lambda one: (share[one.peer], -one.waiting_since)))
        return bool(waiting)

    def _send_away(self, one: GuardedProtocol) -> None:
        self.n_sent_away += 1
        self.leave(one)
        one.transport.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """End connections whose time is over; runs while there are any."""
        now = loop.time()
        for one in self.members | self.spare:
            if one.is_stuck(now):
                self._send_away(one)
            elif one.is_late(now) and not one.transport.is_closing():
                one.transport.write(TOO_SLOW)
                one.transport.close()
        self._is_sweeping = len(self) > 0
        if self._is_sweeping:
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)


class GuardedProtocol(H11Protocol):
    """One connection, which its guard can end; ``guard`` is set by :func:`protocol_of`."""

    guard: Guard
    head_since: float | None = None
    """When the head of the next request began; None before it has."""
    unread = 0
    """Bytes of answers that the client has not taken when it was last looked at ..."""
    unread_since = 0.0
    """... and since when there were no fewer."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = _CountedConnection(h11.SERVER)
        self.waiting_since = self.loop.time()

    @property
    def peer(self) -> str:
        """The address of the client, without its port."""
        return self.client[0] if self.client else ""

    @property
    def is_waited_for(self) -> bool:
        """Whether it is the client's turn: no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def is_late(self, now: float) -> bool:
        """Whether the head of a request has taken too long."""
        since = self.head_since
        return self.is_waited_for and since is not None and now - since > self.guard.places.head_seconds

    def is_stuck(self, now: float) -> bool:
        """Whether the client has read none of its answer for too long."""
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread < self.unread or self.unread == 0:
            self.unread_since = now
        self.unread = unread
        return unread > 0 and now - self.unread_since > self.guard.places.unread_seconds

    def connection_made(self, transport: Any) -> None:
        """Take a place, if there is one."""
        super().connection_made(transport)
        self.waiting_since = self.head_since = self.loop.time()
        self.guard.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        self.guard.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins."""
        if self.head_since is None and self.is_waited_for:
            self.head_since = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """From here it is the client's turn."""
        self.waiting_since, self.head_since = self.loop.time(), None
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that what came is no HTTP; where an answer has gone out already, only end the connection."""
        with contextlib.suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def shutdown(self) -> None:
        """End the connection, or let its answer be the last."""
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # what came before was no HTTP
            self.transport.close()


def protocol_of(guard: Guard) -> type[GuardedProtocol]:
    """The connections of one server."""
    return type("GuardedProtocol", (GuardedProtocol,), {"guard": guard})


class _CountedConnection(h11.Connection):
    """Refuses bodies in very many very small pieces."""

    n_pieces = n_bytes = 0

    def next_event(self) -> Any:
        """What came next; pieces of a body are counted."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.n_pieces = self.n_bytes = 0
        elif isinstance(event, h11.Data):
            self.n_pieces += 1
            self.n_bytes += len(event.data)
            if self.n_pieces > FREE_PIECES and self.n_bytes < MEAN_PIECE * self.n_pieces:
                raise h11.RemoteProtocolError(f"pieces of a body must have {MEAN_PIECE} bytes on average")
        return event


class ProbesOnly:
    """Answers questions about the server's health, and tells all others that there is no place."""

    def __init__(self, app: Any) -> None:
        self.app: ASGIApp = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 503; either is the only one of its connection."""

        async def send_last(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        app = self.app
        if scope["type"] == "http" and scope["path"] not in PROBES:
            message = "a server must have a place for each connection, but all are taken; try again in a moment"
            app = Refused(refusal(503, "busy", message, Retry_After="1"))
        await app(scope, receive, send_last)
