"""Scores as sums and counts, so that the batch size cannot change them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from forecast.parallel.group import Group

Scores = dict[str, float]


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
        """Give MSE and MAE of the z-scores over all counted targets (the papers' numbers)."""
        count = self.count.sum()
        return {"mse": float(self.squared.sum() / count), "mae": float(self.absolute.sum() / count)}

    def original(self, scale: np.ndarray) -> Scores:
        """Give MSE and MAE in original units; `scale` (C,) is one standard deviation of each series.

        Series of different units are averaged as numbers: read them by series where that matters.
        """
        factor = torch.as_tensor(scale, dtype=torch.float64, device=self.squared.device)
        count = self.count.sum()
        return {
            "mse": float((self.squared * factor.square()).sum() / count),
            "mae": float((self.absolute * factor).sum() / count),
        }

    def by_step(self) -> list[Scores]:
        """Give MSE and MAE of the z-scores for each horizon step, the first step first."""
        count = self.count.sum(1)
        return _rows(self.squared.sum(1) / count, self.absolute.sum(1) / count)

    def by_series(self, names: list[str], scale: np.ndarray) -> dict[str, Scores]:
        """Give MSE and MAE of each series, on z-scores and (`_original`) in its own unit."""
        count = self.count.sum(0)
        rows = _rows(self.squared.sum(0) / count, self.absolute.sum(0) / count)
        for row, factor in zip(rows, scale.tolist(), strict=True):
            row |= {"mse_original": row["mse"] * factor**2, "mae_original": row["mae"] * factor}
        return dict(zip(names, rows, strict=True))


def _rows(mse: Tensor, mae: Tensor) -> list[Scores]:
    pairs = zip(mse.tolist(), mae.tolist(), strict=True)
    return [{"mse": squared, "mae": absolute} for squared, absolute in pairs]


def skill(mse: float, reference: float) -> float:
    """Give 1 - mse / reference: 1 is perfect, 0 is no better than the reference, below 0 is worse.

    References
    ----------
    Murphy, "Skill scores based on the mean square error", Monthly Weather Review 116 (1988).
    """
    return 1.0 - mse / reference if reference > 0 else float("nan")
