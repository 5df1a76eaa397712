"""The paper: increments, noise processes, networks, and the method they make."""

from diffor.diffusion.increments import aggregate_increments, aligned_times, split_increments
from diffor.diffusion.networks import IncrementHeads, MLPDenoiser, TransformerDenoiser
from diffor.diffusion.paper import IncrementDiffusion
from diffor.diffusion.process import Diffusion, FlowMatching

__all__ = [
    "Diffusion",
    "FlowMatching",
    "IncrementDiffusion",
    "IncrementHeads",
    "MLPDenoiser",
    "TransformerDenoiser",
    "aggregate_increments",
    "aligned_times",
    "split_increments",
]
