"""The command line: fit, predict and evaluate on CSV and Parquet files; compare methods on data sets.

Wrong use ends with code 2 and one line that says the rule, the value and the cure; files are left as they were. A
check of data that finds something wrong ends with code 1.
Only the commands themselves import the heavy packages, so that ``diffor --help`` answers at once.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import diffor
from diffor.cli import (
    bench,
    datasets,
    demo,
    diagnose,
    distill,
    embed,
    evaluate,
    explain,
    export,
    fit,
    methods,
    predict,
    report,
    reproduce,
    score,
    serve,
    tune,
)
from diffor.cli.options import list_examples
from diffor.errors import RowsWarning, UserError, did_you_mean

OF_THE_SYSTEM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
                 errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.ELOOP}  # fmt: skip
"""Errors of disks, permissions and limits, which no command can foresee everywhere and which are no fault of ours."""
COMMANDS = (
    fit,
    tune,
    predict,
    score,
    serve,
    evaluate,
    explain,
    distill,
    export,
    diagnose,
    methods,
    datasets,
    demo,
    bench,
    report,
    reproduce,
    embed,
)
"""In the order in which the help names them."""


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the process's exit code."""
    try:
        _open_streams()
        arguments = _parse(sys.argv[1:] if argv is None else argv)
        with _short_warnings():
            arguments.run(arguments)
        if sys.stdout is not None:  # as it is where the shell closed it
            sys.stdout.flush()
    except SystemExit as stop:  # --help, --version, and checks that failed
        return int(stop.code or 0)
    except (UserError, FloatingPointError, ImportError) as error:
        if isinstance(error, ImportError) and "diffor[" not in str(error):  # what names its extra is told, no fault
            raise
        print(f"diffor: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("diffor: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has had enough
        _print_nothing_more()
        return 141
    except OSError as error:
        if error.errno not in OF_THE_SYSTEM:
            raise
        what = "the output cannot be" if error.filename is None else f"{error.filename} cannot be read or"
        print(f"diffor: error: {what} written: {error.strerror}; make room, allow it, or choose another place",
              file=sys.stderr)  # fmt: skip
        _print_nothing_more()
        return 2
    return 0


def _open_streams() -> None:
    """Make the best of the streams that the process was started with.

    Characters that a terminal does not know are shown by their numbers rather than end the command. The numbers of
    streams that the shell closed are taken, else the next file would get one, and all that libraries say.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(taken)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (progress bars want one until the end)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _print_nothing_more() -> None:
    """Give up what is still to be printed: Python would try it again at its end, and complain."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Raises UserError where argparse would print the usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser, commands = _make_parser()
    if argv and argv[0] in commands:
        # Before argparse, which would name the options that a misspelled one leaves missing.
        known = commands[argv[0]]._option_string_actions
        for word in argv[1 : argv.index("--") if "--" in argv else None]:
            option = word.split("=")[0]
            if option.startswith("--") and option not in known:
                raise UserError(f"{argv[0]} has no option {option}{did_you_mean(option, known)}; "
                                 f"see diffor {argv[0]} --help")  # fmt: skip
    return parser.parse_args(argv)


def _make_parser() -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    parser = _Parser(
        prog="diffor",
        description="Ordinal regression as continuous generation: bounded predictions with their whole distribution.",
        epilog=list_examples(
            "diffor fit train.csv --target price --out model",
            "diffor predict model new.csv --out prices.csv --coverage 0.9",
            "diffor evaluate model test.csv",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"diffor {diffor.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in COMMANDS:
        command.add(commands)
    return parser, dict(commands.choices)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the place in the code; those of rows of several chunks as one."""
    of_rows: dict[type[RowsWarning], list[RowsWarning]] = {}

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if isinstance(message, RowsWarning):
            of_rows.setdefault(type(message), []).append(message)
        else:
            print(f"diffor: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", RowsWarning)
        warnings.showwarning = show
        yield
    for kind, parts in of_rows.items():
        print(f"diffor: warning: {kind.joined(parts)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
