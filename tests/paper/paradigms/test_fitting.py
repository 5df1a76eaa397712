import numpy as np
import pytest

from diffor.datasets.open.synthetic import Bimodal
from diffor.paper.paradigms.fitting import (
    DIFFOR,
    DIFFOR_HEADS,
    LONG_STEPS,
    QUICK,
    TITLES,
    draw_rows,
    fit_method,
    member_of,
    over_seeds,
    with_long_chain,
)


def test_figures_over_seeds_are_mean_and_deviation() -> None:
    assert over_seeds([{"mae": 1.0}, {"mae": 3.0}])["mae"] == {"mean": 2.0, "deviation": pytest.approx(np.sqrt(2))}
    assert over_seeds([{"mae": 0.5}])["mae"] == {"mean": 0.5, "deviation": 0.0}


def test_the_same_seed_draws_the_same_rows() -> None:
    (x, y), (same_x, same_y), (_, other_y) = (draw_rows(Bimodal(), 5, seed) for seed in ([1, 2], [1, 2], [1, 3]))
    assert x.equals(same_x)
    np.testing.assert_array_equal(y, same_y)
    assert (y != other_y).all()


@pytest.mark.parametrize("method", [DIFFOR, DIFFOR_HEADS, "value-squared", "cross-entropy"])
def test_all_methods_are_fitted_alike(method: str) -> None:
    model = fit_method(method, draw_rows(Bimodal(), 60, [0]), QUICK, 3)
    settings = model.settings_
    assert (settings.encoder, settings.n_members) == ("periodic", 1)
    assert (settings.max_steps, model.scale_.transform) == (QUICK.max_steps, "uniform")
    read_by = {DIFFOR: "chain", DIFFOR_HEADS: "heads"}
    assert settings.method_settings.get("decoding") == read_by.get(method)
    assert method in TITLES


def test_a_long_chain_draws_in_more_steps_and_leaves_the_model_as_it_was() -> None:
    rows = draw_rows(Bimodal(), 60, [0])
    model = fit_method(DIFFOR, rows, QUICK, 0)
    before = model.predict(rows[0][:4])
    longer = with_long_chain(model)
    assert len(member_of(longer, rows[0])[0].method.drawing_times) == LONG_STEPS
    np.testing.assert_array_equal(model.predict(rows[0][:4]), before)
    assert (longer.predict(rows[0][:4]) != before).any()


def test_the_member_reads_the_rows_as_the_estimator_does() -> None:
    rows = draw_rows(Bimodal(), 60, [0])
    model = fit_method("cross-entropy", rows, QUICK, 0)
    member, inputs, keys = member_of(model, rows[0])
    unit = member.predict(inputs, keys, 16).statistic("native")
    np.testing.assert_allclose(model.scale_.from_unit(unit), model.predict(rows[0]), atol=1e-5)
