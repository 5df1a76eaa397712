"""The table of methods: a new one is a class and a line here."""

from __future__ import annotations

from diffor.baselines.behaviours import BEHAVIOUR_METHODS
from diffor.baselines.bins import BIN_METHODS
from diffor.baselines.bisection import BISECTION_METHODS
from diffor.baselines.cumulative_links import CUMULATIVE_LINK_METHODS
from diffor.baselines.densities import DENSITY_METHODS
from diffor.baselines.diffusion import DIFFUSION_METHODS
from diffor.baselines.durations import DURATION_METHODS
from diffor.baselines.embeddings import EMBEDDING_METHODS
from diffor.baselines.label_distributions import LABEL_DISTRIBUTION_METHODS
from diffor.baselines.lifetime import LIFETIME_METHODS
from diffor.baselines.lifetime_buckets import LIFETIME_BUCKET_METHODS
from diffor.baselines.lifetime_mixtures import LIFETIME_MIXTURE_METHODS
from diffor.baselines.point import POINT_METHODS
from diffor.baselines.quantiles import QUANTILE_METHODS
from diffor.baselines.ranks import RANK_METHODS
from diffor.baselines.tokens import TOKEN_METHODS
from diffor.baselines.trees import TREE_METHODS
from diffor.diffusion import IncrementDiffusion
from diffor.diffusion.one_call import OneCall
from diffor.method import Method

METHODS: dict[str, type[Method]] = {
    "diffor": OneCall,
    "diffor-paper": IncrementDiffusion,
    **POINT_METHODS,
    **BIN_METHODS,
    **LABEL_DISTRIBUTION_METHODS,
    **RANK_METHODS,
    **CUMULATIVE_LINK_METHODS,
    **EMBEDDING_METHODS,
    **BISECTION_METHODS,
    **QUANTILE_METHODS,
    **DENSITY_METHODS,
    **DIFFUSION_METHODS,
    **DURATION_METHODS,
    **TREE_METHODS,
    **BEHAVIOUR_METHODS,
    **TOKEN_METHODS,
    **LIFETIME_METHODS,
    **LIFETIME_MIXTURE_METHODS,
    **LIFETIME_BUCKET_METHODS,
}
"""Methods by name."""
