"""What a model is asked for in a benchmark, and the windows that it is asked on."""

from dataclasses import dataclass

import torch
from torch import Tensor

NUM_KNOWN = 6
"""Inputs known in advance: sine and cosine of the hour, the weekday and the day of the year, as hourly data have."""

BEFORE = 1
"""Steps before the look-back: for a model that reads, with each step, the value of the one before it."""

SEED = 0


@dataclass(frozen=True)
class Task:
    """Windows of `context_length` steps of `channels` series and the `horizon` after them, `batch` at a time."""

    context_length: int
    horizon: int
    batch: int
    channels: int

    @property
    def label(self) -> str:
        """The lengths, as tables say them."""
        return f"{self.context_length:,} → {self.horizon:,}"

    def draw(self, device: torch.device) -> "Drawn":
        """Give seeded windows, the same at each call."""
        rows = BEFORE + self.context_length + self.horizon
        generator = torch.Generator().manual_seed(SEED)
        values = torch.randn(self.batch, rows, self.channels, generator=generator)
        known = torch.rand(self.batch, rows, NUM_KNOWN, generator=generator) * 2 - 1
        return Drawn(self, values.to(device), known.to(device))


@dataclass(frozen=True)
class Drawn:
    """Windows of a task.

    Attributes
    ----------
    values
        Shape (B, 1 + T + h, C): the step before the look-back, the look-back, the horizon; like z-scores.
    known
        Shape (B, 1 + T + h, F), in [-1, 1].
    """

    task: Task
    values: Tensor
    known: Tensor

    @property
    def past(self) -> Tensor:
        """The look-back's values, shape (B, T, C)."""
        return self.values[:, BEFORE : BEFORE + self.task.context_length]

    @property
    def past_known(self) -> Tensor:
        """What is known of the look-back, shape (B, T, F)."""
        return self.known[:, BEFORE : BEFORE + self.task.context_length]

    @property
    def future(self) -> Tensor:
        """The values to be forecast, shape (B, h, C)."""
        return self.values[:, BEFORE + self.task.context_length :]

    @property
    def future_known(self) -> Tensor:
        """What is known of the horizon, shape (B, h, F)."""
        return self.known[:, BEFORE + self.task.context_length :]
