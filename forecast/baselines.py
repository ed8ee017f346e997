"""The forecasts that every result is held against: last value, seasonal naive, and a linear map."""

from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows

MAX_LOOK_BACK = 2048
"""Longest look-back of the linear map, in steps: its fit grows with the square."""

PENALTIES = torch.logspace(-8, 1, 19, dtype=torch.float64)
"""Ridge penalties tried, as multiples of the mean of the Gram matrix's diagonal."""

FIT_OPERATIONS = 2e11
"""Multiplications allowed for the normal equations; more windows than that are thinned."""


def last_value(batch: Batch) -> Tensor:
    """Give the last target value of the context for every step, shape (B, h, C_out)."""
    return batch.past[:, -1:, : batch.future.shape[2]].expand_as(batch.future)


@dataclass(frozen=True)
class SeasonalNaive:
    """Give for every step the newest value before the origin at the same place in the season.

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
        """Give the forecast (B, h, C_out)."""
        step = torch.arange(self.windows.horizon, device=batch.origin.device)
        back = step % self.period - self.period  # within the season that ends at the origin
        rows = batch.origin[:, None] + back  # (B, h)
        return self.windows.values_at(rows)[..., : self.windows.num_targets]


@dataclass(frozen=True)
class Ridge:
    """A linear map from the context, less its own mean, to the horizon, less that mean; one for all series.

    Parameters
    ----------
    weight
        Shape (look_back, h), the oldest step first.
    penalty
        The chosen multiple of the Gram matrix's mean diagonal.
    every
        Every how manieth training window was used.
    """

    weight: Tensor
    penalty: float
    every: int

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


@dataclass
class _NormalEquations:
    """X'X, X'Y and Y'Y over (window, series) rows, in float64."""

    gram: Tensor
    cross: Tensor
    energy: Tensor

    @classmethod
    def of(cls, windows: Windows, look_back: int) -> "_NormalEquations":
        sums = [
            torch.zeros(shape, dtype=torch.float64, device=windows.device)
            for shape in ((look_back, look_back), (look_back, windows.horizon), ())
        ]
        for batch in windows.batches(512):
            past = batch.past[:, -look_back:, : windows.num_targets]
            mean = past.mean(1, keepdim=True)
            x = (past - mean).transpose(1, 2).flatten(0, 1)  # (B C, look_back)
            y = (batch.future - mean).transpose(1, 2).flatten(0, 1)  # (B C, h)
            if batch.future_observed is not None:
                whole = batch.future_observed.all(1).flatten()
                x, y = x[whole], y[whole]
            sums[0] += (x.T @ x).double()
            sums[1] += (x.T @ y).double()
            sums[2] += y.double().square().sum()
        return cls(*sums)

    def squared_error(self, weight: Tensor) -> float:
        fitted = (weight * (self.gram @ weight)).sum() - 2 * (weight * self.cross).sum()
        return float(fitted + self.energy)


@torch.inference_mode()
def fit_ridge(train: Windows, validation: Windows) -> Ridge:
    """Fit the linear map in closed form on `train`; its penalty is the best on `validation`.

    The look-back is the context, at most `MAX_LOOK_BACK` steps. One eigendecomposition serves all
    penalties, and each is scored on all validation windows through their own normal equations.

    References
    ----------
    Hoerl and Kennard, "Ridge regression", Technometrics 12 (1970).
    """
    look_back = min(train.context_length, MAX_LOOK_BACK)
    operations = len(train) * train.num_targets * look_back * (look_back + train.horizon)
    every = max(1, round(operations / FIT_OPERATIONS))
    fitted = _NormalEquations.of(train.every(every), look_back)
    scored = _NormalEquations.of(validation, look_back)
    values, vectors = torch.linalg.eigh(fitted.gram)
    rotated = vectors.T @ fitted.cross
    unit = float(fitted.gram.diagonal().mean()) or 1.0
    candidates = []
    for penalty in PENALTIES.tolist():
        weight = vectors @ (rotated / (values.clamp(min=0) + penalty * unit)[:, None])
        candidates.append((scored.squared_error(weight), penalty, weight))
    _, penalty, weight = min(candidates, key=lambda candidate: candidate[0])
    return Ridge(weight=weight.float(), penalty=penalty, every=every)
