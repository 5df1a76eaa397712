import numpy as np
import torch
from scipy import stats

from diffor.core.row_noise import key_uniforms, row_keys, start_noise, step_noise


def table(n: int = 500) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 4, generator=generator), torch.randint(0, 9, (n, 2), generator=generator)


def largest_correlation(columns: np.ndarray) -> float:
    """Largest absolute correlation between any two columns."""
    matrix = np.corrcoef(columns, rowvar=False)
    return float(abs(matrix - np.eye(len(matrix))).max())


# Keys.


def test_a_rows_key_does_not_depend_on_its_batch_or_place():
    numbers, codes = table()
    keys = row_keys((numbers, codes), seed=3)
    assert keys.dtype == torch.int64
    order = torch.randperm(500, generator=torch.Generator().manual_seed(1))
    assert torch.equal(row_keys((numbers[order], codes[order]), seed=3), keys[order])
    for first in (0, 17, 499):
        assert torch.equal(row_keys((numbers[first : first + 1], codes[first : first + 1]), 3), keys[first : first + 1])


def test_different_rows_have_different_keys():
    assert len(row_keys(table(50_000), seed=0).unique()) == 50_000


def test_the_smallest_change_changes_the_key():
    numbers, codes = (part[:1] for part in table())
    keys = [row_keys((numbers, codes), 0)]
    for place in range(4):
        nudged = numbers.clone()
        nudged[0, place] = torch.nextafter(nudged[0, place], torch.tensor(10.0))
        keys.append(row_keys((nudged, codes), 0))
    keys.append(row_keys((numbers, codes + torch.tensor([[0, 1]])), 0))
    keys.append(row_keys((numbers, codes), 1))
    assert len(torch.cat(keys).unique()) == len(keys)


def test_the_place_of_a_value_matters():
    rows = torch.tensor([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [1.0, 0.0, 2.0]])
    assert len(row_keys((rows,), 0).unique()) == 4
    one, two = torch.ones(1, 1, dtype=torch.int64), torch.full((1, 1), 2)
    assert row_keys((one, two), 0) != row_keys((two, one), 0)


def test_both_zeros_are_one_value():
    assert torch.equal(row_keys((torch.tensor([[-0.0, 1.0]]),), 0), row_keys((torch.tensor([[0.0, 1.0]]),), 0))


# Uniforms.


def test_uniforms_are_uniform_and_inside_the_unit_interval():
    uniforms = key_uniforms(row_keys(table(), 0), torch.arange(400)).double().numpy()
    assert uniforms.min() > 0
    assert uniforms.max() < 1
    assert stats.kstest(uniforms.ravel(), "uniform").pvalue > 1e-3
    assert min(stats.kstest(row, "uniform").pvalue for row in uniforms) > 1e-3 / 500
    assert min(stats.kstest(column, "uniform").pvalue for column in uniforms.T) > 1e-3 / 400


def test_uniforms_of_different_rows_and_counters_are_uncorrelated():
    uniforms = key_uniforms(row_keys(table(4000), 0), torch.arange(30)).numpy()
    assert largest_correlation(uniforms) < 5 / np.sqrt(4000)
    uniforms = key_uniforms(row_keys(table(30), 0), torch.arange(4000)).numpy()
    assert largest_correlation(uniforms.T) < 5 / np.sqrt(4000)


# Noise.


def test_start_noise_is_standard_normal_over_rows():
    noise = start_noise(row_keys(table(20_000), 0), n_samples=4, n_dimensions=8).double().numpy()
    assert noise.shape == (20_000, 4, 8)
    assert abs(noise.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert abs(noise.std(axis=0) - 1).max() < 5 / np.sqrt(2 * 20_000)
    for sample, dimension in ((0, 0), (3, 7), (1, 4)):
        assert stats.kstest(noise[:, sample, dimension], "norm").pvalue > 1e-3


def test_samples_of_a_row_cover_the_normal_distribution_evenly():
    noise = start_noise(row_keys(table(200), 0), 64, 8).double()
    # Means of 64 independent draws would spread by 1 / 8.
    assert float(noise.mean(dim=1).std()) < 0.4 / 8
    uniform = torch.special.ndtr(noise)
    counts = torch.stack([((uniform >= k / 8) & (uniform < (k + 1) / 8)).sum(dim=1) for k in range(8)])
    assert counts.min() >= 6
    assert counts.max() <= 10


def test_samples_of_different_rows_do_not_move_together():
    """The rows share one point set: without an order of their own, their j-th samples would be tied to each other."""
    noise = start_noise(row_keys(table(40), 0), 256, 1).squeeze(-1)
    correlation = torch.corrcoef(noise) - torch.eye(40)
    assert correlation.abs().mean() < 0.06  # independent draws: sqrt(2 / pi / 256) = 0.05


def test_each_row_has_the_whole_even_set_in_its_own_order():
    noise = start_noise(row_keys(table(10), 0), 64, 1).squeeze(-1)
    levels = torch.special.ndtr(noise).sort(dim=1).values
    gaps = torch.cat([levels[:, 1:], levels[:, :1] + 1], dim=1) - levels
    assert gaps.max() < 3.1 / 64  # independent draws leave gaps of about log(64) / 64
    ranks = noise.argsort(dim=1)
    assert not torch.equal(ranks[0], ranks[1])


def test_noise_of_a_row_does_not_depend_on_the_others():
    keys = row_keys(table(20), 0)
    for draw in (lambda k: start_noise(k, 5, 3), lambda k: step_noise(k, 5, 3, step=2)):
        assert torch.equal(draw(keys[7:8]), draw(keys)[7:8])


def test_step_noise_is_independent_between_steps_and_of_the_start():
    keys = row_keys(table(500), 0)
    draws = [step_noise(keys, 10, 2, step) for step in (0, 1, 2, 3, 500, 999, 1000)] + [start_noise(keys, 10, 2)]
    columns = torch.cat([draw.reshape(5000, 2) for draw in draws], dim=1).numpy()
    assert largest_correlation(columns) < 5 / np.sqrt(5000)


def test_noise_is_always_finite():
    keys = torch.tensor([0, -1, 2**63 - 1, -(2**63), 1])
    assert torch.isfinite(start_noise(keys, 1000, 8)).all()
    assert torch.isfinite(step_noise(keys, 1000, 8, step=1000)).all()
