"""The table of methods: a new one is a class and a line here."""

from __future__ import annotations

from diffor.core.method import Method
from diffor.methods.baselines.attributes import ATTRIBUTE_METHODS
from diffor.methods.baselines.behaviours import BEHAVIOUR_METHODS
from diffor.methods.baselines.bins import BIN_METHODS
from diffor.methods.baselines.bisection import BISECTION_METHODS
from diffor.methods.baselines.cumulative_links import CUMULATIVE_LINK_METHODS
from diffor.methods.baselines.densities import DENSITY_METHODS
from diffor.methods.baselines.diffusion import DIFFUSION_METHODS
from diffor.methods.baselines.durations import DURATION_METHODS
from diffor.methods.baselines.embeddings import EMBEDDING_METHODS
from diffor.methods.baselines.label_distributions import LABEL_DISTRIBUTION_METHODS
from diffor.methods.baselines.lifetime import LIFETIME_METHODS
from diffor.methods.baselines.lifetime_buckets import LIFETIME_BUCKET_METHODS
from diffor.methods.baselines.lifetime_mixtures import LIFETIME_MIXTURE_METHODS
from diffor.methods.baselines.ordinal_tokens import ORDINAL_TOKEN_METHODS
from diffor.methods.baselines.patches import PATCH_METHODS
from diffor.methods.baselines.point import POINT_METHODS
from diffor.methods.baselines.quantiles import QUANTILE_METHODS
from diffor.methods.baselines.ranks import RANK_METHODS
from diffor.methods.baselines.tokens import TOKEN_METHODS
from diffor.methods.baselines.trees import TREE_METHODS
from diffor.methods.baselines.vote_histograms import VOTE_METHODS
from diffor.methods.diffor import IncrementDiffusion
from diffor.methods.diffor.one_call import OneCall

METHODS: dict[str, type[Method]] = {
    "diffor": OneCall,
    "diffor-paper": IncrementDiffusion,
    **POINT_METHODS,
    **ATTRIBUTE_METHODS,
    **BIN_METHODS,
    **VOTE_METHODS,
    **PATCH_METHODS,
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
    **ORDINAL_TOKEN_METHODS,
    **LIFETIME_METHODS,
    **LIFETIME_MIXTURE_METHODS,
    **LIFETIME_BUCKET_METHODS,
}
"""Methods by name."""
