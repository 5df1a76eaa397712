"""The table of methods: a new one is a class and a line here."""

from __future__ import annotations

from diffor.core.method import Method
from diffor.core.registry import Registry
from diffor.methods.baselines import (
    behaviours,
    bins,
    bisection,
    cumulative_links,
    densities,
    diffusion,
    durations,
    embeddings,
    label_distributions,
    lifetime,
    lifetime_buckets,
    lifetime_mixtures,
    point,
    quantiles,
    ranks,
    thresholds,
    tokens,
    trees,
)
from diffor.methods.diffor import IncrementDiffusion
from diffor.methods.diffor.one_call import OneCall

_OWN: dict[str, type[Method]] = {
    "diffor": OneCall,
    "diffor-paper": IncrementDiffusion,
    "value-squared": point.SquaredValue,
    "value-absolute": point.AbsoluteValue,
    "value-huber": point.HuberValue,
    "value-gaussian": point.GaussianValue,
    "aadb": point.RankedValue,
    "mt-a": point.AttributeTasks,
    "dex": bins.ExpectedClass,
    "cross-entropy": bins.MiddleClass,
    "mean-variance": bins.MeanVariance,
    "unimodal": bins.UnimodalConcentrated,
    "oll": bins.OrdinalLogLoss,
    "nima": label_distributions.EarthMover,
    "mpada": bins.WeightedPatches,
    "dldl": label_distributions.GaussianLabels,
    "dldl-v2": label_distributions.GaussianLabelsWithMean,
    "sord": label_distributions.SoftOrdinalLabels,
    "sord-squared": label_distributions.SquaredSoftOrdinalLabels,
    "uiaa": label_distributions.UnifiedLabels,
    "or-cnn": ranks.IndependentBorders,
    "coral": ranks.SharedBorders,
    "corn": ranks.ConditionalBorders,
    "condor": ranks.MarginalBorders,
    "condor-nll": ranks.ConditionalLikelihood,
    "ordered-logit": cumulative_links.OrderedLogit,
    "ordered-probit": cumulative_links.OrderedProbit,
    "ordered-cloglog": cumulative_links.OrderedCloglog,
    "poe": embeddings.ProbabilisticEmbeddings,
    "ord2seq": bisection.BisectionSequence,
    "quantile-regression": quantiles.QuantileRegression,
    "cqe": quantiles.ConditionalQuantiles,
    "mdn": densities.MixtureDensity,
    "egmn": densities.ExponentialGaussian,
    "card": diffusion.DiffusionAroundMean,
    "d2q": durations.D2Q,
    "d2co": durations.D2Co,
    "cwm": durations.CWM,
    "tpm": trees.TPM,
    "ptpm": trees.PTPM,
    "cread": thresholds.CREAD,
    "swat-binomial": behaviours.BinomialSWaT,
    "swat-geometric": behaviours.GeometricSWaT,
    "gr": tokens.GenerativeRegression,
    "gor": tokens.GenerativeOrdinal,
    "ziln": lifetime.ZeroInflatedLogNormal,
    "two-stage": lifetime.TwoStage,
    "mtl-mse": lifetime.MultiTask,
    "optdist": lifetime_mixtures.OptimalDistribution,
    "hiltv": lifetime_mixtures.ZeroInflatedLogistics,
    "mdme": lifetime_buckets.RangesAndBuckets,
    "mdan": lifetime_buckets.BucketChannels,
}


def _fault(name: str, thing: object) -> str:
    is_one = isinstance(thing, type) and issubclass(thing, Method)
    return "" if is_one else f"it must be a class of Method, not {thing!r}"


METHODS = Registry("diffor.methods", _OWN, _fault)
"""Methods by name, those of installed packages (entry points of ``diffor.methods``) among them."""
