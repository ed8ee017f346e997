"""Metrics of a forecast from sums and counts, relative metrics, and losses by name."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from forecast.common.group import Group
from forecast.common.losses import QUANTILE, check_loss

Scores = dict[str, float]

ROUNDING = 1e-9
"""Relative difference up to which two MSEs count as equal; the order of a sum changes less."""

LEAST = float(torch.finfo(torch.float32).eps) ** 2
"""MSE of z-scores up to which the error is only rounding."""


PREFERRED = 1e-3
"""Least relative advantage in MSE of a baseline over the model that causes a warning."""


CHUNK = 2**18
"""Numbers that are scored together on a CPU. Larger tensors leave its cache: sums over 3.9 million targets took two to
five times as long, on one thread of an AMD EPYC.
"""


def windows_at_once(numbers: Tensor, *, everywhere: bool = False) -> int:
    """Return how many windows of `numbers`, targets or forecasts (B, ...), are scored together.

    They have at most `CHUNK` numbers on a CPU, or `everywhere`; on a GPU, they are all windows.
    """
    if numbers.device.type != "cpu" and not everywhere:
        return max(1, len(numbers))
    return max(1, CHUNK // max(1, math.prod(numbers.shape[1:])))


@dataclass
class ErrorSums:
    """Sums of squared and absolute errors of z-scores over windows, and counts of targets, (h, C) each, float64."""

    squared: Tensor
    absolute: Tensor
    count: Tensor

    @classmethod
    def zeros(cls, horizon: int, num_targets: int, device: torch.device | str = "cpu") -> "ErrorSums":
        """Return empty sums."""
        return cls(*(torch.zeros(horizon, num_targets, dtype=torch.float64, device=device) for _ in range(3)))

    def update(self, forecast: Tensor, future: Tensor, observed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Add a batch (B, h, C); return each window's own MSE and MAE, shape (B,), NaN where it has no target.

        Targets where `observed` is False are ignored: they were filled, not measured.
        """
        error = forecast.double() - future.double()
        if observed is None:
            self.count += len(error)
            targets = error.new_full((len(error),), math.prod(error.shape[1:]))
        else:
            error = torch.where(observed, error, 0.0)
            self.count += observed.sum(0)
            targets = observed.sum((1, 2)).double()
        squared, absolute = error.square(), error.abs()
        self.squared += squared.sum(0)
        self.absolute += absolute.sum(0)
        return squared.sum((1, 2)) / targets, absolute.sum((1, 2)) / targets

    def over(self, group: Group) -> "ErrorSums":
        """Return the sums over the windows of all processes, bitwise equal on each of them."""
        return ErrorSums(*group.total(torch.stack([self.squared, self.absolute, self.count])))

    @property
    def selection_score(self) -> float:
        """The score that selects a training step: the MSE."""
        return self.scaled()["mse"]

    def choose(self, numbers: Tensor) -> tuple[None, float]:
        """Return no mixing weight, and the MSE that is the mean over windows of their own (1,)."""
        return None, float(numbers[0])

    def window_scores(self, numbers: Tensor, mixing_weight: float | None) -> Tensor:
        """Return the MSE (n,) of windows with the numbers (n, 1)."""
        return numbers[:, 0]

    def scaled(self) -> Scores:
        """Return MSE, MAE and RMSE of the z-scores over all counted targets, as papers report them."""
        count = self.count.sum()
        return _row(self.squared.sum() / count, self.absolute.sum() / count)

    def original(self, scale: np.ndarray) -> Scores:
        """Return MSE, MAE and RMSE in original units; `scale` (C,) is the standard deviation of each series.

        Series with different units are averaged as plain numbers; use `by_series` for them.
        """
        factor = torch.as_tensor(scale, dtype=torch.float64, device=self.squared.device)
        count = self.count.sum()
        return _row((self.squared * factor.square()).sum() / count, (self.absolute * factor).sum() / count)

    def by_step(self, scale: np.ndarray | None = None) -> list[Scores]:
        """Return the scores of each horizon step, in order; with `scale` also in original units (`_original`)."""
        count = self.count.sum(1)
        rows = _rows(self.squared.sum(1) / count, self.absolute.sum(1) / count)
        if scale is None:
            return rows
        factor = torch.as_tensor(scale, dtype=torch.float64, device=self.squared.device)
        squared, absolute = self.squared @ factor.square(), self.absolute @ factor
        return _with_original(rows, _rows(squared / count, absolute / count))

    def by_series(self, names: list[str], scale: np.ndarray) -> dict[str, Scores]:
        """Return the scores of each series, on z-scores and in its own unit (`_original`)."""
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
    """Return 1 - mse / reference: 1 is perfect, 0 equals the reference, below 0 is worse than it.

    Both are on z-scores. NaN if the reference error is only float32 rounding.

    References
    ----------
    Murphy, "Skill scores based on the mean square error", Monthly Weather Review 116 (1988).
    """
    return 1.0 - mse / reference if reference > LEAST else float("nan")


SCANNED_ROWS, SCANNED_COLUMNS = 2**17, 8
"""Rows and columns of a table that are read at once: a single column of a file would read all of it."""

