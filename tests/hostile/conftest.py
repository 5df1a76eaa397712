"""Generators of faults, with seeds, and tests that play them: a short run in CI, a long one by ``make hostile``.

Modules of generators that stand here are imported by their names, so none may be called as a package is (``requests``).
"""

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
