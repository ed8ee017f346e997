"""Scores of each series of a panel, and their means, from sums over its windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from forecast.common.group import Group
from forecast.evaluation.interval_scores import QUANTILES
from forecast.evaluation.intervals import Calibration
from forecast.evaluation.limits import WindowLimits
from forecast.evaluation.metrics import Scores, Units

_TERMS = ("count", "squared", "absolute", "level", "symmetric", "relative", "nonzero", "pinball", "inside")


@dataclass
class SeriesSums:
    """Sums over the windows and steps of each series, (S, C) each, float64, original units.

    For a target y and its point forecast f, with e = f - y: `squared` sums e², `absolute` |e|, `level` |y|, `symmetric`
    200 |e| / (|f| + |y|), and `relative` (e / y)² over the `nonzero` targets that are not 0. `pinball` sums twice the
    pinball loss, the mean over `QUANTILES`, and `inside` counts targets in the central 80 % interval; both are NaN if
    quantiles were not forecast.
    """

    units: Units
    count: Tensor
    squared: Tensor
    absolute: Tensor
    level: Tensor
    symmetric: Tensor
    relative: Tensor
    nonzero: Tensor
    pinball: Tensor
    inside: Tensor

    @classmethod
    def zeros(cls, units: Units, device: torch.device | str = "cpu") -> "SeriesSums":
        """Return empty sums; all of `units` have the shape (S, C)."""
        return cls(units, *torch.zeros(len(_TERMS), *units.mean.shape, dtype=torch.float64, device=device))

    def update(
        self,
        series: Tensor,
        point: Tensor,
        future: Tensor,
        observed: Tensor | None = None,
        quantiles: Sequence[Tensor] | None = None,
    ) -> None:
        """Add windows of the `series` (B,): z-scores (B, h, C), and `quantiles` of `QUANTILES`; None: not forecast.

        Targets where `observed` is False are ignored.
        """
        tables = (self.units.scale, self.units.mean)
        scale, mean = (torch.as_tensor(table, device=point.device)[series][:, None] for table in tables)
        truth, forecast = future.double() * scale + mean, point.double() * scale + mean
        tiny = torch.finfo(torch.float32).eps * mean.abs()
        truth, forecast = (torch.where(values.abs() <= tiny, 0.0, values) for values in (truth, forecast))
        error, seen = forecast - truth, torch.ones_like(truth, dtype=torch.bool) if observed is None else observed
        size, nonzero, none = error.abs(), truth != 0, torch.full_like(truth, torch.nan)
        terms = {
            "count": torch.ones_like(truth),
            "squared": error.square(),
            "absolute": size,
            "level": truth.abs(),
            "symmetric": torch.where(size == 0, 0.0, 200 * size / (forecast.abs() + truth.abs())),
            "relative": torch.where(nonzero, (error / torch.where(nonzero, truth, 1.0)).square(), 0.0),
            "nonzero": nonzero.double(),
            "pinball": none if quantiles is None else _pinball(future, quantiles) * scale,
            "inside": none if quantiles is None else ((quantiles[0] <= future) & (future <= quantiles[-1])).double(),
        }
        for name, values in terms.items():
            getattr(self, name).index_add_(0, series, torch.where(seen, values, 0.0).sum(1))

    def over(self, group: Group) -> "SeriesSums":
        """Return the sums over the windows of all processes, bitwise equal on each of them."""
        return SeriesSums(self.units, *group.total(torch.stack([getattr(self, name) for name in _TERMS])))

    def pooled(self) -> Scores:
        """Return the scores over all series.

        Notes
        -----
        *MASE* and *SQL* are means over the series of their own, each relative to the seasonal error of its training
        rows, as fev averages them; a series without one is left out. *WAPE* and *WQL* are ratios of sums over all
        series. *MSE*, *MAE* and *RMSE* are means over all targets, in original units; *RMSPE* is the root of the mean
        of (e / y)² over targets that are not 0, in per cent.
        """
        total = {name: float(getattr(self, name).sum()) for name in _TERMS}
        count = total["count"]
        return {
            "mse": total["squared"] / count,
            "mae": total["absolute"] / count,
            "rmse": (total["squared"] / count) ** 0.5,
            "smape": total["symmetric"] / count,
            "wape": _ratio(100 * total["absolute"], total["level"]),
            "mase": _mean(self._scaled(self.absolute)),
            "rmspe": 100 * _ratio(total["relative"], total["nonzero"]) ** 0.5,
            "sql": _mean(self._scaled(self.pinball)),
            "wql": _ratio(total["pinball"], total["level"]),
        }

    def by_series(self) -> dict[str, np.ndarray]:
        """Return MASE, SQL, WAPE, RMSE, coverage of 80 % and number of targets of each series, (S,)."""
        count, level = self.count.sum(1), self.level.sum(1)
        columns = {
            "mase": self._scaled(self.absolute).nanmean(1),
            "sql": self._scaled(self.pinball).nanmean(1),
            "wape": torch.where(level > 0, 100 * self.absolute.sum(1) / level, torch.nan),
            "rmse": (self.squared.sum(1) / count).sqrt(),
            "coverage_80": self.inside.sum(1) / count,
            "targets": count,
        }
        return {name: values.cpu().numpy() for name, values in columns.items()}

    def scaled_mse(self) -> np.ndarray:
        """Return the MSE of each series on its z-scores, the mean over its targets, (S,)."""
        scale = torch.as_tensor(self.units.scale, device=self.count.device)
        return np.asarray(((self.squared / scale.square()).sum(1) / self.count.sum(1)).cpu().numpy())

    def _scaled(self, sums: Tensor) -> Tensor:
        """Return the mean of each series and target over its seasonal error, (S, C), NaN without one."""
        unit = torch.as_tensor(self.units.seasonal_error, device=sums.device)
        usable = (unit > torch.as_tensor(self.units.least, device=sums.device)) & (self.count > 0)
        return torch.where(usable, sums / self.count / unit, torch.nan)


def scored_quantiles(
    calibration: Calibration, forecast: Tensor, spread: Tensor, limits: WindowLimits | None
) -> list[Tensor] | None:
    """Return the quantiles of `QUANTILES`, (B, h, C) each; None if the calibration does not support all of them."""
    if not all(calibration.supports(level) for level in QUANTILES):
        return None
    quantiles = calibration.each_quantile(forecast, spread, QUANTILES)
    if limits is None:
        return quantiles
    return [limits.end(quantile, level) for quantile, level in zip(quantiles, QUANTILES, strict=True)]


def _pinball(future: Tensor, quantiles: Sequence[Tensor]) -> Tensor:
    """Return twice the pinball loss, the mean over `QUANTILES`, (B, h, C)."""
    total = torch.zeros_like(future, dtype=torch.float64)
    for quantile, level in zip(quantiles, QUANTILES, strict=True):
        error = (future - quantile).double()
        total += error.abs() + (2 * level - 1) * error
    return total / len(QUANTILES)


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else float("nan")


def _mean(values: Tensor) -> float:
    return float(values.nanmean())
