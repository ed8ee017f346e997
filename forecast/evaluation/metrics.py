"""Scores as sums and counts, so that the batch size cannot change them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from forecast.common.group import Group

Scores = dict[str, float]

ROUNDING = 1e-9
"""Part of an MSE that nothing is better by: sums over the same errors in another order differ by less."""


LEAST = float(torch.finfo(torch.float32).eps) ** 2
"""An MSE of z-scores up to which there is no error but rounding."""


@dataclass
class ErrorSums:
    """Sums of squared and absolute errors by horizon step and series, in float64.

    Parameters
    ----------
    squared, absolute, count
        Shape (h, C) each: sums over windows, of z-scores, and the number of targets counted.
    """

    squared: Tensor
    absolute: Tensor
    count: Tensor

    @classmethod
    def zeros(cls, horizon: int, num_targets: int, device: torch.device | str = "cpu") -> "ErrorSums":
        """Give sums over nothing."""
        return cls(*(torch.zeros(horizon, num_targets, dtype=torch.float64, device=device) for _ in range(3)))

    def update(self, forecast: Tensor, future: Tensor, observed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Add a batch (B, h, C); give each window's own MSE and MAE, shape (B,), NaN where it has no target.

        Targets where `observed` is False are left out: they were filled, not measured.
        """
        error = forecast.double() - future.double()
        weight = torch.ones_like(error) if observed is None else observed.double()
        error = torch.where(weight > 0, error, 0.0)
        squared, absolute = error.square(), error.abs()
        self.squared += squared.sum(0)
        self.absolute += absolute.sum(0)
        self.count += weight.sum(0)
        targets = weight.sum((1, 2))
        return squared.sum((1, 2)) / targets, absolute.sum((1, 2)) / targets

    def over(self, group: Group) -> "ErrorSums":
        """Give the sums over the windows of all processes, the same digits on each of them."""
        if group.size == 1:
            return self
        return ErrorSums(*group.total(torch.stack([self.squared, self.absolute, self.count])))

    def scaled(self) -> Scores:
        """Give MSE, MAE and RMSE of the z-scores over all counted targets (the papers' numbers)."""
        count = self.count.sum()
        return _row(self.squared.sum() / count, self.absolute.sum() / count)

    def original(self, scale: np.ndarray) -> Scores:
        """Give MSE, MAE and RMSE in original units; `scale` (C,) is one standard deviation of each series.

        Series of different units are averaged as numbers: read them by series where that matters.
        """
        factor = torch.as_tensor(scale, dtype=torch.float64, device=self.squared.device)
        count = self.count.sum()
        return _row((self.squared * factor.square()).sum() / count, (self.absolute * factor).sum() / count)

    def by_step(self, scale: np.ndarray | None = None) -> list[Scores]:
        """Give the scores of each horizon step, the first step first: on z-scores and, given `scale`, `_original`."""
        count = self.count.sum(1)
        rows = _rows(self.squared.sum(1) / count, self.absolute.sum(1) / count)
        if scale is None:
            return rows
        factor = torch.as_tensor(scale, dtype=torch.float64, device=self.squared.device)
        squared, absolute = self.squared @ factor.square(), self.absolute @ factor
        return _with_original(rows, _rows(squared / count, absolute / count))

    def by_series(self, names: list[str], scale: np.ndarray) -> dict[str, Scores]:
        """Give the scores of each series, on z-scores and (`_original`) in its own unit."""
        count = self.count.sum(0)
        mse, mae = self.squared.sum(0) / count, self.absolute.sum(0) / count
        factor = torch.as_tensor(scale, dtype=torch.float64, device=self.squared.device)
        rows = _with_original(_rows(mse, mae), _rows(mse * factor.square(), mae * factor))
        return dict(zip(names, rows, strict=True))


def _row(mse: Tensor, mae: Tensor) -> Scores:
    return {"mse": float(mse), "mae": float(mae), "rmse": float(mse.sqrt())}


def _rows(mse: Tensor, mae: Tensor) -> list[Scores]:
    return [_row(*pair) for pair in zip(mse, mae, strict=True)]


def _with_original(rows: list[Scores], original: list[Scores]) -> list[Scores]:
    return [
        row | {f"{name}_original": value for name, value in other.items()}
        for row, other in zip(rows, original, strict=True)
    ]


def skill(mse: float, reference: float) -> float:
    """Give 1 - mse / reference, of z-scores: 1 is perfect, 0 is no better than the reference, below 0 is worse.

    NaN where the reference makes no error that z-scores in float32 could tell from none.

    References
    ----------
    Murphy, "Skill scores based on the mean square error", Monthly Weather Review 116 (1988).
    """
    return 1.0 - mse / reference if reference > LEAST else float("nan")
