"""What many heads are promised beside one, exactly, on linear heads; and what the promise leaves open."""

import numpy as np
import pytest
from linear_tasks import make_tasks

from diffor.errors import UserError
from diffor.methods.diffor.process import Diffusion
from diffor.paper.theory.analysis import even_grades, ordinal_bound
from diffor.paper.theory.linear_heads import time_tasks
from diffor.paper.theory.tiers import best_weights, inclusion, three_tiers, upper_bound


def test_the_upper_bound_is_the_ordinal_bound_of_the_estimate():
    positions, thresholds = even_grades(np.random.default_rng(1).random(80), 3)
    tasks = make_tasks(n=80, clean=positions, signal=4.0)
    heads = np.stack([task.minimiser for task in tasks.tasks])
    for m, (task, head) in enumerate(zip(tasks.tasks, heads, strict=True)):
        measured = ordinal_bound(tasks.estimates(heads)[:, m], positions, thresholds)
        assert upper_bound(tasks, m, task.value(head), measured["gamma"]) == pytest.approx(measured["bound"])
        assert measured["error_rate"] <= measured["bound"]
    assert upper_bound(tasks, 0, 1.0, 0.0) == np.inf
    assert upper_bound(tasks, 0, 0.5, 0.2) == pytest.approx(2 / 0.04 * tasks.spreads[0] ** 2 / tasks.signals[0] ** 2)


def two_encoders(seed=1, n=400):
    """One encoder says where the target lies, the other whether it is known, which helps at little noise."""
    rng = np.random.default_rng(seed)
    known, place = rng.random(n) < 0.5, rng.random(n)
    clean = np.where(known, 0.5, np.clip(0.7 * place + 0.3 * rng.random(n), 0, 1))
    return [
        time_tasks(one[:, None].astype(float), clean, Diffusion(100), (60, 8), (1, 1), seed) for one in (place, known)
    ]


def test_many_heads_contain_the_model_of_one_time():
    families = two_encoders()
    for m in (0, 1):
        found = inclusion(families, m)
        assert found.holds
        assert found.multiple == pytest.approx(found.single)  # no head but the m-th counts, so nothing is gained
        assert found.joint >= found.single


def test_training_all_times_jointly_may_be_worse_at_one_than_training_it_alone():
    found = inclusion(two_encoders(), 0)
    assert (found.single_encoder, found.joint_encoder) == (0, 1)
    assert found.joint > 1.5 * found.single  # "cannot be worse" is true of the best parameters, not of trained ones
    assert inclusion(two_encoders(), 1).cost_of_sharing == 0  # the other time decides
    assert inclusion(two_encoders()[:1], 0).cost_of_sharing == 0  # with one encoder there is nothing to trade


def test_inclusion_can_fail():
    found = inclusion(two_encoders(), 0)
    assert not found._replace(multiple=found.single + 1e-3).holds
    with pytest.raises(UserError, match="at least one encoder, all with the same times"):
        inclusion([make_tasks(), make_tasks(times=(80, 40, 5))], 0)


def test_the_three_tiers_hold_at_the_minimum_and_the_oracle_is_one_head_at_the_best_time():
    found = three_tiers(make_tasks(signal=2.0))
    assert found.safe
    assert found.oracle_holds
    assert found.fusion_holds
    assert found.fused <= found.separate[found.best] * (1 + 1e-9)
    assert found.best == 2  # the time with the least noise: estimates start from the corrupted truth
    assert found.oracle_over_single == pytest.approx(0, abs=1e-9)


def test_heads_that_are_not_trained_are_not_safe():
    tasks = make_tasks()
    untrained = three_tiers(tasks, heads=np.zeros((3, tasks.inputs.shape[2])))
    assert not untrained.safe
    shared = three_tiers(tasks, heads=np.tile(tasks.shared.minimiser, (3, 1)))
    assert not shared.safe
    assert (shared.separate >= shared.single - 1e-12).all()


def test_a_fusion_is_bounded_whatever_its_weights_and_the_bound_needs_the_products():
    tasks = make_tasks()
    for weights in ([1, 0, 0], [0.2, 0.3, 0.5], [2, -1.5, 0.5]):
        found = three_tiers(tasks, weights=weights)
        assert found.fusion_holds
    even = three_tiers(tasks, weights=[1 / 3] * 3)
    # Errors at several times are alike: their variances alone do not bound a combination of them.
    without = even._replace(fusion_bound=float(np.full(3, 1 / 9) @ even.separate))
    assert not without.fusion_holds
    with pytest.raises(UserError, match=r"sum to 1, but got weights=\[1.0, 1.0, 1.0\]"):
        three_tiers(tasks, weights=[1, 1, 1])


def test_the_best_weights_are_the_best():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3))
    products = errors.T @ errors / len(errors)
    best = best_weights(products)
    for _ in range(50):
        other = best + (shift := rng.normal(size=3) * 0.1) - shift.mean()
        assert best @ products @ best <= other @ products @ other + 1e-12
