"""Windows on generated series, whose look-back and horizon are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.data.generated.prior import draw_gaps, draw_series
from forecast.data.windows import Batch, Windows, _Gathered

SHORTEST = 24
"""Shortest look-back that is drawn, in steps."""

HELD = 500
"""Series of validation, and of test, a window each; none of them is one of training."""

FIRST_HELD = 2**40
"""Number of the first series of validation."""

WHOLE = 0.5
"""Share of windows with the whole look-back, and of windows with the whole horizon."""


SPACING = 17
"""Steps between the training windows of a series; no divisor of a common season."""


def draw_pool(seed: int, series: Sequence[int] | range, steps: int) -> tuple[Tensor, Tensor]:
    """Return values (S · n, 1), float32, and which were measured, boolean, of the numbered series, n = `steps` each.

    Each series has mean 0 and deviation 1. It depends only on the seed and its number.
    """
    values = np.empty((len(series), steps), dtype=np.float32)
    measured = np.empty((len(series), steps), dtype=np.bool_)
    for place, number in enumerate(series):
        random = np.random.default_rng([seed, number])
        drawn = draw_series(random, steps)
        drawn = drawn - drawn.mean()
        values[place] = drawn / max(drawn.std(), 1e-9) if drawn.any() else drawn
        measured[place] = draw_gaps(random, steps)
    return torch.from_numpy(values).view(-1, 1), torch.from_numpy(measured).view(-1, 1)


def held_table(seed: int, rows: int) -> pd.DataFrame:
    """Return the series of validation and test, one after the other, as a table of hours."""
    values, _ = draw_pool(seed, range(FIRST_HELD, FIRST_HELD + 2 * HELD), rows)
    index = pd.date_range("2000-01-01", periods=len(values), freq="h", name="date").as_unit("ns")
    return pd.DataFrame({"value": values[:, 0].numpy().astype(np.float64)}, index=index)


@dataclass(frozen=True)
class DrawnWindows(Windows):
    """Windows of which some steps of the look-back, the oldest, and of the horizon, the last, count as not measured.

    The horizon is drawn in training only, whose table has gaps.

    How many is drawn from the seed and the first row of a window, so that it is the same in each process and after a
    resume: half of the windows have the whole look-back, half the whole horizon; the other lengths have a uniform
    logarithm.
    """

    seed: int = 0

    def _cut(self, gathered: _Gathered) -> Batch:
        batch = super()._cut(gathered)
        row = batch.origin - self.context_length
        look_back = _drawn(row, 2 * self.seed, SHORTEST, self.context_length)
        step = torch.arange(self.context_length, device=row.device)
        seen = (step >= self.context_length - look_back[:, None])[..., None]
        past_observed = seen if batch.past_observed is None else seen & batch.past_observed
        future_observed = batch.future_observed
        if future_observed is not None:
            horizon = _drawn(row, 2 * self.seed + 1, 1, self.horizon)
            step = torch.arange(self.horizon, device=row.device)
            future_observed = future_observed & (step < horizon[:, None])[..., None]
        return batch._replace(past_observed=past_observed, future_observed=future_observed)


def training_windows(seed: int, series: int, rows: int, context_length: int, horizon: int) -> DrawnWindows:
    """Return the windows of the first generated series, `SPACING` steps apart, the last of each included."""
    values, measured = draw_pool(seed, range(series), rows)
    offsets = torch.arange(rows - context_length - horizon, -1, -SPACING)
    return DrawnWindows(
        values=values,
        known=values.new_empty(len(values), 0),
        starts=(torch.arange(0, len(values), rows)[:, None] + offsets).flatten(),
        context_length=context_length,
        horizon=horizon,
        num_targets=1,
        observed=measured,
        seed=seed,
    )


def _drawn(row: Tensor, salt: int, low: int, high: int) -> Tensor:
    """Return a whole number from `low` to `high` for each row, (B,): `high` for a share `WHOLE`."""
    mixed = (row * 6_364_136_223_846_793_005 + (salt + 1) * 1_442_695_040_888_963_407) >> 20
    mixed = (mixed ^ (mixed >> 17)) * 2_685_821_657_736_338_717 >> 22
    share = (mixed & 0xFFFFFF).double() / 0x1000000
    place = (share / (1 - WHOLE)).clamp(max=1)
    return (low * (high / low) ** place).round().long()
