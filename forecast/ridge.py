"""A linear map in closed form: a baseline of every result, and where the model's linear path starts."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows

MAX_LOOK_BACK = 2048
"""Longest look-back of the linear map, in steps: its fit grows with the square."""

PENALTIES = torch.logspace(-8, 1, 19, dtype=torch.float64)
"""Ridge penalties tried, as multiples of the mean of the Gram matrix's diagonal."""

FIT_OPERATIONS = 2e11
"""Multiplications allowed for the normal equations; more windows than that are thinned."""

FEW = 8
"""Horizons in a row that a validation part has to hold to be enough by itself."""

EARLY = 0.6
"""Part of the training windows on which maps are fitted that the rest of them score."""

MEAN, LAST, SEASON = "the window's mean", "the last value", "the last season"
"""The naive forecasts that a map may be drawn to."""


@dataclass(frozen=True)
class Ridge:
    """A linear map from the context, less its own mean, to the horizon, less that mean; one for all series.

    It differs from the map of a naive forecast as little as the penalty asks for.

    Parameters
    ----------
    weight
        Shape (look_back, h), the oldest step first.
    penalty
        The chosen multiple of the Gram matrix's mean diagonal; infinite: the naive forecast itself.
    every
        Every how manieth training window was used.
    anchor
        The naive forecast that the penalty draws the map to; a key of `anchors`.
    """

    weight: Tensor
    penalty: float
    every: int
    anchor: str = MEAN

    @property
    def look_back(self) -> int:
        """Steps of context that the map reads."""
        return self.weight.shape[0]

    def __call__(self, batch: Batch) -> Tensor:
        """Give the forecast (B, h, C_out)."""
        past = batch.past[:, -self.look_back :, : batch.future.shape[2]]
        mean = past.mean(1, keepdim=True)
        weight = self.weight.to(past)
        return torch.einsum("btc,th->bhc", past - mean, weight) + mean


@dataclass(frozen=True)
class Ridges:
    """The two linear maps of a run.

    Parameters
    ----------
    baseline
        Drawn to the window's mean, as ridge regression is: the row *linear* of every result.
    start
        Drawn to whichever naive forecast serves best on the validation part: where the linear path starts.
    """

    baseline: Ridge
    start: Ridge

    def to(self, device: torch.device | str) -> "Ridges":
        """Give the same maps on another device."""
        moved = (replace(ridge, weight=ridge.weight.to(device)) for ridge in (self.baseline, self.start))
        return Ridges(*moved)


@dataclass
class _NormalEquations:
    """X'X, X'Y and Y'Y over (window, series) rows, in float64, and the number of windows."""

    gram: Tensor
    cross: Tensor
    energy: Tensor
    count: int

    @classmethod
    def of(cls, windows: Windows, look_back: int) -> "_NormalEquations":
        gram, cross, energy = (
            torch.zeros(shape, dtype=torch.float64, device=windows.device)
            for shape in ((look_back, look_back), (look_back, windows.horizon), ())
        )
        for batch in windows.batches(512):
            past = batch.past[:, -look_back:, : windows.num_targets]
            mean = past.mean(1, keepdim=True)
            x = (past - mean).transpose(1, 2).flatten(0, 1)  # (B C, look_back)
            y = (batch.future - mean).transpose(1, 2).flatten(0, 1)  # (B C, h)
            if batch.future_observed is not None:
                whole = batch.future_observed.all(1).flatten()
                x, y = x[whole], y[whole]
            gram += (x.T @ x).double()
            cross += (x.T @ y).double()
            energy += y.double().square().sum()
        return cls(gram, cross, energy, len(windows))

    def __add__(self, other: "_NormalEquations") -> "_NormalEquations":
        return _NormalEquations(
            self.gram + other.gram, self.cross + other.cross, self.energy + other.energy, self.count + other.count
        )

    def squared_error(self, weight: Tensor) -> float:
        fitted = (weight * (self.gram @ weight)).sum() - 2 * (weight * self.cross).sum()
        return float(fitted + self.energy)


