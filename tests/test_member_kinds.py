import numpy as np
import pytest
import torch

from diffor import DiffoRRegressor
from diffor.member_kinds import KINDS, choose_encoders, name_encoders, set_fineness
from diffor.presets import PRESETS, WIDE_TABLE
from diffor.train import Rows


@pytest.mark.parametrize(
    ("n_rows", "spread", "of_grades", "kinds"),
    [
        (100, 0.01, False, KINDS["sharp"]),
        (100, 0.20, False, KINDS["blurred"]),
        (100, 0.20, True, KINDS["grades"]),
        (100, None, False, ["piecewise", "periodic+coarse", "periodic", "piecewise+coarse"]),
        (100, None, True, ["plain", "periodic", "piecewise"]),
        (10_000, 0.01, False, KINDS["many rows"]),
        (10_000, 0.01, True, KINDS["many rows of grades"]),
    ],
)
def test_members_are_of_kinds_that_suit_the_table_in_turn(n_rows, spread, of_grades, kinds):
    assert choose_encoders(len(kinds) + 1, n_rows, spread, of_grades) == [*kinds, kinds[0]]


@pytest.mark.parametrize("guide", [True, False])
def test_a_named_encoder_is_that_of_all_members(guide):
    X = np.random.default_rng(0).normal(size=(150, 2))
    model = DiffoRRegressor(encoder="plain", guide=guide, n_members=2, max_steps=2, verbose=0).fit(X, X[:, 0])
    assert model.encoders_ == ["plain+guide" if guide else "plain"] * 2


@pytest.mark.parametrize(
    ("kind", "spread", "can_halve", "expected"),
    [
        ("periodic+coarse", 0.04, True, "periodic"),
        ("periodic", 0.04, True, "periodic"),
        ("periodic+coarse", 0.08, True, "periodic+coarse"),
        ("periodic", 0.08, True, "periodic"),
        ("periodic+guide", 0.12, True, "periodic+guide+coarse"),
        ("periodic+coarse", 0.12, True, "periodic+coarse"),
        ("periodic+coarse", 0.12, False, "periodic"),
        ("periodic+coarse", None, True, "periodic+coarse"),
    ],
)
def test_members_are_as_fine_as_the_target_deserves(kind, spread, can_halve, expected):
    assert set_fineness(kind, spread, can_halve) == expected


@pytest.mark.parametrize(("n_columns", "embedding"), [(WIDE_TABLE, "periodic"), (WIDE_TABLE + 1, "plain")])
def test_numbers_of_wide_tables_are_not_embedded(n_columns, embedding):
    rows = Rows((torch.zeros(9, n_columns), torch.zeros(9, 0, dtype=torch.int64)), torch.rand(9), None, torch.arange(9))
    kinds = name_encoders(PRESETS["balanced"], rows, has_fineness=True)
    assert len(kinds) == 4
    assert any(embedding in kind for kind in kinds)
    assert any("periodic" in kind or "piecewise" in kind for kind in kinds) == (embedding == "periodic")
