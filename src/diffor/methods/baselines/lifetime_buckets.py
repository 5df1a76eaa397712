"""Lifetime value by buckets: zero, and ranges of positive targets that hold equally many of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, huber_loss

from diffor.core.distribution import Bins, Distribution, DistributionMethod, PointMethod
from diffor.core.method import weighted_mean
from diffor.errors import check_choice
from diffor.methods.baselines.densities import training_quantiles
from diffor.methods.baselines.point import StandardScale
from diffor.methods.baselines.ranks import borders_passed
from diffor.methods.baselines.settings import check_counts, check_not_negative

DECODINGS = ("argmax", "expectation")


def positive_edges(y: Tensor, n_buckets: int) -> Tensor:
    """Edges of buckets that share the positive training targets evenly, the first at 0.

    **Shape:** ``(n,)`` -> ``(n_buckets + 1,)``.
    """
    levels = torch.arange(n_buckets + 1) / n_buckets
    positive = y[y > 0]
    edges = training_quantiles(positive, levels) if len(positive) else levels.clone()
    edges[0] = 0.0
    return edges


def bucket_of(y: Tensor, edges: Tensor) -> Tensor:
    """0 for zeros, k for the k-th bucket of positive targets, which holds its lower edge. **Shape:** ``(n,)``, kept."""
    place = torch.searchsorted(edges[1:-1].contiguous(), y.contiguous(), right=True)
    return torch.where(y > 0, place + 1, torch.zeros_like(place))


# --- ranges, buckets, and the place inside a bucket ---


def ordinal_probabilities(logits: Tensor) -> Tensor:
    """Probabilities of K classes from logits of passing each border. **Shape:** ``(..., K - 1)`` -> ``(..., K)``."""
    passing = logits.sigmoid()
    first, last = torch.ones_like(passing[..., :1]), torch.zeros_like(passing[..., :1])
    # Borders out of order would give negative probabilities.
    steps = -torch.cat([first, passing, last], dim=-1).diff(dim=-1).clamp(max=0)
    return steps / steps.sum(dim=-1, keepdim=True)


def tower_losses(logits: Tensor, border_logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of a softmax tower, of an ordinal tower, and what the second teaches the first.

    **Shape:** ``(n, K)``, ``(n, K - 1)``, ``(n,)`` -> three of ``(n,)``.
    """
    passed = borders_passed(index, border_logits.shape[1]).to(border_logits)
    order = binary_cross_entropy_with_logits(border_logits, passed, reduction="none").sum(dim=1)
    teacher = ordinal_probabilities(border_logits).detach()
    distillation = (torch.xlogy(teacher, teacher) - teacher * logits.log_softmax(dim=1)).sum(dim=1)
    return cross_entropy(logits, index, reduction="none"), order, distillation


class OrdinalTower(nn.Module):
    """One direction in the features and several borders along it, for each of ``n_groups``.

    **Shape:** ``(n, d)`` -> ``(n, n_groups, n_borders)`` logits of passing each border.
    """

    def __init__(self, n_features: int, n_groups: int, n_borders: int) -> None:
        super().__init__()
        self.direction = nn.Linear(n_features, n_groups, bias=False)
        self.borders = nn.Parameter((torch.arange(n_borders, 0, -1) / n_borders).repeat(n_groups, 1))

    def forward(self, features: Tensor) -> Tensor:
        """Logits of passing each border."""
        logits: Tensor = self.direction(features).unsqueeze(-1) + self.borders
        return logits


