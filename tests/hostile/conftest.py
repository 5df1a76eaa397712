"""Generators of faults, with seeds, and tests that play them: a short run in CI, a long one by ``make hostile``.

Modules of generators that stand here are imported by their names, so none may be called as a package is (``requests``).
"""

import time

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hostile",
        type=int,
        default=1,
        metavar="N",
        help="play N times as many hostile cases as a run in CI does (default: 1)",
    )


@pytest.fixture(scope="session")
def hostile_scale(request: pytest.FixtureRequest) -> int:
    """How many times as many cases as a short run has; 1 where pytest was not started on this folder."""
    scale = request.config.getoption("--hostile", default=1)
    if scale < 1:
        raise pytest.UsageError(f"--hostile must be at least 1, but got {scale}")
    return int(scale)


@pytest.fixture(scope="session")
def hostile_home(tmp_path_factory):
    """A folder with all that commands read: tables, pictures, weights, a fitted model."""
    from kills_commands import make_home

    folder = tmp_path_factory.mktemp("home")
    make_home(folder)
    return folder


@pytest.fixture(scope="session")
def whole_run(hostile_home, tmp_path_factory):
    """A function of a command's name: the results where nobody disturbs it, and the seconds that it took."""
    from kills_commands import COMMANDS, begun, run_well

    known = {}

    def of(name):
        if name not in known:
            folder = begun(hostile_home, tmp_path_factory.mktemp("whole"), name)
            started = time.monotonic()
            run_well(COMMANDS[name].words, folder)
            known[name] = COMMANDS[name].results(folder), time.monotonic() - started
        return known[name]

    return of
