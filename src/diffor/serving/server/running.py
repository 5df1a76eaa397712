"""Running the application: its sockets, its connections, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI

from diffor.serving.server.connections import Guard, Places, protocol_of
from diffor.serving.server.logs import set_up_logs

OTHER_FILES = 256
"""Files beside connections: those of models, images and logs, and new connections before they are turned away."""
BACKLOG = 2048
"""Connections that may wait to be accepted."""
LAST_SECONDS = 2.0
"""Time that connections without a request get when the server accepts no more."""


class Server(uvicorn.Server):
    """A server that ends in steps, so that no request is lost.

    When it is asked to end, it says so on ``/ready`` and with each answer, but goes on for ``drain_seconds``, in which
    clients and balancers turn to another; then it accepts no more connections, finishes what is under way, and ends.
    A second signal ends the first step at once.
    """

    def __init__(self, config: uvicorn.Config, service: Any, drain_seconds: float = 0.0) -> None:
        super().__init__(config)
        self.service, self.drain_seconds = service, drain_seconds
        self._ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to end."""
        if self.service.is_ending or not self.drain_seconds or not self.started:
            self.service.is_ending = True
            super().handle_exit(sig, frame)
            return
        self.service.is_ending = True
        self._captured_signals.append(sig)

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to end; uvicorn asks ten times a second."""
        if self.service.is_ending and self._ending is None:
            self._ending = asyncio.create_task(self._drain())
        return await super().on_tick(counter)

    async def _drain(self) -> None:
        await asyncio.sleep(self.drain_seconds)
        for server in self.servers:
            server.close()
        # Who connected last may still be about to ask.
        guard, waited = self.service.guard, 0.0
        while guard is not None and guard.n_waited_for and waited < LAST_SECONDS:
            await asyncio.sleep(0.05)
            waited += 0.05
        self.should_exit = True


def make_server(app: FastAPI, places: Places | None = None, drain_seconds: float = 0.0) -> Server:
    """A server of an application, whose connections are guarded."""
    places, service = places or Places(), app.state.service
    service.guard = Guard(places)
    config = uvicorn.Config(
        app,
        http=protocol_of(service.guard),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=round(places.idle_seconds),
        timeout_graceful_shutdown=round(service.limits.max_seconds) + 5,
    )
    return Server(config, service, drain_seconds)


def run(app: FastAPI, listening: socket.socket, places: Places, drain_seconds: float = 0.0) -> None:
    """Serve until the process is asked to stop, then finish what is under way."""
    set_up_logs()
    allow_open_files(places.n_all + places.n_spare + OTHER_FILES)
    stop_without_fault()
    make_server(app, places, drain_seconds).run(sockets=[listening])


def stop_without_fault() -> None:
    """Let the process end with code 0 when it is asked to stop, from now on.

    uvicorn finishes what is under way and then raises the signal again, which ends the process here.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)


def _stop(number: int, frame: Any) -> NoReturn:
    raise SystemExit(0)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens, so that clients who come now wait until the server is ready."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
    listening.listen(BACKLOG)
    return listening


def adopt(number: int) -> socket.socket:
    """The listening socket that whoever started this process has opened, by the number of its file."""
    listening = socket.socket(fileno=number)
    if not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listening.detach()  # it is another's
        raise OSError("it does not listen")
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        raise OSError("it is none of the internet protocol")
    return listening


def allow_open_files(n: int) -> None:
    """Let this process open so many files, of which connections are some, as far as the system lets it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n if hard == resource.RLIM_INFINITY else min(n, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # what was allowed before must do then
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
