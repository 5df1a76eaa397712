import numpy as np
import pytest
import torch

from diffor.encoders.curve import (
    CHECK_PIECE,
    FIT_PIECE,
    PENALTIES,
    Curve,
    check_errors,
    describe,
    fit_curve,
    ridge_path,
    sum_products,
)


def make_table(n, seed=0):
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(n, 3)).astype(np.float32)
    return table, 0.5 + 0.2 * np.sin(table[:, 0]) * np.cos(table[:, 1]) + 0.05 * table[:, 2]


def test_a_curve_follows_a_smooth_law_where_a_line_cannot():
    table, target = make_table(600)
    new, truth = make_table(300, seed=1)
    curve = fit_curve(table, target, None, (*make_table(200, seed=2), None), seed=0)
    error = np.abs(curve.predict(torch.from_numpy(new)).numpy() - truth).mean()
    design = np.c_[table, np.ones(600)]
    line = np.c_[new, np.ones(300)] @ np.linalg.lstsq(design, target, rcond=None)[0]
    assert error < 0.25 * np.abs(line - truth).mean()


def test_ridge_slopes_solve_their_equations():
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(50, 4, generator=generator).double()
    wanted, weights = torch.randn(50, generator=generator).double(), torch.rand(50, generator=generator).double()
    products, along = parts.T @ (weights[:, None] * parts), parts.T @ (weights * wanted)
    for penalty, slopes in zip(PENALTIES, ridge_path(products, along).T, strict=True):
        gradient = parts.T @ (weights * (parts @ slopes - wanted)) + penalty * slopes
        torch.testing.assert_close(gradient, torch.zeros(4).double(), atol=1e-9, rtol=0)


@pytest.mark.parametrize("n_rows", [1, FIT_PIECE, 2 * FIT_PIECE + 7])
def test_products_of_rows_in_pieces_are_those_of_all_rows(n_rows):
    generator = torch.Generator().manual_seed(0)
    scaled, landmarks = (torch.randn(n, 3, generator=generator).double() for n in (n_rows, 5))
    wanted, weights = (torch.rand(n_rows, generator=generator).double() for _ in range(2))
    parts = describe(scaled, landmarks, 0.5)
    products, along = sum_products(scaled, wanted, weights, landmarks, 0.5)
    torch.testing.assert_close(products, parts.T @ (weights[:, None] * parts))
    torch.testing.assert_close(along, parts.T @ (weights * wanted))


def test_errors_of_rows_in_pieces_are_those_of_all_rows():
    generator = torch.Generator().manual_seed(0)
    n_rows = 2 * CHECK_PIECE + 7
    scaled, landmarks, slopes = (torch.randn(n, 3, generator=generator).double() for n in (n_rows, 5, 8))
    wanted, weights = (torch.rand(n_rows, generator=generator).double() for _ in range(2))
    missed = describe(scaled, landmarks, 0.5) @ slopes - wanted[:, None]
    found = check_errors(slopes, scaled, wanted, weights, landmarks, 0.5)
    assert found == pytest.approx((weights[:, None] * missed.square()).sum(dim=0).tolist())


def test_rows_of_weight_zero_do_not_bend_the_curve():
    table, target = make_table(400)
    wrong, weights = target.copy(), np.ones(400)
    wrong[::2], weights[::2] = 5.0, 0.0
    check = (*make_table(200, seed=2), None)
    curve = fit_curve(table, wrong, weights, check, seed=0)
    assert np.abs(curve.predict(torch.from_numpy(check[0])).numpy() - check[1]).mean() < 0.02


def test_constant_columns_and_far_rows_give_answers_in_range():
    table, target = make_table(100)
    table[:, 2] = 7.0
    curve = fit_curve(table, target, None, (table, target, None), seed=0)
    far = torch.tensor([[1e6, -1e6, 7.0], [0.0, 0.0, 1e6]])
    assert curve.predict(far).min() >= 0
    assert curve.predict(far).max() <= 1
    assert curve.predict(torch.zeros(0, 3)).shape == (0,)


@pytest.mark.parametrize("n_rows", [1, 17, 300])
def test_a_row_is_answered_alike_whatever_stands_beside_it(n_rows):
    table, target = make_table(600)
    curve = fit_curve(table, target, None, (table, target, None), seed=0)
    rows = torch.from_numpy(table[:n_rows])
    alone = torch.cat([curve.predict(row[None]) for row in rows])
    torch.testing.assert_close(curve.predict(rows), alone, atol=1e-7, rtol=0)


def test_columns_that_are_not_finite_are_refused():
    table, target = make_table(100)
    table[0, 0] = np.inf
    with pytest.raises(FloatingPointError, match="must have finite errors: look for extreme values in X"):
        fit_curve(table, target, None, (table, target, None), seed=0)
    assert Curve._fields[0] == "centre"
