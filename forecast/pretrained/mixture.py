"""A forecast without training: the pretrained network, mixed with naive forecasts and a ridge by backtests."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from forecast.data.windows import Windows
from forecast.evaluation.ridge import Ridge, fit_and_score, refit
from forecast.model.informer import Informer
from forecast.model.normalization import forward_fill, window_spread

MOST_ORIGINS = 24
"""Most earlier origins of a table at which the parts of a forecast are compared."""

MOST_WINDOWS = 4_000
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

OWN_PRIOR = 4.0
"""The same number for the weights of a series beside those of all series."""

SHARPNESS = 2.0
"""Weights that were tried count in proportion to their loss to the power -SHARPNESS · n, of n origins.

So they are averaged, as models are by their likelihood, and the luck of a few origins chooses nothing alone.
"""

EVERY = 2
"""The network also forecasts each step from every `EVERY`-th step before it: a longer past, seen less often."""

LEAST_LOSS = 1e-3
"""Smallest quantile loss that is told from 0, in deviations of a series."""

STEP = 0.25
"""Distance between the weights that are tried."""

LAGS = (1, 2, 3, 7, 8, 14)
"""Seasons before a step by whose values a regression explains it."""

SHRINKAGE = 0.01
"""Penalty of this regression, relative to the mean diagonal of its normal equations."""

AT_ONCE = 128
"""Windows that the network forecasts together, each upright and mirrored."""


def network_quantiles(network: Informer, past: Tensor, observed: Tensor, horizon: int) -> Tensor:
    """Return the network's quantiles (B, h, C, K) of each channel of look-backs (B, T, C), float32.

    They are the mean of those of the series and, mirrored back, of the series with the other sign.

    Beyond the network's own horizon, the median is appended to the look-back; the distances of the quantiles from it
    grow by those of the step before.
    """
    count, length, channels = past.shape
    flat, seen = (part.transpose(1, 2).reshape(-1, length, 1) for part in (past, observed))
    chunks = [_mirrored(network, *pair, horizon) for pair in zip(flat.split(AT_ONCE), seen.split(AT_ONCE), strict=True)]
    return torch.cat(chunks).view(count, channels, horizon, -1).transpose(1, 2)


def _mirrored(network: Informer, past: Tensor, observed: Tensor, horizon: int) -> Tensor:
    upright, mirrored = _rolled(network, torch.cat([past, -past]), torch.cat([observed, observed]), horizon).chunk(2)
    return (upright - mirrored.flip(-1)) / 2


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


def spaced_quantiles(network: Informer, past: Tensor, observed: Tensor, horizon: int) -> Tensor:
    """Return the network's quantiles (B, h, C, K) of look-backs (B, 2 · T, C): a step sees every second one before it.

    The step before stands for one that was not measured: of a table measured at every second step, each half has all.
    """
    filled = forward_fill(past, observed)
    seen = observed.clone()
    seen[:, 1:] |= observed[:, :-1]
    steps = -(-horizon // EVERY)
    each = [network_quantiles(network, filled[:, phase::EVERY], seen[:, phase::EVERY], steps) for phase in range(EVERY)]
    return torch.stack(each, 2).flatten(1, 2)[:, :horizon]


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


Point = Callable[[Tensor, Tensor], Tensor]
"""From look-backs (B, 2 · T, C) and where they were measured to a point forecast (B, h, C)."""

Part = Callable[[Tensor, Tensor], Tensor]
"""From the same to quantiles (B, h, C, K)."""


@dataclass(frozen=True)
class Mixture:
    """The quantiles of several forecasts, averaged by weights.

    `weights` (C, P) are those of each part of `names`, for each series. `margins` (K,) move the quantiles, in units of
    the spread of the newest `length` steps, so that they cover what they should. `origins` is the number of earlier
    forecasts behind them.
    """

    length: int
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    weights: Tensor = field(default_factory=lambda: torch.ones(1, 1))
    origins: int = 0
    margins: Tensor | None = None

    @classmethod
    def of_network(cls, network: Informer, horizon: int, length: int) -> "Mixture":
        """Return the network alone, whose look-back is `length`."""
        return cls(length, ("pretrained network",), (_upright(network, horizon, length),))

    def quantiles(self, past: Tensor, observed: Tensor) -> Tensor:
        """Return the quantiles (B, h, C, K), rising, of look-backs (B, 2 · T, C) and where they were measured."""
        weighted = zip(self.weights[..., None].unbind(1), self.parts, strict=True)
        mixed = sum(weight * part(past, observed) for weight, part in weighted if weight.any())
        assert isinstance(mixed, Tensor)
        if self.margins is None:
            return mixed
        moved = mixed + _spread(past, observed, self.length)[..., None] * self.margins
        return moved.sort(-1).values

    @property
    def shares(self) -> list[float]:
        """The weights of the parts, the mean over the series."""
        return [float(weight) for weight in self.weights.mean(0)]

    @property
    def words(self) -> str:
        """The weights in per cent, as text."""
        named = zip(self.names, self.shares, strict=True)
        return ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in named if weight >= 0.005)


def _upright(network: Informer, horizon: int, length: int) -> Part:
    return lambda past, observed: network_quantiles(network, past[:, -length:], observed[:, -length:], horizon)


def _spread(past: Tensor, observed: Tensor, length: int) -> Tensor:
    return window_spread(past[:, -length:], observed[:, -length:])


def choose(network: Informer, table: Table, horizon: int, length: int) -> Mixture:
    """Return the mixture whose quantile loss on earlier origins of the table is low; `length` is the look-back."""
    origins = earlier_origins(len(table.values), horizon, table.values.shape[1])
    alone = Mixture.of_network(network, horizon, length)
    if len(origins) < FEWEST_ORIGINS:
        return alone
    past, observed = table.windows(origins, EVERY * length)
    future = table.futures(origins, horizon)
    spread = _spread(past, observed, length)
    levels = torch.tensor(network.levels)
    names = [*alone.names, "pretrained network on every second step"]
    parts: list[Part] = [*alone.parts, partial(spaced_quantiles, network, horizon=horizon)]
    candidates = [part(past, observed) for part in parts]
    for name, earlier, final in _points(table, origins, horizon, length):
        point = earlier(past, observed)
        offsets = _offsets((future - point) / spread, levels)
        names.append(name)
        parts.append(_with_offsets(final, offsets, length))
        candidates.append(point[..., None] + spread[..., None] * offsets[:, None])
    weights = _best_weights(candidates, future, levels)
    mixed = sum(weights[:, place, None] * one for place, one in enumerate(candidates))
    assert isinstance(mixed, Tensor)
    margins = _margins(mixed, future, spread, levels)
    return Mixture(length, tuple(names), tuple(parts), weights, len(origins), margins)


def _with_offsets(point: Point, offsets: Tensor, length: int) -> Part:
    def quantiles(past: Tensor, observed: Tensor) -> Tensor:
        return point(past, observed)[..., None] + _spread(past, observed, length)[..., None] * offsets[:, None]

    return quantiles


def earlier_origins(rows: int, horizon: int, channels: int) -> list[int]:
    """Return the rows at which earlier forecasts begin, the newest a horizon before the end; rising."""
    most = max(FEWEST_ORIGINS, min(MOST_ORIGINS, MOST_WINDOWS // channels))
    room = rows - horizon - LEAST_PAST
    step = min(horizon, max(-(-horizon // 3), room // most))
    return list(range(rows - horizon, LEAST_PAST - 1, -step))[:most][::-1]


def _points(table: Table, origins: Sequence[int], horizon: int, length: int) -> Iterator[tuple[str, Point, Point]]:
    """Yield the name of each point forecast, its form for the earlier origins, and that for the end of the table."""
    for period in table.periods:
        if period <= min(length, origins[0]):
            naive = _naive(period, horizon)
            yield (f"last value of {period} steps before" if period > 1 else "last value", naive, naive)
    filled = forward_fill(table.values[None], table.observed[None])[0]
    for period in table.periods[1:2]:
        lags = [period * number for number in LAGS if period * number <= min(length - 1, origins[0] // 3)]
        if len(lags) > 1:
            earlier, final = (
                _seasonal(filled[:stop], table.observed[:stop], lags, horizon) for stop in (origins[0], None)
            )
            yield "seasonal regression", earlier, final
    look_back = min(length, len(table.values) // RIDGE_ROWS)
    if origins[0] >= look_back * (RIDGE_ROWS - 1) + horizon and look_back > max(table.periods):
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


def _naive(period: int, horizon: int) -> Point:
    def forecast(past: Tensor, observed: Tensor) -> Tensor:
        return forward_fill(past, observed)[:, past.shape[1] - period + torch.arange(horizon) % period]

    return forecast


def _seasonal(values: Tensor, observed: Tensor, lags: Sequence[int], horizon: int) -> Point:
    """Return a regression of each series (N, C) on its values some seasons before, and on the newest deviation.

    What is explained is the change since one season before, by the changes of earlier seasons from it, so that level
    and scale do not matter. It forecasts one step after the other.
    """
    first, *others = lags
    start = lags[-1] + 1

    def features(past: Tensor) -> Tensor:  # the newest step is the one to explain
        base = past[..., -1 - first]
        newest = past[..., -2] - past[..., -2 - first]
        return torch.stack([newest, *(past[..., -1 - lag] - base for lag in others)], -1)

    windows = values.unfold(0, start + 1, 1)  # (N - start, C, start + 1)
    inputs = features(windows).double()
    target = (windows[..., -1] - windows[..., -1 - first]).double()
    seen = observed[start:].double()[..., None]
    gram = torch.einsum("ncf,ncg->cfg", inputs * seen, inputs)
    mean = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    penalty = (SHRINKAGE * mean + 1e-9) * torch.eye(inputs.shape[-1], dtype=torch.float64)
    product = torch.einsum("ncf,nc->cf", inputs * seen, target)
    weights = torch.linalg.solve(gram + penalty, product[..., None])[..., 0].float()  # (C, F)

    def forecast(past: Tensor, observed: Tensor) -> Tensor:
        series = forward_fill(past, observed)[:, -start:].transpose(1, 2)  # (B, C, start)
        for _ in range(horizon):
            unknown = torch.cat([series[..., -start:], series[..., -1:]], -1)
            step = unknown[..., -1 - first] + (features(unknown) * weights).sum(-1)
            series = torch.cat([series, step[..., None]], -1)
        return series[..., -horizon:].transpose(1, 2)

    return forecast


def _linear(ridge: Ridge) -> Point:
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


def _best_weights(candidates: Sequence[Tensor], future: Tensor, levels: Tensor) -> Tensor:
    """Return the weights (C, P), non-negative and of sum 1, of a mean with a low quantile loss.

    The weights of each series are shrunk towards those of all series, and those towards the first candidate, by the
    number of origins. A series counts for all by the logarithm of its losses over its lowest.
    """
    steps = round(1 / STEP)
    tried = [cut for cut in itertools.product(range(steps, -1, -1), repeat=len(candidates)) if sum(cut) == steps]
    every, losses = torch.tensor(tried) / steps, []
    for weights in every.tolist():
        mixed = sum(weight * one for weight, one in zip(weights, candidates, strict=True) if weight)
        assert isinstance(mixed, Tensor)
        error = future[..., None] - mixed
        losses.append(torch.maximum(levels * error, (levels - 1) * error).nanmean((0, 1, 3)))
    loss = torch.stack(losses).clamp(min=LEAST_LOSS).log()  # (tried, C), NaN for a series of which nothing came
    alone = torch.zeros(len(candidates))
    alone[0] = 1
    together = _averaged(
        every, (loss - loss.amin(0)).nanmean(1, keepdim=True), torch.tensor([len(future)]), PRIOR, alone
    )
    return _averaged(every, loss, future.isfinite().any(1).sum(0), OWN_PRIOR, together)


def _averaged(every: Tensor, log_loss: Tensor, count: Tensor, prior: float, otherwise: Tensor) -> Tensor:
    """Return the mean (C, P) of the weights (tried, P) by their losses (tried, C) at `count` origins (C,).

    With few origins it is close to the weights `otherwise`; where nothing came it is these.
    """
    found = torch.softmax(-SHARPNESS * count[:, None] * log_loss.T, -1) @ every
    share = (count / (count + prior))[:, None]
    return torch.where(found.isnan(), otherwise, share * found + (1 - share) * otherwise)
