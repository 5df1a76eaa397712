"""``diffor serve``: answer requests about a model over HTTP, with a page for people."""

from __future__ import annotations

import argparse
import gc
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import columns_by_kind, load_model, read_notes, remembered_sides
from diffor.cli.options import add_command, as_count, as_float, as_seconds
from diffor.cli.usage import UsageError
from diffor.files import tables
from diffor.files.guarded import read_json_file

if TYPE_CHECKING:
    from diffor.serving.server.description import Limits
    from diffor.serving.server.loaded import Loaded
    from diffor.serving.server.metrics import Metrics

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN_VARIABLE = "DIFFOR_TOKEN"
MIN_TOKEN = 16
"""Characters that a token must have: fewer can be guessed by trying."""
MIB = 2**20
MIN_CONNECTIONS = 8
N_EXAMPLES = 20


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
        "diffor serve model --watch --drain-seconds 5 --access-log",
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
    command.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="name to be asked under, such as that of a proxy; may be repeated (default: this machine's own)",
    )  # fmt: skip
    command.add_argument("--fd", type=int, metavar="N", help="number of a socket that listens already, not --port")
    command.add_argument("--watch", action="store_true", help="switch to a new model when one is written to the folder")
    command.add_argument(
        "--drain-seconds", type=up_to(3600), default=0.0, metavar="S",
        help="time between being asked to stop and accepting no more, in which /ready says no (%(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--examples", metavar="FILE", help=f"CSV or Parquet file whose first {N_EXAMPLES} rows the page's form offers"
    )
    command.add_argument("--access-log", action="store_true", help="print a line of JSON about each request")
    _add_limits(command)


def _add_limits(command: argparse.ArgumentParser) -> None:
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
        "--max-connections", type=as_count, default=512, metavar="N", help="connections at a time (%(default)s)"
    )
    command.add_argument(
        "--max-per-client", type=as_count, metavar="N",
        help="connections of one address; behind a proxy all have its address (default: half of --max-connections)",
    )  # fmt: skip
    command.add_argument(
        "--wait-ms", type=up_to(1000), default=2.0, metavar="MS",
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


def up_to(most: int) -> Callable[[str], float]:
    """What reads a number from 0 to another.

    >>> up_to(1000)("2.5")
    2.5
    """

    def read(text: str) -> float:
        value = as_float(text)
        if value is None or not 0 <= value <= most:
            raise argparse.ArgumentTypeError(f"must be a number from 0 to {most}, but got {text!r}")
        return value

    return read


def run(arguments: argparse.Namespace) -> None:
    """Serve until the process is asked to stop, then finish what is under way."""
    listening = None if arguments.fd is None else _adopt(arguments.fd)
    host = arguments.host if listening is None else listening.getsockname()[0]
    token = _token(arguments.token, host)
    folder = Path(arguments.model)
    try:
        from diffor.serving.server import application, running
        from diffor.serving.server.connections import Places
        from diffor.serving.server.loaded import Watcher
    except ImportError as error:
        raise UsageError('serving needs FastAPI, uvicorn and python-multipart: pip install "diffor[serve]"') from error
    from diffor.serving.server.description import Limits
    from diffor.serving.server.metrics import Metrics

    gc.freeze()  # half a million objects of modules need not be looked through for each large request
    limits = Limits(arguments.max_rows, arguments.max_mib * MIB, arguments.max_seconds, arguments.max_waiting)
    metrics = Metrics()

    def load() -> Loaded:
        return _load(folder, limits, arguments.wait_ms / 1000, metrics, arguments.examples)

    watcher = Watcher(folder, load) if arguments.watch else None  # before the model is read, which may change then
    n_all = max(arguments.max_connections, MIN_CONNECTIONS)
    places = Places(n_all, min(arguments.max_per_client or n_all // 2, n_all))
    app = application.serve_loaded(
        load(), limits, metrics, token=token, hosts=_hosts(host, arguments.allow_host), watcher=watcher, say=_print,
        write=_print if arguments.access_log else None,
    )  # fmt: skip
    listening = listening or _bind(host, arguments.port)
    name, port = listening.getsockname()[:2]
    running.stop_without_fault()  # before anybody is told that the server is there
    _print(f"serving {folder} on http://{f'[{name}]' if ':' in name else name}:{port}/ (API: /docs); stop with Ctrl+C")
    running.run(app, listening, places, arguments.drain_seconds)


def _print(line: str) -> None:
    print(line, flush=True)


def _hosts(host: str, others: list[str]) -> list[str] | None:
    """Names under which the server may be asked; None where other machines may call it as they like."""
    if host not in LOOPBACK and not others:
        return None
    # A name that a stranger lets point to this machine is none of these.
    own = ["127.0.0.1", "[::1]", "localhost"] if host in LOOPBACK else [host]
    return [*own, *others]


def _bind(host: str, port: int) -> socket.socket:
    from diffor.serving.server.running import bind

    try:
        return bind(host, port)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} must be free to listen on, but {error.strerror or error}; choose another with --host "
            "or --port"
        ) from error


def _adopt(number: int) -> socket.socket:
    from diffor.serving.server.running import adopt

    try:
        return adopt(number)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--fd must be the number of a socket that listens, but got {number}: {error}; open one first, as systemd "
            "does, or leave --fd out"
        ) from error


def _token(given: str | None, host: str) -> str | None:
    """The token that was given, if any; other machines may only come in with one."""
    token = os.environ.get(TOKEN_VARIABLE) if given is None else given
    if token is None and host not in LOOPBACK:
        raise UsageError(
            f"a host that other machines reach needs a token, but --host {host} comes without; add "
            f"--token TEXT or set {TOKEN_VARIABLE}, or bind to 127.0.0.1"
        )
    if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError(
            f"a token must have at least {MIN_TOKEN} letters, digits or signs without spaces, but it has "
            f"{len(token)} characters; make one with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def _load(folder: Path, limits: Limits, wait: float, metrics: Metrics, examples: str | None) -> Loaded:
    """The model of a folder, ready to be asked."""
    from diffor.serving.server.loaded import Loaded, identity_of

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
    sides, facts = remembered_sides(folder), _facts(folder)
    if examples is not None:
        facts["examples"] = _examples(model, sides, Path(examples))
    return Loaded(model, sides, limits, wait, facts, identity_of(folder), metrics)


def _examples(model: Any, sides: dict[str, str] | None, data: Path) -> list[dict[str, Any]]:
    """Rows to start from, as clients send them."""
    if model.images_ is not None:
        raise UsageError("--examples is for models of tables, but this one reads images; leave it out")
    numbers, text = columns_by_kind(model, tables.column_names(data), data)
    beside = [column for column in (sides or {}).values() if column not in (*numbers, *text)]
    chunk = next(tables.read_chunks(data, [*numbers, *beside], text, (), N_EXAMPLES, None), None)
    if chunk is None:
        return []
    table = chunk.table.astype(object)
    rows: list[dict[str, Any]] = table.where(table.notna(), None).to_dict("records")
    return [{name: getattr(value, "item", lambda value=value: value)() for name, value in row.items()} for row in rows]


def _facts(folder: Path) -> dict[str, Any]:
    """What the folder knows of the model: its name, the target's, and which version wrote it."""
    try:
        target = read_notes(folder)["target"]
    except (OSError, ValueError):
        target = None  # fitted in Python, where targets have no name
    version = read_json_file(folder / "config.json").get("version")
    return {"name": folder.resolve().name, "target": target, "fitted_with": version}
