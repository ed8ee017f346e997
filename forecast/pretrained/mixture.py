"""A forecast without training: the pretrained network, mixed with naive forecasts and a ridge by backtests."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from forecast.data.windows import Windows
from forecast.evaluation.ridge import Ridge, fit_and_score, refit
from forecast.model.informer import Informer
from forecast.model.normalization import forward_fill, window_spread

MOST_ORIGINS = 24
"""Most earlier origins of a table at which the parts of a forecast are compared."""

MOST_WINDOWS = 2_000
"""Most windows of all series at these origins."""

LEAST_PAST = 16
"""Fewest rows before an origin."""

FEWEST_ORIGINS = 3
"""Fewest origins that say something about the parts; with fewer the network forecasts alone."""

PRIOR = 3.0
"""The weights of a backtest of n origins count n / (n + PRIOR); the rest is the network's."""

RIDGE_ROWS = 4
"""A ridge needs this many look-backs of rows."""

RIDGE_OPERATIONS = 5e9
"""Most multiplications of its fit."""

STEP = 0.25
"""Distance between the weights that are tried."""

AT_ONCE = 256
"""Windows that the network forecasts together."""


def network_quantiles(network: Informer, past: Tensor, observed: Tensor, horizon: int) -> Tensor:
    """Return the network's quantiles (B, h, C, K) of each channel of look-backs (B, T, C), float32.

    Beyond the network's own horizon, the median is appended to the look-back; the distances of the quantiles from it
    grow by those of the step before.
    """
    count, length, channels = past.shape
    flat, seen = (part.transpose(1, 2).reshape(-1, length, 1) for part in (past, observed))
    chunks = [_rolled(network, *pair, horizon) for pair in zip(flat.split(AT_ONCE), seen.split(AT_ONCE), strict=True)]
    return torch.cat(chunks).view(count, channels, horizon, -1).transpose(1, 2)


def _rolled(network: Informer, past: Tensor, observed: Tensor, horizon: int) -> Tensor:
    blocks: list[Tensor] = []
    reached: Tensor | None = None
    done = 0
    while done < horizon:
        known = past.new_empty(len(past), past.shape[1], 0), past.new_empty(len(past), 1, 0)
        quantiles = network.forward_quantiles(past, *known, observed)[:, :, 0]  # (B, 192, K)
        median = quantiles[..., quantiles.shape[-1] // 2, None]
        if reached is not None:
            away = quantiles - median
            quantiles = median + away.sign() * (away.square() + reached.square()).sqrt()
        reached = (quantiles - median)[:, -1:]
        blocks.append(quantiles)
        done += quantiles.shape[1]
        past = torch.cat([past, median], 1)[:, -past.shape[1] :]
        observed = torch.cat([observed, torch.ones_like(median, dtype=torch.bool)], 1)[:, -past.shape[1] :]
    return torch.cat(blocks, 1)[:, :horizon]


@dataclass(frozen=True)
class Table:
    """The z-scores (N, C) of a table, float32, 0 where not `observed` (N, C), and its seasons in steps."""

    values: Tensor
    observed: Tensor
    periods: tuple[int, ...]

    def windows(self, origins: Sequence[int], length: int) -> tuple[Tensor, Tensor]:
        """Return the look-backs (B, T, C) before rows, and where they were measured; never before the first row."""
        rows = torch.tensor(origins)[:, None] + torch.arange(-length, 0)
        inside = (rows >= 0)[..., None]
        rows = rows.clamp(min=0)
        return self.values[rows] * inside, self.observed[rows] & inside

    def futures(self, origins: Sequence[int], horizon: int) -> Tensor:
        """Return what came, (B, h, C), NaN where not measured or after the last row."""
        rows = torch.tensor(origins)[:, None] + torch.arange(horizon)
        there = (rows < len(self.values))[..., None]
        rows = rows.clamp(max=len(self.values) - 1)
        return torch.where(self.observed[rows] & there, self.values[rows], torch.nan)


Part = Callable[[Tensor, Tensor], Tensor]
"""From look-backs (B, T, C) and where they were measured to a point forecast (B, h, C)."""


@dataclass(frozen=True)
class Mixture:
    """The quantiles of a network and of point forecasts with the quantiles of their errors, averaged by weights.

    `weights` are those of the network and of each part of `names`; `offsets` (h, K) of each part are the quantiles of
    its errors, relative to the spread of the window. `margins` (K,) move the quantiles, in the same unit, so that they
    cover what they should. `origins` is the number of earlier forecasts behind them.
    """

    network: Informer
    horizon: int
    names: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    offsets: tuple[Tensor, ...] = ()
    weights: tuple[float, ...] = (1.0,)
    origins: int = 0
    margins: Tensor | None = None

    def quantiles(self, past: Tensor, observed: Tensor) -> Tensor:
        """Return the quantiles (B, h, C, K), rising, of look-backs (B, T, C) and where they were measured."""
        mixed = self.weights[0] * network_quantiles(self.network, past, observed, self.horizon)
        for part, offsets, weight in zip(self.parts, self.offsets, self.weights[1:], strict=True):
            if weight:
                mixed = mixed + weight * _with_offsets(part(past, observed), offsets, window_spread(past, observed))
        if self.margins is None:
            return mixed
        moved = mixed + window_spread(past, observed)[..., None] * self.margins
        return moved.sort(-1).values

    @property
    def words(self) -> str:
        """The weights in per cent, as text."""
        named = zip(("pretrained network", *self.names), self.weights, strict=True)
        return ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in named if weight >= 0.005)


