"""Noise processes: how a clean vector becomes noise, and how a denoiser leads back.

A process is two coefficients of time, ``noisy = signal(t) * clean + spread(t) * noise``. Diffusion and flow matching
differ in nothing else, so corruption, the regression target, the denoised estimate and the reverse chain are written
once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from diffor.errors import UserError, check_choice, check_least

PARAMETERIZATIONS = ("velocity", "noise", "clean")
PROCESSES = ("diffusion", "flow_matching")


class NoiseProcess(nn.Module, ABC):
    """Times 0 (clean) to ``n_times`` (noise) with their signal and spread, and what a denoiser is asked to predict.

    **Parameterisations:** ``noise`` is the paper's; ``clean`` is the vector itself; ``velocity`` is the direction from
    clean to noise, whose estimate stays stable where the signal vanishes.
    """

    signals: Tensor  # (T + 1,)
    spreads: Tensor  # (T + 1,)

    def __init__(self, signals: Tensor, spreads: Tensor, parameterization: str) -> None:
        super().__init__()
        check_choice("parameterization", parameterization, PARAMETERIZATIONS)
        self.parameterization = parameterization
        self.n_times = len(signals) - 1
        self.register_buffer("signals", signals.float(), persistent=False)
        self.register_buffer("spreads", spreads.float(), persistent=False)

    def signal(self, t: Tensor) -> Tensor:
        """Share of the clean vector left at time t. **Shape:** ``(...)`` -> ``(..., 1)``."""
        return self.signals[t].unsqueeze(-1)

    def spread(self, t: Tensor) -> Tensor:
        """Standard deviation of the noise at time t. **Shape:** ``(...)`` -> ``(..., 1)``."""
        return self.spreads[t].unsqueeze(-1)

    @abstractmethod
    def velocity_coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients ``(a, b)`` of ``velocity = a * noise - b * clean``, with ``a * signal + b * spread = 1``."""

    def corrupt(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Mix clean vectors with noise. **Shape:** ``(n, S)``, ``(n, S)``, ``(n,)`` -> ``(n, S)``."""
        return self.signal(t) * clean + self.spread(t) * noise

    def target(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """What the denoiser learns to output at time t. **Shape:** as :meth:`corrupt`."""
        if self.parameterization == "noise":
            return noise
        if self.parameterization == "clean":
            return clean
        of_noise, of_clean = self.velocity_coefficients(t)
        return of_noise * noise - of_clean * clean

    def denoised(self, output: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """Read the estimate of the clean vector off a denoiser's output. **Shape:** as :meth:`corrupt`."""
        if self.parameterization == "clean":
            return output
        if self.parameterization == "noise":
            return (noisy - self.spread(t) * output) / self.signal(t)
        # Solve noisy = signal * clean + spread * noise and velocity = a * noise - b * clean for clean.
        of_noise, _ = self.velocity_coefficients(t)
        return of_noise * noisy - self.spread(t) * output

    def predicted_noise(self, output: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """Read the estimate of the noise off a denoiser's output. **Shape:** as :meth:`corrupt`."""
        if self.parameterization == "noise":
            return output
        if self.parameterization == "clean":
            return (noisy - self.signal(t) * output) / self.spread(t)
        # The same two equations as in denoised, solved for noise. Their determinant is 1 but for the rounding of the
        # coefficients, which counts where almost no signal is left.
        signal, spread = self.signal(t), self.spread(t)
        of_noise, of_clean = self.velocity_coefficients(t)
        determinant = of_noise.double() * signal.double() + of_clean.double() * spread.double()
        return (of_clean * noisy + signal * output) / determinant.to(noisy.dtype)

    def reverse(
        self,
        denoise: Callable[[Tensor, Tensor], Tensor],
        start: Tensor,
        times: Sequence[int],
        eta: float = 0.0,
        draw: Callable[[int], Tensor] | None = None,
        variance: str = "reverse",
    ) -> Iterator[tuple[int, Tensor]]:
        """Walk from noise to clean along falling ``times``, yielding each time with its denoised estimate.

        One formula serves every sampler: ``eta = 0`` is DDIM (for flow matching the Euler step), ``eta = 1`` ancestral
        sampling. ``denoise(noisy, t)`` gives the estimate; ``draw(t)`` the fresh noise when ``eta > 0``, whose
        ``variance`` is that of the true ``reverse`` step, or the larger one of the ``forward`` step. The last estimate
        is the chain's sample.
        """
        check_times(times, self.n_times)
        if eta > 0 and draw is None:
            raise UserError(f"an ancestral chain needs fresh noise: pass draw, but got eta={eta}, draw=None")
        noisy = start
        for t, following in zip(times, [*times[1:], 0], strict=True):
            estimate = denoise(noisy, torch.tensor(t, device=start.device))
            yield t, estimate
            if following > 0:
                fresh = draw(t) if eta > 0 and draw is not None else None
                noisy = self.step(noisy, estimate, t, following, eta, fresh, variance)

    def step(
        self, noisy: Tensor, estimate: Tensor, t: int, following: int, eta: float, fresh: Tensor | None,
        variance: str = "reverse",
    ) -> Tensor:  # fmt: skip
        """Move from time t to an earlier one, given the denoised estimate at t. **Shape:** ``(..., S)``."""
        signal, signal_next = self.signals[[t, following]].tolist()
        spread, spread_next = self.spreads[[t, following]].tolist()
        noise = (noisy - signal * estimate) / spread
        added = 0.0
        if eta > 0:
            # Standard deviation of the true reverse step q(noisy_following | noisy_t, clean), scaled by eta.
            added = eta * spread_next * math.sqrt(max(0.0, 1 - (signal * spread_next / (signal_next * spread)) ** 2))
        kept = math.sqrt(max(0.0, spread_next**2 - added**2))
        moved: Tensor = signal_next * estimate + kept * noise
        if fresh is None:
            return moved
        forward = eta * math.sqrt(max(0.0, 1 - (signal / signal_next) ** 2))  # of q(noisy_t | noisy_following)
        return moved + (forward if variance == "forward" else added) * fresh


class Diffusion(NoiseProcess):
    """Variance-preserving diffusion with a ``cosine`` or ``linear`` variance schedule.

    NOTE[DIFF]: the paper states neither T nor the schedule. T is 1000; the schedule is cosine, and linear in the
    ``paper`` preset because that is what its noise-prediction formula is usually run with.

    >>> process = Diffusion(n_times=1000)
    >>> float(process.signals[1000] ** 2 + process.spreads[1000] ** 2)
    1.0
    """

    def __init__(self, n_times: int = 1000, schedule: str = "cosine", parameterization: str = "velocity") -> None:
        kept = torch.cumprod(1 - variance_schedule(n_times, schedule), dim=0)  # the paper's alpha-bar, (T,)
        kept = torch.cat([torch.ones(1, dtype=kept.dtype), kept])
        super().__init__(kept.sqrt(), (1 - kept).sqrt(), parameterization)

    def velocity_coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients of ``signal * noise - spread * clean``."""
        return self.signal(t), self.spread(t)


class FlowMatching(NoiseProcess):
    """A straight path from clean to noise, ``signal = 1 - t / T`` and ``spread = t / T``.

    >>> process = FlowMatching(n_times=4)
    >>> process.signals.tolist()
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, n_times: int = 1000, parameterization: str = "velocity") -> None:
        if parameterization == "noise":
            raise UserError(
                "flow matching cannot predict noise: at t = T no signal is left to divide by, but got "
                "parameterization='noise'; use 'velocity' or 'clean'"
            )
        check_least("n_times", n_times)
        spread = torch.arange(n_times + 1, dtype=torch.float64) / n_times
        super().__init__(1 - spread, spread, parameterization)

    def velocity_coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients of ``noise - clean``."""
        one = torch.ones_like(self.signal(t))
        return one, one


def cosine_variances(n_times: int) -> Tensor:
    """The signal falls like a cosine. **Shape:** ``(n_times,)``."""
    angle = (torch.arange(n_times + 1, dtype=torch.float64) / n_times + 0.008) / 1.008 * math.pi / 2
    kept = torch.cos(angle) ** 2
    return 1 - kept[1:] / kept[:-1]


def linear_variances(n_times: int) -> Tensor:
    """Variances rise in a line; the usual end points belong to 1000 times, and fewer take larger steps."""
    scale = 1000 / n_times
    return torch.linspace(1e-4 * scale, 0.02 * scale, n_times, dtype=torch.float64)


SCHEDULES: dict[str, Callable[[int], Tensor]] = {"cosine": cosine_variances, "linear": linear_variances}
"""Noise schedules by name: a new one is a function and a line here."""


def variance_schedule(n_times: int, schedule: str) -> Tensor:
    """Variances beta_1 ... beta_T of the forward process, in (0, 1). **Shape:** ``(n_times,)``."""
    check_least("n_times", n_times)
    check_choice("schedule", schedule, SCHEDULES)
    return SCHEDULES[schedule](n_times).clamp(max=0.999)


def check_times(times: Sequence[int], n_times: int) -> None:
    """Refuse a list of times that a reverse chain cannot follow."""
    falling = all(earlier > later for earlier, later in pairwise(times))
    if not times or not falling or times[0] > n_times or times[-1] < 1:
        raise UserError(f"times must fall strictly from at most {n_times} to at least 1, but got {list(times)}")


def make_process(name: str, n_times: int, schedule: str, parameterization: str) -> NoiseProcess:
    """Build the noise process that a name stands for."""
    check_choice("process", name, PROCESSES)
    if name == "diffusion":
        return Diffusion(n_times, schedule, parameterization)
    return FlowMatching(n_times, parameterization)
