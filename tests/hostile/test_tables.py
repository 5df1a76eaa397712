"""Odd tables are answered right or refused with the reason; nothing else happens."""

import numpy as np
from odd_tables import NAMES, make_case
from table_checks import play

CORE_TABLES, METHOD_TABLES = 24, 16
"""Tables of a short run: of the core and of any method, and of methods one after the other."""


def play_all(cases, folder):
    """Play cases; what went wrong is told of all of them together."""
    wrong, outcomes = [], []
    for case in cases:
        try:
            outcomes.append(play(case, folder))
        except Exception as error:  # noqa: PERF203 (all of them are told at the end)
            wrong.append(f"{case}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    assert not wrong, "\n".join(wrong)
    return outcomes


def test_tables_of_any_kind(hostile_scale, tmp_path):
    outcomes = play_all((make_case(seed) for seed in range(CORE_TABLES * hostile_scale)), tmp_path / "model")
    assert outcomes.count("answered") > len(outcomes) / 3  # a generator that only makes wrong tables shows nothing


def test_tables_of_every_method(hostile_scale, tmp_path):
    chosen = np.random.default_rng(0).permutation(NAMES)
    count = METHOD_TABLES * hostile_scale
    cases = (make_case(10**6 + place, str(chosen[place % len(chosen)])) for place in range(count))
    assert len(play_all(cases, tmp_path / "model")) == count


def test_a_case_is_a_function_of_its_seed():
    for seed in range(30):
        assert str(make_case(seed)) == str(make_case(seed))
    faults = [fault for seed in range(300) for fault in make_case(seed).faults]
    assert len(set(faults)) > 20