def _with_offsets(point: Tensor, offsets: Tensor, spread: Tensor) -> Tensor:
    return point[..., None] + spread[..., None] * offsets[:, None]


def choose(network: Informer, table: Table, horizon: int, length: int) -> Mixture:
    """Return the mixture whose quantile loss on earlier origins of the table is lowest; `length` is the look-back."""
    origins = earlier_origins(len(table.values), horizon, table.values.shape[1])
    alone = Mixture(network, horizon)
    if len(origins) < FEWEST_ORIGINS:
        return alone
    past, observed = table.windows(origins, length)
    future = table.futures(origins, horizon)
    spread = window_spread(past, observed)
    own = network_quantiles(network, past, observed, horizon)
    levels = torch.tensor(network.levels)
    found = list(_parts(table, origins, horizon, length))
    offsets = [_offsets((future - part(past, observed)) / spread, levels) for _, part, _ in found]
    candidates = [
        own,
        *(_with_offsets(part(past, observed), each, spread) for (_, part, _), each in zip(found, offsets, strict=True)),
    ]
    weights = _best_weights(candidates, future, levels)
    trusted = len(origins) / (len(origins) + PRIOR)
    weights = tuple(trusted * weight + (1 - trusted) * (place == 0) for place, weight in enumerate(weights))
    mixed = torch.stack([weight * one for weight, one in zip(weights, candidates, strict=True)]).sum(0)
    return replace(
        alone,
        names=tuple(name for name, _, _ in found),
        parts=tuple(final for _, _, final in found),
        offsets=tuple(offsets),
        weights=weights,
        origins=len(origins),
        margins=_margins(mixed, future, spread, levels),
    )