RELATIVE = ("smape", "wape", "mase")
"""The scores without a unit: two in per cent, and one ratio."""


@dataclass(frozen=True)
class Units:
    """Scale of the targets: a value is its z-score times `scale` plus `mean`; all (C_out,), float64, original units.

    In a panel they are those of each of its S series, (S, C_out). `seasonal_error` is the result of the function of
    that name on the training split.
    """

    mean: np.ndarray
    scale: np.ndarray
    seasonal_error: np.ndarray

    @property
    def least(self) -> np.ndarray:
        """The rounding error of float64 values with float32 z-scores, (C_out,), original units."""
        rounding = np.finfo(np.float32).eps * self.scale + 4 * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.asarray(rounding)


def seasonal_error(values: np.ndarray, period: int, observed: np.ndarray | None = None) -> np.ndarray:
    """Return the mean absolute difference of each series from its value one season before, shape (C,).

    `values` (N, C) are the training rows in original units, `period` is in steps. Filled values (`observed` (N, C) is
    False) are ignored. NaN for a series without two measured values a season apart.
    """
    total, count = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for start, place in product(range(period, len(values), SCANNED_ROWS), range(0, values.shape[1], SCANNED_COLUMNS)):
        rows, columns = slice(start - period, start + SCANNED_ROWS), slice(place, place + SCANNED_COLUMNS)
        block, seen = values[rows, columns].copy(), None if observed is None else observed[rows, columns]
        for column in range(block.shape[1]):
            kept, difference = _seasonal_differences(block, period, seen, column)
            total[place + column] += difference.sum()
            count[place + column] += kept.sum()
    with np.errstate(invalid="ignore"):
        return np.asarray(total / count)  # NaN without a pair


