"""Ridge regression in closed form: a baseline of every result, and a possible start of the model's linear path."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows
from forecast.evaluation.evaluate import evaluate

MAX_LOOK_BACK = 2048
"""Longest look-back of the linear map, in steps; the cost of the fit is quadratic in it."""

PENALTIES = torch.logspace(-8, 1, 19, dtype=torch.float64)
"""Candidate ridge penalties, relative to the mean diagonal of the Gram matrix."""

FIT_OPERATIONS = 2e11
"""Maximum number of multiplications for the normal equations; beyond it, only every n-th window is used."""


@dataclass(frozen=True)
class LinearMap:
    """A linear map from context to horizon, both minus the context's mean; the same for all series.

    `weight` has shape (look_back, h), the oldest step first.
    """

    weight: Tensor
    name: str

    @property
    def look_back(self) -> int:
        """The number of context steps that the map reads."""
        return self.weight.shape[0]

    def to(self, device: torch.device | str) -> Self:
        """Return the map on another device."""
        return replace(self, weight=self.weight.to(device))

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        past = batch.past[:, -self.look_back :, : batch.future.shape[2]]
        mean = past.mean(1, keepdim=True)
        weight = self.weight.to(past)
        return torch.einsum("btc,th->bhc", past - mean, weight) + mean


@dataclass(frozen=True)
class Ridge(LinearMap):
    """A ridge map fitted on every `every`-th window; `penalty` is relative to the Gram matrix's mean diagonal."""

    penalty: float
    every: int


@dataclass
class _NormalEquations:
    """X'X, X'Y and Y'Y over (window, series) rows, in float64.

    Rows with missing targets are used as well (available cases): each step's X'y is scaled to the number of all rows.
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
                usable = observed.any(1)
                x, y, observed = x[usable], torch.where(observed, y, 0)[usable], observed[usable]
            gram += (x.T @ x).double()
            cross += (x.T @ y).double()
            energy += y.double().square().sum()
            rows += len(x)
            targets += observed.sum(0)
        return cls(gram, cross * (rows / targets.clamp(min=1)), energy)

    def squared_error(self, weight: Tensor) -> float:
        """Return the sum of squared errors over the rows, all of whose targets must be measured."""
        fitted = (weight * (self.gram @ weight)).sum() - 2 * (weight * self.cross).sum()
        return float(fitted + self.energy)


class _Solutions:
    """The ridge maps of all penalties, from one eigendecomposition."""

    def __init__(self, fitted: _NormalEquations) -> None:
        self.values, self.vectors = torch.linalg.eigh(fitted.gram)
        self.rotated = self.vectors.T @ fitted.cross
        self.unit = float(fitted.gram.diagonal().mean()) or 1.0

    def weight(self, penalty: float) -> Tensor:
        solved: Tensor = self.vectors @ (self.rotated / (self.values.clamp(min=0) + penalty * self.unit)[:, None])
        return solved


@torch.inference_mode()
def fit_ridge(train: Windows, validation: Windows) -> Ridge:
    """Fit a linear map in closed form on `train`, with the penalty in `PENALTIES` that is best on `validation`.

    The look-back is the context length, at most `MAX_LOOK_BACK` steps. Each penalty is scored on every measured target
    of `validation`: through the normal equations, or directly in windows with missing targets.

    References
    ----------
    Hoerl and Kennard, "Ridge regression", Technometrics 12 (1970).
    """
    every, look_back = _thinning(train), _look_back(train)
    solutions = _Solutions(_NormalEquations.of(train.every(every), look_back))
    whole, partial = _split_by_gaps(validation)
    scored = _NormalEquations.of(whole, look_back)

    def error(penalty: float) -> float:
        weight = solutions.weight(penalty)
        squares = scored.squared_error(weight)
        if len(partial):
            squares += float(evaluate(LinearMap(weight, "ridge"), partial, 512).sums.squared.sum())
        return squares

    return _ridge(solutions, min(PENALTIES.tolist(), key=error), every)


def _split_by_gaps(windows: Windows) -> tuple[Windows, Windows]:
    """Return the windows without missing targets, and the windows with some."""
    if windows.observed is None:
        return windows, replace(windows, starts=windows.starts[:0])
    absent = (~windows.observed[:, : windows.num_targets]).any(1)
    before = torch.cat(
        [absent.new_zeros(1, dtype=torch.int64), absent.cumsum(0)]
    )  # counts of incomplete rows before each row
    first = windows.starts.to(before.device) + windows.context_length
    whole = (before[first + windows.horizon] == before[first]).to(windows.starts.device)
    return replace(windows, starts=windows.starts[whole]), replace(windows, starts=windows.starts[~whole])


@torch.inference_mode()
def refit(train: Windows, ridge: Ridge) -> Ridge:
    """Fit the map of `ridge` on other windows, with the same penalty."""
    return _ridge(_Solutions(_NormalEquations.of(train, ridge.look_back)), ridge.penalty, ridge.every)


def _thinning(train: Windows) -> int:
    """Return k such that the map is fitted on every k-th window."""
    look_back = _look_back(train)
    operations = len(train) * train.num_targets * look_back * (look_back + train.horizon)
    return max(1, round(operations / FIT_OPERATIONS))


def _look_back(windows: Windows) -> int:
    return min(windows.context_length, MAX_LOOK_BACK)


def _ridge(solutions: _Solutions, penalty: float, every: int) -> Ridge:
    return Ridge(solutions.weight(penalty).float(), "ridge", penalty, every)