class _Maps:
    """The linear maps of one fit: a naive forecast and a penalty for each."""

    def __init__(self, fitted: _NormalEquations, look_back: int, horizon: int, period: int | None) -> None:
        self.values, self.vectors = torch.linalg.eigh(fitted.gram)
        self.unit = float(fitted.gram.diagonal().mean()) or 1.0
        self.naive = {name: each.to(fitted.gram) for name, each in anchors(look_back, horizon, period).items()}
        self.rotated = {name: self.vectors.T @ (fitted.cross - fitted.gram @ each) for name, each in self.naive.items()}

    def penalties(self, anchor: str) -> list[float]:
        """Give those that are tried; the windows' mean itself is no forecast worth a candidate of its own."""
        return PENALTIES.tolist() + [math.inf] * (anchor != MEAN)

    def weight(self, anchor: str, penalty: float) -> Tensor:
        shrunk = self.rotated[anchor] / (self.values.clamp(min=0) + penalty * self.unit)[:, None]
        weight: Tensor = self.naive[anchor] + self.vectors @ shrunk
        return weight

    def errors(self, scored: _NormalEquations) -> dict[tuple[str, float], float]:
        """Give the sum of square errors of each map on other windows."""
        candidates = [(anchor, penalty) for anchor in self.naive for penalty in self.penalties(anchor)]
        return {candidate: scored.squared_error(self.weight(*candidate)) for candidate in candidates}


def anchors(look_back: int, horizon: int, period: int | None) -> dict[str, Tensor]:
    """Give the maps (look_back, horizon) of the naive forecasts, a season's where the look-back holds one.

    Without a period only that of the mean, which the baseline is drawn to.
    """
    maps = {MEAN: torch.zeros(look_back, horizon, dtype=torch.float64)}
    if period is None:
        return maps
    maps[LAST] = maps[MEAN].clone()
    maps[LAST][-1] = 1
    if 1 < period <= look_back:
        step = torch.arange(horizon)
        maps[SEASON] = torch.zeros(look_back, horizon, dtype=torch.float64)
        maps[SEASON][look_back - period + step % period, step] = 1
    return maps


@torch.inference_mode()
def fit_ridges(train: Windows, validation: Windows, period: int | None = 1) -> Ridges:
    """Fit linear maps in closed form on `train`.

    The look-back is the context, at most `MAX_LOOK_BACK` steps. The baseline's penalty is the best on
    `validation`, and so are penalty and naive forecast of the start where that part holds `FEW` horizons. In fewer,
    something fits by chance, on a random walk above all: then they are the best on two parts together, `validation`
    and the last windows of `train`, which score maps that are fitted on those whose targets come before.

    One eigendecomposition serves all penalties of a fit, and each map is scored on all windows of a part through
    their own normal equations.

    Parameters
    ----------
    train, validation
        Windows of the two parts.
    period
        Steps in a season; 1: there is none; None: nothing starts from these maps, both are the baseline.

    References
    ----------
    Hoerl and Kennard, "Ridge regression", Technometrics 12 (1970). That the penalty may be on the distance from
    a naive forecast: Litterman, "Forecasting with Bayesian vector autoregressions", Journal of Business & Economic
    Statistics 4 (1986).
    """
    look_back = min(train.context_length, MAX_LOOK_BACK)
    operations = len(train) * train.num_targets * look_back * (look_back + train.horizon)
    every = max(1, round(operations / FIT_OPERATIONS))
    early, between, late = (_NormalEquations.of(part, look_back) for part in _in_turn(train, every))
    whole = _Maps(early + between + late, look_back, train.horizon, period)
    errors = whole.errors(_NormalEquations.of(validation, look_back))
    baseline = min(whole.penalties(MEAN), key=lambda penalty: errors[MEAN, penalty])
    rows = int(validation.starts[-1] - validation.starts[0]) + 1
    if period is not None and rows < FEW * validation.horizon and early.count and late.count:
        before = _Maps(early, look_back, train.horizon, period).errors(late)
        errors = {candidate: error + before[candidate] for candidate, error in errors.items()}
    anchor, penalty = min(errors, key=lambda candidate: errors[candidate])
    return Ridges(
        baseline=Ridge(whole.weight(MEAN, baseline).float(), baseline, every),
        start=Ridge(whole.weight(anchor, penalty).float(), penalty, every, anchor),
    )


def _in_turn(train: Windows, every: int) -> tuple[Windows, Windows, Windows]:
    """Give every so manieth window: the first ones, those that share targets with the last, and the last ones."""
    thinned = train.every(every)
    cut = int(EARLY * len(train))
    first = int(train.starts[min(cut, len(train) - 1)]) if len(train) else 0
    shares = thinned.starts > first - train.horizon
    late = thinned.starts >= first
    masks = (~shares, shares & ~late, late)
    early, between, last = (replace(thinned, starts=thinned.starts[mask]) for mask in masks)
    return early, between, last


def fit_ridge(train: Windows, validation: Windows) -> Ridge:
    """Give the baseline of `fit_ridges`."""
    return fit_ridges(train, validation, None).baseline
