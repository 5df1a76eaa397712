"""``diffor serve``: answer requests about a model over HTTP, with a page for people."""

from __future__ import annotations

import argparse
import gc
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import columns_by_kind, load_model, read_notes, remembered_sides
from diffor.cli.options import add_command, as_count, as_seconds, reader
from diffor.errors import UserError
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

as_port = reader("be a whole number from 0 to 65535", int, lambda port: 0 <= port <= 65535)


def up_to(most: int) -> Callable[[str], float]:
    """What reads a number from 0 to another.

    >>> up_to(1000)("2.5")
    2.5
    """
    return reader(f"be a number from 0 to {most}", float, lambda number: 0 <= number <= most)


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
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit, or save in Python, wrote")
    argument("--host", default="127.0.0.1", metavar="NAME", help="address to bind to (default: %(default)s)")
    argument("--port", type=as_port, default=8000, help="port; 0 takes a free one (default: %(default)s)")
    token_help = (
        f"what requests must carry as Authorization: Bearer TEXT (default: the variable {TOKEN_VARIABLE}); needed for "
        "any host but this machine"
    )
    argument("--token", metavar="TEXT", help=token_help)
    host_help = "name to be asked under, such as that of a proxy; may be repeated (default: this machine's own)"
    argument("--allow-host", action="append", default=[], metavar="NAME", help=host_help)
    argument("--fd", type=int, metavar="N", help="number of a socket that listens already, not --port")
    argument("--watch", action="store_true", help="switch to a new model when one is written to the folder")
    drain_help = "time between being asked to stop and accepting no more, in which /ready says no (%(default)s)"
    argument("--drain-seconds", type=up_to(3600), default=0.0, metavar="S", help=drain_help)
    examples_help = f"CSV or Parquet file whose first {N_EXAMPLES} rows the page's form offers"
    argument("--examples", metavar="FILE", help=examples_help)
    argument("--access-log", action="store_true", help="print a line of JSON about each request")
    argument("--max-rows", type=as_count, default=1000, metavar="N", help="rows of a request (%(default)s)")
    argument("--max-mib", type=as_count, default=8, metavar="N", help="size of a request in MiB (%(default)s)")
    argument("--max-seconds", type=as_seconds, default=30.0, metavar="S", help="time an answer may take (%(default)s)")
    waiting_help = "rows of all requests that wait (%(default)s)"
    argument("--max-waiting", type=as_count, default=20_000, metavar="N", help=waiting_help)
    argument("--max-connections", type=as_count, default=512, metavar="N", help="connections at a time (%(default)s)")
    client_help = "connections of one address; behind a proxy all have its address (default: half of --max-connections)"
    argument("--max-per-client", type=as_count, metavar="N", help=client_help)
    wait_help = "how long a request waits for others to be answered with it (%(default)s)"
    argument("--wait-ms", type=up_to(1000), default=2.0, metavar="MS", help=wait_help)


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
        raise UserError('serving needs FastAPI, uvicorn and python-multipart: pip install "diffor[serve]"') from error
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
    # A name that a stranger lets point to this machine is none of these; None: other machines may call it as they like.
    own = ["127.0.0.1", "[::1]", "localhost"] if host in LOOPBACK else [host]
    hosts = [*own, *arguments.allow_host] if host in LOOPBACK or arguments.allow_host else None
    write = _print if arguments.access_log else None
    app = application.serve_loaded(
        load(), limits, metrics, token=token, hosts=hosts, watcher=watcher, say=_print, write=write
    )
    listening = listening or _bind(host, arguments.port)
    name, port = listening.getsockname()[:2]
    running.stop_without_fault()  # before anybody is told that the server is there
    _print(f"serving {folder} on http://{f'[{name}]' if ':' in name else name}:{port}/ (API: /docs); stop with Ctrl+C")
    running.run(app, listening, places, arguments.drain_seconds)


def _print(line: str) -> None:
    print(line, flush=True)


def _bind(host: str, port: int) -> socket.socket:
    from diffor.serving.server.running import bind

    try:
        return bind(host, port)
    except OSError as error:
        raise UserError(
            f"{host}:{port} must be free to listen on, but {error.strerror or error}; choose another with --host "
            "or --port"
        ) from error


def _adopt(number: int) -> socket.socket:
    from diffor.serving.server.running import adopt

    try:
        return adopt(number)
    except (OSError, ValueError) as error:
        raise UserError(
            f"--fd must be the number of a socket that listens, but got {number}: {error}; open one first, as systemd "
            "does, or leave --fd out"
        ) from error


def _token(given: str | None, host: str) -> str | None:
    """The token that was given, if any; other machines may only come in with one."""
    token = os.environ.get(TOKEN_VARIABLE) if given is None else given
    if token is None and host not in LOOPBACK:
        raise UserError(
            f"a host that other machines reach needs a token, but --host {host} comes without; add "
            f"--token TEXT or set {TOKEN_VARIABLE}, or bind to 127.0.0.1"
        )
    if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise UserError(
            f"a token must have at least {MIN_TOKEN} letters, digits or signs without spaces, but it has "
            f"{len(token)} characters; make one with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def _load(folder: Path, limits: Limits, wait: float, metrics: Metrics, examples: str | None) -> Loaded:
    """The model of a folder, ready to be asked."""
    from diffor.serving.server.loaded import Loaded, identity_of

    model: Any = load_model(folder, may_read_images=True)
    if model.images_ is not None:
        from diffor.core.pixels import require_pillow

        require_pillow()
        # Few images come at a time, which other processes would take longer to be sent than to decode.
        model.images_ = replace(model.images_, inputs=replace(model.images_.inputs, n_workers=0))
    notes, version = read_notes(folder), read_json_file(folder / "config.json").get("version")
    target = None if notes is None else notes["target"]  # where it was fitted in Python, targets have no name
    sides, facts = remembered_sides(folder), {"name": folder.resolve().name, "target": target, "fitted_with": version}
    if examples is not None:
        facts["examples"] = _examples(model, sides, Path(examples))
    return Loaded(model, sides, limits, wait, facts, identity_of(folder), metrics)


def _examples(model: Any, sides: dict[str, str] | None, data: Path) -> list[dict[str, Any]]:
    """Rows to start from, as clients send them."""
    if model.images_ is not None:
        raise UserError("--examples is for models of tables, but this one reads images; leave it out")
    numbers, text = columns_by_kind(model, tables.column_names(data), data)
    beside = [column for column in (sides or {}).values() if column not in (*numbers, *text)]
    chunk = next(tables.read_chunks(data, [*numbers, *beside], text, (), N_EXAMPLES, None), None)
    if chunk is None:
        return []
    table = chunk.table.astype(object)
    rows: list[dict[str, Any]] = table.where(table.notna(), None).to_dict("records")
    return [{name: getattr(value, "item", lambda value=value: value)() for name, value in row.items()} for row in rows]
