"""The table of methods: a new one is a class and a line here."""

from __future__ import annotations

from diffor.diffusion import IncrementDiffusion
from diffor.method import Method

METHODS: dict[str, type[Method]] = {"diffor": IncrementDiffusion}
"""Methods by name."""
