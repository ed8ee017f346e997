"""A linear map in closed form: a baseline of every result, and where the model's linear path may start."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows
from forecast.evaluation.evaluate import evaluate

MAX_LOOK_BACK = 2048
"""Longest look-back of the linear map, in steps: its fit grows with the square."""

PENALTIES = torch.logspace(-8, 1, 19, dtype=torch.float64)
"""Ridge penalties tried, as multiples of the mean of the Gram matrix's diagonal."""

FIT_OPERATIONS = 2e11
"""Multiplications allowed for the normal equations; more windows than that are thinned."""


@dataclass(frozen=True)
class LinearMap:
    """A map from the context, less its own mean, to the horizon, less that mean; one for all series.

    Parameters
    ----------
    weight
        Shape (look_back, h), the oldest step first.
    name
        What it is, for people.
    """

    weight: Tensor
    name: str

    @property
    def look_back(self) -> int:
        """Steps of context that the map reads."""
        return self.weight.shape[0]

    def to(self, device: torch.device | str) -> Self:
        """Return the same map on another device."""
        return replace(self, weight=self.weight.to(device))

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        past = batch.past[:, -self.look_back :, : batch.future.shape[2]]
        mean = past.mean(1, keepdim=True)
        weight = self.weight.to(past)
        return torch.einsum("btc,th->bhc", past - mean, weight) + mean


@dataclass(frozen=True)
class Ridge(LinearMap):
    """A linear map that was fitted in closed form.

    Parameters
    ----------
    penalty
        The multiple of the Gram matrix's mean diagonal.
    every
        Every how manieth training window was used.
    """

    penalty: float
    every: int


@dataclass
class _NormalEquations:
    """X'X, X'Y and Y'Y over (window, series) rows, in float64.

    A row that lacks some of its targets counts with those that it has: a step's X'y is scaled to the number of all
    rows, so that X'X and X'Y are sums over as many (available cases).
    """

    gram: Tensor
    cross: Tensor
    energy: Tensor

    @classmethod
    def of(cls, windows: Windows, look_back: int) -> "_NormalEquations":
        gram, cross, energy, rows, targets = (
            torch.zeros(shape, dtype=torch.float64, device=windows.device)
            for shape in ((look_back, look_back), (look_back, windows.horizon), (), (), (windows.horizon,))
        )
        for batch in windows.batches(512):
            past = batch.past[:, -look_back:, : windows.num_targets]
            mean = past.mean(1, keepdim=True)
            x = (past - mean).transpose(1, 2).flatten(0, 1)  # (B C, look_back)
            y = (batch.future - mean).transpose(1, 2).flatten(0, 1)  # (B C, h)
            observed = torch.ones_like(y, dtype=torch.bool)
            if batch.future_observed is not None:
                observed = batch.future_observed.transpose(1, 2).flatten(0, 1)
                some = observed.any(1)
                x, y, observed = x[some], torch.where(observed, y, 0)[some], observed[some]
            gram += (x.T @ x).double()
            cross += (x.T @ y).double()
            energy += y.double().square().sum()
            rows += len(x)
            targets += observed.sum(0)
        return cls(gram, cross * (rows / targets.clamp(min=1)), energy)

    def squared_error(self, weight: Tensor) -> float:
        """Return the sum over the rows, which have to have all of their targets."""
        fitted = (weight * (self.gram @ weight)).sum() - 2 * (weight * self.cross).sum()
        return float(fitted + self.energy)


class _Solutions:
    """The ridge maps of one fit, a penalty each: one eigendecomposition serves all of them."""

    def __init__(self, fitted: _NormalEquations) -> None:
        self.values, self.vectors = torch.linalg.eigh(fitted.gram)
        self.rotated = self.vectors.T @ fitted.cross
        self.unit = float(fitted.gram.diagonal().mean()) or 1.0

    def weight(self, penalty: float) -> Tensor:
        solved: Tensor = self.vectors @ (self.rotated / (self.values.clamp(min=0) + penalty * self.unit)[:, None])
        return solved


@torch.inference_mode()
def fit_ridge(train: Windows, validation: Windows) -> Ridge:
    """Fit a linear map in closed form on `train`, its penalty the best of `PENALTIES` on `validation`.

    The look-back is the context, at most `MAX_LOOK_BACK` steps. Each penalty is scored on every target of
    `validation` that was measured: through their own normal equations, or one by one in windows that lack some.

    References
    ----------
    Hoerl and Kennard, "Ridge regression", Technometrics 12 (1970).
    """
    every, look_back = _thinning(train), _look_back(train)
    solutions = _Solutions(_NormalEquations.of(train.every(every), look_back))
    whole, partial = _parted(validation)
    scored = _NormalEquations.of(whole, look_back)

    def error(penalty: float) -> float:
        weight = solutions.weight(penalty)
        squares = scored.squared_error(weight)
        if len(partial):
            squares += float(evaluate(LinearMap(weight, "ridge"), partial, 512).sums.squared.sum())
        return squares

    return _ridge(solutions, min(PENALTIES.tolist(), key=error), every)


def _parted(windows: Windows) -> tuple[Windows, Windows]:
    """Return the windows all of whose targets were measured, and the others."""
    if windows.observed is None:
        return windows, replace(windows, starts=windows.starts[:0])
    absent = (~windows.observed[:, : windows.num_targets]).any(1)
    before = torch.cat([absent.new_zeros(1, dtype=torch.int64), absent.cumsum(0)])  # rows that lack one, before each
    first = windows.starts.to(before.device) + windows.context_length
    whole = (before[first + windows.horizon] == before[first]).to(windows.starts.device)
    return replace(windows, starts=windows.starts[whole]), replace(windows, starts=windows.starts[~whole])


@torch.inference_mode()
def refit(train: Windows, ridge: Ridge) -> Ridge:
    """Fit the map of `ridge`, its penalty and all, on other windows."""
    return _ridge(_Solutions(_NormalEquations.of(train, ridge.look_back)), ridge.penalty, ridge.every)


def _thinning(train: Windows) -> int:
    """Return k: of so many windows every k-th is fitted on."""
    look_back = _look_back(train)
    operations = len(train) * train.num_targets * look_back * (look_back + train.horizon)
    return max(1, round(operations / FIT_OPERATIONS))


def _look_back(windows: Windows) -> int:
    return min(windows.context_length, MAX_LOOK_BACK)


def _ridge(solutions: _Solutions, penalty: float, every: int) -> Ridge:
    return Ridge(solutions.weight(penalty).float(), "ridge", penalty, every)