def earlier_origins(rows: int, horizon: int, channels: int) -> list[int]:
    """Return the rows at which earlier forecasts begin, the newest a horizon before the end; rising."""
    most = max(FEWEST_ORIGINS, min(MOST_ORIGINS, MOST_WINDOWS // channels))
    room = rows - horizon - LEAST_PAST
    step = min(horizon, max(-(-horizon // 3), room // most))
    return list(range(rows - horizon, LEAST_PAST - 1, -step))[:most][::-1]


def _parts(table: Table, origins: Sequence[int], horizon: int, length: int) -> Iterator[tuple[str, Part, Part]]:
    """Yield the name of each part, its form for the earlier origins, and that for the end of the table."""
    for period in table.periods:
        if period <= min(length, origins[0]):
            naive = _naive(period, horizon)
            yield (f"last value of {period} steps before" if period > 1 else "last value", naive, naive)
    look_back = min(length, len(table.values) // RIDGE_ROWS)
    if origins[0] >= look_back * (RIDGE_ROWS - 1) + horizon and look_back >= 2 * max(table.periods):
        filled = forward_fill(table.values[None], table.observed[None])[0]
        whole = Windows(
            values=filled,
            known=filled.new_empty(len(filled), 0),
            starts=torch.arange(len(filled) - look_back - horizon + 1),
            context_length=look_back,
            horizon=horizon,
            num_targets=filled.shape[1],
        )
        before = replace(whole, starts=whole.starts[: origins[0] - look_back - horizon + 1])
        ridge, _ = fit_and_score(before, replace(whole, starts=torch.tensor(origins) - look_back), RIDGE_OPERATIONS)
        yield "ridge", _linear(ridge), _linear(refit(whole.thinned(ridge.every), ridge))


def _naive(period: int, horizon: int) -> Part:
    def forecast(past: Tensor, observed: Tensor) -> Tensor:
        return forward_fill(past, observed)[:, past.shape[1] - period + torch.arange(horizon) % period]

    return forecast


def _linear(ridge: Ridge) -> Part:
    def forecast(past: Tensor, observed: Tensor) -> Tensor:
        newest = forward_fill(past, observed)[:, -ridge.look_back :]
        mean = newest.mean(1, keepdim=True)
        return torch.einsum("btc,th->bhc", newest - mean, ridge.weight) + mean

    return forecast


def _offsets(errors: Tensor, levels: Tensor) -> Tensor:
    """Return the quantiles (h, K) of relative errors (B, h, C); those of a step are of its neighbours too."""
    horizon = errors.shape[1]
    reach = max(1, horizon // 8)
    found = []
    for step in range(0, horizon, reach):
        near = errors[:, max(0, step - reach) : step + 2 * reach].flatten()
        near = near[near.isfinite()]
        row = near.quantile(levels.to(near)) if len(near) else torch.zeros(len(levels))
        found.append(row.expand(min(reach, horizon - step), -1))
    return torch.cat(found)


def _margins(quantiles: Tensor, future: Tensor, spread: Tensor, levels: Tensor) -> Tensor:
    """Return how far each pair of quantiles moves outwards, (K,), negative for the lower one; the median stays.

    The distance of what came to the pair, negative between them, has a quantile at the pair's coverage. It counts in
    part, as the weights do: errors at neighbouring steps are alike.
    """
    margins = torch.zeros(len(levels))
    trusted = len(quantiles) / (len(quantiles) + PRIOR)
    for place, level in enumerate(levels[: len(levels) // 2].tolist()):
        low, high = quantiles[..., place], quantiles[..., -1 - place]
        outside = (torch.maximum(low - future, future - high) / spread).flatten()
        outside = outside[outside.isfinite()]
        if len(outside):
            far = trusted * outside.sort().values[min(len(outside) - 1, int((1 - 2 * level) * (len(outside) + 1)))]
            margins[place], margins[-1 - place] = -far, far
    return margins


def _best_weights(candidates: Sequence[Tensor], future: Tensor, levels: Tensor) -> tuple[float, ...]:
    """Return the weights, non-negative and of sum 1, with the lowest quantile loss; the first wins a tie."""
    steps = round(1 / STEP)
    best, lowest = (1.0, *[0.0] * (len(candidates) - 1)), float("inf")
    for cut in itertools.product(range(steps, -1, -1), repeat=len(candidates)):
        if sum(cut) != steps:
            continue
        weights = tuple(part / steps for part in cut)
        mixed = sum(weight * one for weight, one in zip(weights, candidates, strict=True) if weight)
        assert isinstance(mixed, Tensor)
        error = future[..., None] - mixed
        loss = float(torch.maximum(levels * error, (levels - 1) * error).nanmean())
        if loss < lowest * (1 - 1e-6):
            best, lowest = weights, loss
    return best
