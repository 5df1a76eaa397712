"""The socket that a server listens on: one of its own, or one that was opened for it."""

from __future__ import annotations

import contextlib
import socket
import sys

BACKLOG = 2048
"""Connections that may wait to be accepted."""


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
