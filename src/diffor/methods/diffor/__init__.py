"""The paper: increments, noise processes, networks, and the method they make."""

from diffor.methods.diffor.increments import aggregate_increments, aligned_times, split_increments
from diffor.methods.diffor.networks import IncrementHeads, MLPDenoiser, TransformerDenoiser
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.methods.diffor.process import Diffusion, FlowMatching
from diffor.methods.diffor.scale_heads import ScaleHeadsDenoiser

__all__ = [
    "Diffusion",
    "FlowMatching",
    "IncrementDiffusion",
    "IncrementHeads",
    "MLPDenoiser",
    "ScaleHeadsDenoiser",
    "TransformerDenoiser",
    "aggregate_increments",
    "aligned_times",
    "split_increments",
]