def _seasonal_differences(
    values: np.ndarray, period: int, observed: np.ndarray | None, place: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows of a column have a value one season before, and the absolute differences, 0 elsewhere."""
    difference = np.abs(values[period:, place] - values[:-period, place])
    kept = np.isfinite(difference) if observed is None else observed[period:, place] & observed[:-period, place]
    return kept, np.where(kept, difference, 0.0)


def seasonal_errors(
    values: np.ndarray, period: int, series: np.ndarray, count: int, observed: np.ndarray | None = None
) -> np.ndarray:
    """Return the `seasonal_error` of each series of a panel, (S, C).

    `values` (N, C) are the rows of each series in order, one series after the other, and `series` (N,) their series.
    """
    means, same = [], series[period:] == series[:-period]
    for place in range(values.shape[1]):
        kept, difference = _seasonal_differences(values, period, observed, place)
        size = np.bincount(series[period:], kept & same, count)
        total = np.bincount(series[period:], np.where(same, difference, 0.0), count)
        means.append(np.divide(total, size, out=np.full(count, np.nan), where=size > 0))
    return np.stack(means, 1)


@dataclass
class RelativeSums:
    """Sums over windows of the terms of the relative scores, (h, C) each, float64.

    For a target y in its unit and its forecast f, `level` sums |y|, and `symmetric` sums 200 |f - y| / (|f| + |y|),
    which is 0 if f = y.
    """

    units: Units
    level: Tensor
    symmetric: Tensor

    @classmethod
    def zeros(cls, units: Units, horizon: int, device: torch.device | str = "cpu") -> "RelativeSums":
        """Return empty sums."""
        level, symmetric = torch.zeros(2, horizon, len(units.mean), dtype=torch.float64, device=device)
        return cls(units, level, symmetric)

    def update(self, forecast: Tensor, future: Tensor, observed: Tensor | None = None) -> None:
        """Add a batch of z-scores (B, h, C), except targets where `observed` is False."""
        forecast, future = self._in_units(forecast), self._in_units(future)
        error, level = (forecast - future).abs(), future.abs()
        symmetric = torch.where(error == 0, 0.0, 200 * error / (forecast.abs() + level))
        if observed is not None:
            level, symmetric = (torch.where(observed, term, 0.0) for term in (level, symmetric))
        self.level += level.sum(0)
        self.symmetric += symmetric.sum(0)

    def _in_units(self, scores: Tensor) -> Tensor:
        """Return the values, float64; values within float32 rounding of zero become zero."""
        mean, scale = (torch.as_tensor(row, device=scores.device) for row in (self.units.mean, self.units.scale))
        values = scores.double() * scale + mean
        return torch.where(values.abs() <= torch.finfo(torch.float32).eps * mean.abs(), 0.0, values)

    def over(self, group: Group) -> "RelativeSums":
        """Return the sums over the windows of all processes, bitwise equal on each of them."""
        return RelativeSums(self.units, *group.total(torch.stack([self.level, self.symmetric])))

    def scores(self, errors: ErrorSums) -> Scores:
        """Return sMAPE and WAPE in per cent and MASE as a ratio; `errors` are the sums over the same targets.

        Notes
        -----
        *sMAPE* is the mean over all targets of 200 |f - y| / (|f| + |y|), from 0 to 200 %. A nonzero forecast of zero
        scores 200 %; zero for zero scores 0 %.
        *WAPE* is 100 Σ|f - y| / Σ|y| over all targets, so large ones weigh more; NaN if all are zero. Series with
        different units are added as plain numbers; use `by_series` for them.
        *MASE* is each series' mean absolute error over that of the seasonal naive forecast one season ahead within the
        training split, averaged over the series; below 1 is better. A series is NaN, and left out of the mean, if its
        training split repeats exactly (up to rounding) or has no two values a season apart.

        References
        ----------
        Makridakis, "Accuracy measures: theoretical and practical concerns", International Journal of
        Forecasting 9 (1993), for sMAPE; Hyndman and Koehler, "Another look at measures of forecast accuracy",
        the same 22 (2006), for MASE; Kolassa and Schütz, "Advantages of the MAD/mean ratio over the MAPE",
        Foresight 6 (2007), for WAPE.
        """
        return self._rows(errors, dim=(0, 1))[0]

    def by_step(self, errors: ErrorSums) -> list[Scores]:
        """Return the scores of each horizon step, in order."""
        return self._rows(errors, dim=(1,))

    def by_series(self, errors: ErrorSums) -> list[Scores]:
        """Return the scores of each series."""
        return self._rows(errors, dim=(0,))

    def _rows(self, errors: ErrorSums, dim: tuple[int, ...]) -> list[Scores]:
        scale = torch.as_tensor(self.units.scale, device=self.level.device)
        absolute = errors.absolute * scale
        smape = self.symmetric.sum(dim) / errors.count.sum(dim)
        wape = 100 * absolute.sum(dim) / self.level.sum(dim)
        wape = torch.where(self.level.sum(dim) > 0, wape, torch.nan)
        mase = self._mase(absolute, errors.count, dim)
        columns = (scores.flatten().tolist() for scores in (smape, wape, mase))
        return [dict(zip(RELATIVE, row, strict=True)) for row in zip(*columns, strict=True)]

    def _mase(self, absolute: Tensor, count: Tensor, dim: tuple[int, ...]) -> Tensor:
        """Return each series' ratio, over all steps if `dim` contains 0, averaged over the series if it contains 1."""
        if 0 in dim:
            absolute, count = absolute.sum(0, keepdim=True), count.sum(0, keepdim=True)
        unit = torch.as_tensor(self.units.seasonal_error, device=absolute.device)
        # excludes units that are NaN or only rounding
        counted = (unit > torch.as_tensor(self.units.least, device=unit.device)) & (count > 0)
        ratio = absolute / count / unit  # (1 or h, C)
        if 1 not in dim:
            return torch.where(counted, ratio, torch.nan)
        return torch.where(counted, ratio, 0.0).sum(1) / counted.sum(1)


_ELEMENTWISE: dict[str, Callable[..., Tensor]] = {
    "mse": functional.mse_loss,
    "mae": functional.l1_loss,
    "huber": functional.smooth_l1_loss,
}

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def quantile_loss(quantiles: Tensor, future: Tensor, levels: Tensor) -> Tensor:
    """Return twice the pinball loss of quantiles (B, h, C, K) of `levels` (K,), the mean over them, (B, h, C).

    For the error e of level q it is 2 max(q e, (q - 1) e), so that the loss of the median is the absolute error.

    References
    ----------
    Koenker and Bassett, "Regression quantiles", Econometrica 46 (1978).
    """
    error = future[..., None] - quantiles
    return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(-1)


def loss_by_name(name: str, levels: Sequence[float] = ()) -> Loss:
    """Return `loss(forecast, future, observed)`, a mean over the observed targets, on z-scores.

    "mse" is the squared error, "mae" the absolute error, "huber" half the square below 1 and linear above. "quantile"
    is the `quantile_loss` of forecasts (B, h, C, K) of the K `levels`.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35 (1964).
    """
    check_loss(name)
    if name == QUANTILE:
        return _loss_of_quantiles(levels)
    elementwise = _ELEMENTWISE[name]

    def loss(forecast: Tensor, future: Tensor, observed: Tensor | None) -> Tensor:
        if observed is None:
            return elementwise(forecast, future)
        errors = elementwise(forecast, torch.where(observed, future, 0), reduction="none")
        return torch.where(observed, errors, 0).sum() / observed.sum().clamp(min=1)

    return loss


def _loss_of_quantiles(levels: Sequence[float]) -> Loss:
    made: dict[tuple[torch.device, torch.dtype], Tensor] = {}  # a copy to a GPU in each step would wait for it

    def loss(forecast: Tensor, future: Tensor, observed: Tensor | None) -> Tensor:
        key = forecast.device, forecast.dtype
        if key not in made:
            with torch.inference_mode(False):
                made[key] = forecast.new_tensor(levels)
        tensor = made[key]
        if observed is None:
            return quantile_loss(forecast, future, tensor).mean()
        losses = torch.where(observed, quantile_loss(forecast, torch.where(observed, future, 0), tensor), 0)
        return losses.sum() / observed.sum().clamp(min=1)

    return loss
