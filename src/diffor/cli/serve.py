"""``diffor serve``: answer requests about a model over HTTP, with a page for people."""

from __future__ import annotations

import argparse
import os
import signal
import socket
from pathlib import Path
from typing import Any, NoReturn

from diffor.cli.model_folder import load_model, read_notes, remembered_sides
from diffor.cli.options import add_command, as_count, as_float, as_seconds
from diffor.cli.usage import UsageError
from diffor.files.guarded import read_json_file

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN_VARIABLE = "DIFFOR_TOKEN"
MIN_TOKEN = 16
"""Characters that a token must have: fewer can be guessed by trying."""
MIB = 2**20
MAX_CONNECTIONS = 512
"""Clients at a time, so that memory for their requests is bounded too; more are turned away with 503."""


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "serve",
        run,
        "answer requests about a model over HTTP, with a page for people",
        "diffor serve model",
        "diffor serve model --port 9000 --max-rows 200 --max-seconds 5",
        "DIFFOR_TOKEN=$(cat token.txt) diffor serve model --host 0.0.0.0",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit, or save in Python, wrote")
    command.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="address to bind to (default: %(default)s)"
    )
    command.add_argument("--port", type=as_port, default=8000, help="port; 0 takes a free one (default: %(default)s)")
    command.add_argument(
        "--token",
        metavar="TEXT",
        help=f"what requests must carry as Authorization: Bearer TEXT (default: the variable {TOKEN_VARIABLE}); needed "
        "for any host but this machine",
    )
    command.add_argument("--max-rows", type=as_count, default=1000, metavar="N", help="rows of a request (%(default)s)")
    command.add_argument(
        "--max-mib", type=as_count, default=8, metavar="N", help="size of a request in MiB (%(default)s)"
    )
    command.add_argument(
        "--max-seconds", type=as_seconds, default=30.0, metavar="S", help="time that an answer may take (%(default)s)"
    )
    command.add_argument(
        "--max-waiting", type=as_count, default=20_000, metavar="N", help="rows of all requests that wait (%(default)s)"
    )
    command.add_argument(
        "--wait-ms", type=as_milliseconds, default=2.0, metavar="MS",
        help="how long a request waits for others to be answered with it (%(default)s)",
    )  # fmt: skip


def as_port(text: str) -> int:
    """A number that ports can have.

    >>> as_port("0"), as_port("8000")
    (0, 8000)
    """
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 65535, but got {text!r}")
    return int(text)


def as_milliseconds(text: str) -> float:
    """A number from 0 to 1000.

    >>> as_milliseconds("2.5")
    2.5
    """
    value = as_float(text)
    if value is None or not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1000, but got {text!r}")
    return value


def run(arguments: argparse.Namespace) -> None:
    """Serve until the process is asked to stop, then finish what is under way."""
    token = _token(arguments)
    folder = Path(arguments.model)
    try:
        import uvicorn

        from diffor.serving.server.application import make_application
    except ImportError as error:
        raise UsageError('serving needs FastAPI, uvicorn and python-multipart: pip install "diffor[serve]"') from error
    from diffor.serving.server.description import Limits

    model = _load(folder)
    limits = Limits(arguments.max_rows, arguments.max_mib * MIB, arguments.max_seconds, arguments.max_waiting)
    sides = remembered_sides(folder)
    app = make_application(
        model, sides=sides, token=token, limits=limits, wait=arguments.wait_ms / 1000, facts=_facts(folder)
    )
    listening = _bind(arguments.host, arguments.port)
    # uvicorn finishes what is under way and then raises the signal again, which ends the process here, without fault.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    host, port = listening.getsockname()[:2]
    print(f"serving {folder} on http://{f'[{host}]' if ':' in host else host}:{port}/ (API: /docs); stop with Ctrl+C",
          flush=True)  # fmt: skip
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=round(arguments.max_seconds) + 5,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _stop(number: int, frame: Any) -> NoReturn:
    raise SystemExit(0)


def _token(arguments: argparse.Namespace) -> str | None:
    """The token that was given, if any; other machines may only come in with one."""
    token: str | None = os.environ.get(TOKEN_VARIABLE) if arguments.token is None else arguments.token
    if token is None and arguments.host not in LOOPBACK:
        raise UsageError(
            f"a host that other machines reach needs a token, but --host {arguments.host} comes without; add "
            f"--token TEXT or set {TOKEN_VARIABLE}, or bind to 127.0.0.1"
        )
    if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError(
            f"a token must have at least {MIN_TOKEN} letters, digits or signs without spaces, but it has "
            f"{len(token)} characters; make one with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def _load(folder: Path) -> Any:
    model: Any = load_model(folder, may_read_images=True)
    if model.images_ is not None:
        from dataclasses import replace

        from diffor.core.pixels import require_pillow

        try:
            require_pillow()
        except ImportError as error:
            raise UsageError(str(error)) from error
        # Few images come at a time, which other processes would take longer to be sent than to decode.
        model.images_ = replace(model.images_, inputs=replace(model.images_.inputs, n_workers=0))
    return model


def _facts(folder: Path) -> dict[str, Any]:
    """What the folder knows of the model: its name, the target's, and which version wrote it."""
    try:
        target = read_notes(folder)["target"]
    except (OSError, ValueError):
        target = None  # fitted in Python, where targets have no name
    version = read_json_file(folder / "config.json").get("version")
    return {"name": folder.resolve().name, "target": target, "fitted_with": version}


def _bind(host: str, port: int) -> socket.socket:
    """A socket that listens, so that clients who come now wait until the server is ready."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} must be free to listen on, but {error.strerror or error}; choose another with --host "
            "or --port"
        ) from error
    return listening
