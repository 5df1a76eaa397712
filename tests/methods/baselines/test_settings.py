"""What settings may be: the rules themselves, and the first value that each method refuses."""

import re

import pytest

from diffor.methods import METHODS
from diffor.methods.baselines.settings import check_below_one, check_counts, check_not_negative, check_positive


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_positive(delta=0.0), "delta must be a positive number, but got delta=0.0"),
        (lambda: check_positive(delta=float("inf")), "but got delta=inf"),
        (lambda: check_not_negative(margin=-1.0), "margin must be a number from 0 on, but got margin=-1.0"),
        (lambda: check_counts(window=0), "window must be a whole number from 1 on, but got window=0"),
        (lambda: check_counts(2, n_bins=2.5), "n_bins must be a whole number from 2 on, but got n_bins=2.5"),
        (lambda: check_below_one(dropout=1.0), "dropout must be a share in [0, 1), but got dropout=1.0"),
    ],
)
def test_a_message_names_setting_rule_and_value(check, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check()
    # What is right passes.
    check_positive(delta=1.0, range_seconds=None)
    check_not_negative(margin=0.0)
    check_counts(0, window=0)
    check_below_one(dropout=0.0)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("value-huber", "delta", 0.0),
        ("dldl", "sigma", 0.0),
        ("oll", "exponent", 0.0),
        ("dex", "n_bins", 1),
        ("mdn", "n_components", 0),
        ("egmn", "n_components", 0),
        ("quantile-regression", "n_quantiles", 1),
        ("card", "n_times", 24),
        ("card", "n_nodes", 1),
        ("poe", "n_draws", 0),
        ("poe", "dropout", 1.0),
        ("gr", "n_steps", 1),
        ("gr", "max_values", 1),
        ("gr", "width", 12),  # no multiple of the heads
        ("gr", "decay", 1.5),
        ("gor", "retention", 0.0),
        ("gor", "tolerance", 1.0),
        ("d2q", "n_groups", 0),
        ("tpm", "n_leaves", 12),  # no power of two
        ("ptpm", "n_leaves", 12),
        ("cread", "n_thresholds", 1),
        ("swat-geometric", "n_buckets", 1),
        ("optdist", "n_heads", 1),
        ("hiltv", "n_components", 0),
        ("mdme", "n_ranges", 0),
        ("mdme", "n_buckets", 1),
        ("mdan", "n_buckets", 1),
    ],
)
def test_the_first_wrong_value_is_refused(name, setting, value):
    with pytest.raises(ValueError, match=rf"but .*{value}"):
        METHODS[name](4, **{setting: value})
