"""Forecasts without anything learnt; every result is held against them and against `forecast.evaluation.ridge`."""

from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows


def last_value(batch: Batch) -> Tensor:
    """Return the last target value of the context for every step, shape (B, h, C_out)."""
    return batch.past[:, -1:, : batch.future.shape[2]].expand_as(batch.future)


@dataclass(frozen=True)
class SeasonalNaive:
    """Forecast each step by the newest value before the origin at the same place in the season.

    Parameters
    ----------
    windows
        The windows forecast; their table is read before each origin, never after it.
    period
        Steps in a season.
    """

    windows: Windows
    period: int

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        step = torch.arange(self.windows.horizon, device=batch.origin.device)
        back = step % self.period - self.period  # within the season that ends at the origin
        rows = batch.origin[:, None] + back  # (B, h)
        return self.windows.values_at(rows)[..., : self.windows.num_targets]