class RangesAndBuckets(DistributionMethod):
    """A reconstruction: MDME, which finds first the range of a target, then its bucket, then its place in the bucket.

    Known, from summaries of Li et al. (2022): targets are divided into ranges, of which zero is one, and these into
    buckets of equally many rows; ranges and buckets each have a softmax tower and an ordinal tower that teaches it; the
    place in the bucket is a share of its width. Guessed: the weights of the terms, all 1; how many ranges and buckets.
    Left out: the horizons of several lengths that the source predicts together, since here there is one.

    **Shape:** features ``(n, d)`` -> probabilities of 1 + R ranges, of B buckets in each of R, and a place in each.
    """

    family, tasks, native_statistic = "lifetime value", ("value",), "own"
    title, paper, evidence = "MDME", "Li et al., CIKM 2022", "notes"
    edges: Tensor

    def __init__(self, n_features: int, *, n_ranges: int = 3, n_buckets: int = 8, decoding: str = "argmax") -> None:
        super().__init__()
        check_counts(n_ranges=n_ranges)
        check_counts(2, n_buckets=n_buckets)
        check_choice("decoding", decoding, DECODINGS)
        self.n_ranges, self.n_buckets, self.decoding = n_ranges, n_buckets, decoding
        count = n_ranges * n_buckets
        self.ranges, self.range_order = nn.Linear(n_features, 1 + n_ranges), OrdinalTower(n_features, 1, n_ranges)
        self.buckets = nn.Linear(n_features, count)
        self.bucket_order = OrdinalTower(n_features, n_ranges, n_buckets - 1)
        self.places = nn.Linear(n_features, count)
        self.register_buffer("edges", torch.arange(count + 1) / count)

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Cut the positive targets into buckets."""
        self.edges.copy_(positive_edges(y, self.n_ranges * self.n_buckets))

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Three terms for the range, three for the bucket in it, and the squared error of the place in the bucket."""
        positive = (y > 0).to(features)
        index = (bucket_of(y, self.edges) - 1).clamp(min=0)  # zeros have a range, but no bucket that counts
        own = torch.div(index, self.n_buckets, rounding_mode="floor")
        rows = torch.arange(len(y), device=y.device)
        buckets = self.buckets(features).view(len(y), self.n_ranges, self.n_buckets)[rows, own]
        of_range = tower_losses(self.ranges(features), self.range_order(features)[:, 0], (own + 1) * (y > 0))
        of_bucket = tower_losses(buckets, self.bucket_order(features)[rows, own], index % self.n_buckets)
        terms = {
            **dict(zip(("range", "range_order", "range_distillation"), of_range, strict=True)),
            **dict(zip(("bucket", "bucket_order", "bucket_distillation"), of_bucket, strict=True)),
        }
        low, high = self.edges[index], self.edges[index + 1]
        share = torch.where(high > low, (y - low) / (high - low), torch.full_like(y, 0.5)).clamp(0, 1)
        terms["place"] = (self.places(features)[rows, index].sigmoid() - share).square()
        counted = {name: term if name.startswith("range") else positive * term for name, term in terms.items()}
        return {name: weighted_mean(term, weights) for name, term in counted.items()}

    def distribution(self, features: Tensor, **side: Tensor) -> Bins:
        """An atom at zero and buckets, each with the place that the network expects in it as its mean."""
        ranges = self.ranges(features).softmax(dim=1)
        buckets = self.buckets(features).view(-1, self.n_ranges, self.n_buckets).softmax(dim=2)
        joint = (ranges[:, 1:, None] * buckets).flatten(1)
        places = self.edges[:-1] + self.places(features).sigmoid() * self.edges.diff()
        zero = torch.zeros_like(places[:, :1])
        edges = torch.cat([self.edges[:1], self.edges])
        return Bins(torch.cat([ranges[:, :1], joint], dim=1), edges, torch.cat([zero, places], dim=1))

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The place in the likeliest bucket of the likeliest range, or the expectation."""
        assert isinstance(distribution, Bins)
        if self.decoding == "expectation":
            return distribution.mean
        joint = distribution.probabilities[:, 1:].view(-1, self.n_ranges, self.n_buckets)
        likeliest = torch.cat([distribution.probabilities[:, :1], joint.sum(dim=2)], dim=1).argmax(dim=1)
        own = (likeliest - 1).clamp(min=0)
        rows = torch.arange(len(own), device=own.device)
        places = distribution.places[:, 1:].view_as(joint)[rows, own]
        value = places.gather(1, joint[rows, own].argmax(dim=1, keepdim=True)).squeeze(1)
        return value * (likeliest > 0)


# --- channels for buckets ---


def distance_similarity(embedding: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    """Mean over pairs of rows of how far relative distances in the embedding and in the target differ.

    Distances are divided by their means over all pairs; a pair counts by the product of its rows' weights.

    **Shape:** ``(n, e)``, ``(n,)``, ``(n,)`` -> scalar.
    """
    if len(y) < 2:
        return embedding.sum() * 0
    apart, labels = torch.pdist(embedding), torch.pdist(y[:, None])
    first, second = torch.triu_indices(len(y), len(y), offset=1, device=y.device)
    pairs = torch.ones_like(labels) if weights is None else weights[first] * weights[second]
    shares = pairs / pairs.sum().clamp(min=1e-12)

    def relative(distances: Tensor) -> Tensor:
        return distances / (distances * shares).sum().clamp(min=1e-12)

    return ((relative(apart) - relative(labels)).abs() * shares).sum()


class BucketChannels(PointMethod):
    """A reconstruction: MDAN, a network for each bucket of the target, fused by a classifier of the buckets.

    Known, from the abstract of Liu et al. (2024): a classifier predicts the bucket of the target, a network of several
    channels embeds the row once for each bucket, and their sum by the classifier's probabilities predicts the value;
    distances between rows are to follow those of their targets. Guessed: the form and weight of that third term, the
    buckets, the sizes. Left out: the controller of the channels, of which nothing is known.

    **Shape:** features ``(n, d)`` -> probabilities of J buckets, J channels of e numbers, a value.
    """

    family, tasks, native_statistic = "lifetime value", ("value",), "own"
    title, paper, evidence = "MDAN", "Liu et al., PAKDD 2024", "notes"
    edges: Tensor

    def __init__(
        self, n_features: int, *, n_buckets: int = 8, n_hidden: int = 32, similarity_weight: float = 0.1
    ) -> None:
        super().__init__()
        check_counts(2, n_buckets=n_buckets)  # zero's among them
        check_counts(n_hidden=n_hidden)
        check_not_negative(similarity_weight=similarity_weight)
        self.n_buckets, self.similarity_weight = n_buckets, similarity_weight
        self.buckets, self.channels = nn.Linear(n_features, n_buckets), nn.Linear(n_features, n_buckets * n_hidden)
        self.head = nn.Linear(n_hidden, 1)
        self.register_buffer("edges", torch.arange(n_buckets) / (n_buckets - 1))
        self.scale = StandardScale()

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Cut the positive targets into buckets, and standardise all targets."""
        self.edges.copy_(positive_edges(y, self.n_buckets - 1))
        self.scale.fit(y)

    def fuse(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the buckets, and the channels' sum by their probabilities. **Shape:** ``(n, J)``, ``(n, e)``."""
        logits = self.buckets(features)
        channels = self.channels(features).relu().view(len(features), self.n_buckets, -1)
        return logits, (logits.softmax(dim=1).unsqueeze(-1) * channels).sum(dim=1)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Huber loss of the standardised value, cross-entropy of the bucket, and similarity of distances."""
        logits, fused = self.fuse(features)
        value = huber_loss(self.head(fused).squeeze(1), self.scale(y), reduction="none")
        bucket = cross_entropy(logits, bucket_of(y, self.edges), reduction="none")
        return {
            "value": weighted_mean(value, weights),
            "bucket": weighted_mean(bucket, weights),
            "similarity": self.similarity_weight * distance_similarity(fused, y, weights),
        }

    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """The head's answer to the fused channels."""
        return self.scale.back(self.head(self.fuse(features)[1]).squeeze(1))
