"""Windows on generated series, whose look-back and horizon are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.data.generated.groups import draw_group
from forecast.data.generated.prior import draw_gaps
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


class Pool(NamedTuple):
    """Generated series one after the other, n steps each.

    `values` (S · n, C), float32, and which were `measured`, boolean, of the channels; `drivers` (S · n, K), float32.
    """

    values: Tensor
    measured: Tensor
    drivers: Tensor


def draw_pool(seed: int, series: Sequence[int] | range, steps: int, channels: int = 1, drivers: int = 0) -> Pool:
    """Return the numbered series, `steps` each, with their drivers.

    Each channel has mean 0 and deviation 1. It depends only on the seed and its number.
    """
    values = np.empty((len(series), steps, channels), dtype=np.float32)
    measured = np.empty((len(series), steps, 1), dtype=np.bool_)
    known = np.empty((len(series), steps, drivers), dtype=np.float32)
    for place, number in enumerate(series):
        random = np.random.default_rng([seed, number])
        drawn, known[place] = draw_group(random, steps, channels, drivers)
        drawn = drawn - drawn.mean(0)
        values[place] = drawn / np.where(drawn.any(0), np.maximum(drawn.std(0), 1e-9), 1)
        measured[place, :, 0] = draw_gaps(random, steps)
    tensors = [torch.from_numpy(part).flatten(0, 1) for part in (values, measured, known)]
    return Pool(tensors[0], tensors[1].expand(-1, channels), tensors[2])


def channel_names(channels: int) -> list[str]:
    """Return the columns of the channels of a generated table."""
    return ["value"] if channels == 1 else [f"value_{number}" for number in range(1, channels + 1)]


def driver_names(drivers: int) -> list[str]:
    """Return the columns of a generated table that are known ahead."""
    return [f"driver_{number}" for number in range(1, drivers + 1)]


def held_table(seed: int, rows: int, channels: int = 1, drivers: int = 0) -> pd.DataFrame:
    """Return the series of validation and test, one after the other, as a table of hours."""
    pool = draw_pool(seed, range(FIRST_HELD, FIRST_HELD + 2 * HELD), rows, channels, drivers)
    index = pd.date_range("2000-01-01", periods=len(pool.values), freq="h", name="date").as_unit("ns")
    numbers = np.concatenate([pool.values.numpy(), pool.drivers.numpy()], 1).astype(np.float64)
    return pd.DataFrame(numbers, index, [*channel_names(channels), *driver_names(drivers)])


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
        past_observed = seen.expand_as(batch.past) if batch.past_observed is None else seen & batch.past_observed
        future_observed = batch.future_observed
        if future_observed is not None:
            horizon = _drawn(row, 2 * self.seed + 1, 1, self.horizon)
            step = torch.arange(self.horizon, device=row.device)
            future_observed = future_observed & (step < horizon[:, None])[..., None]
        return batch._replace(past_observed=past_observed, future_observed=future_observed)


def training_windows(pool: Pool, rows: int, seed: int, table: Windows) -> DrawnWindows:
    """Return the windows of generated series with the lengths of a `table`, `SPACING` steps apart, the last included.

    The drivers of the pool are scaled as the known inputs of the table are.
    """
    offsets = torch.arange(rows - table.context_length - table.horizon, -1, -SPACING)
    return DrawnWindows(
        values=pool.values,
        known=pool.drivers,
        starts=(torch.arange(0, len(pool.values), rows)[:, None] + offsets).flatten(),
        context_length=table.context_length,
        horizon=table.horizon,
        num_targets=pool.values.shape[1],
        observed=pool.measured,
        layout=table.layout,
        seed=seed,
    )


def _drawn(row: Tensor, salt: int, low: int, high: int) -> Tensor:
    """Return a whole number from `low` to `high` for each row, (B,): `high` for a share `WHOLE`."""
    mixed = (row * 6_364_136_223_846_793_005 + (salt + 1) * 1_442_695_040_888_963_407) >> 20
    mixed = (mixed ^ (mixed >> 17)) * 2_685_821_657_736_338_717 >> 22
    share = (mixed & 0xFFFFFF).double() / 0x1000000
    place = (share / (1 - WHOLE)).clamp(max=1)
    return (low * (high / low) ** place).round().long()
