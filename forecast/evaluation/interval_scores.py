"""Scores of quantiles and intervals from sums: quantile losses, CRPS, coverage, width and Winkler score."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from forecast.common.group import Group
from forecast.evaluation.intervals import Calibration, interval_levels
from forecast.evaluation.limits import WindowLimits

QUANTILES = tuple(tenths / 10 for tenths in range(1, 10))
"""Levels of the quantile losses, as in GluonTS and fev-bench."""

LEVELS = (80, 95)
"""Evaluated central intervals, in per cent."""

REPORTED = ("sql", "wql", *(f"{name}_{percent}" for percent in LEVELS for name in ("coverage", "width", "winkler")))
"""Scores of intervals in tables of several runs."""

SCORED = tuple(sorted({*QUANTILES, *(end for percent in LEVELS for end in interval_levels(percent))}))
"""All quantile levels that are scored."""

IntervalScores = dict[str, float | None]


@dataclass
class IntervalSums:
    """Sums over windows of the losses of calibrated quantiles, on z-scores, float64.

    Parameters
    ----------
    calibration
        Turns a forecast into quantiles.
    levels
        Quantile levels that are scored: those of `SCORED` that the calibration supports.
    pinball, below
        Shape (Q, h, C): twice the pinball loss, and the number of targets at or below the quantile.
    inside, width, winkler
        Shape (I, h, C), for each interval of `LEVELS`; 0 if its levels are not scored.
    count
        Number of targets, (h, C).
    """

    calibration: Calibration = field(repr=False)
    levels: tuple[float, ...]
    pinball: Tensor
    below: Tensor
    inside: Tensor
    width: Tensor
    winkler: Tensor
    count: Tensor

    @classmethod
    def zeros(
        cls,
        calibration: Calibration,
        device: torch.device | str = "cpu",
        levels: tuple[float, ...] | None = None,
    ) -> "IntervalSums":
        """Return empty sums of `levels`; None: all that the calibration supports."""
        if levels is None:
            levels = tuple(level for level in SCORED if calibration.supports(level))
        horizon, series, _ = calibration.shape

        def empty(*sizes: int) -> Tensor:
            return torch.zeros(*sizes, horizon, series, dtype=torch.float64, device=device)

        moved = Calibration(calibration.scores.to(device), calibration.trained)
        scored, intervals = len(levels), len(LEVELS)
        return cls(
            moved,
            levels,
            pinball=empty(scored),
            below=empty(scored),
            inside=empty(intervals),
            width=empty(intervals),
            winkler=empty(intervals),
            count=empty(),
        )

    def update(
        self,
        forecast: Tensor,
        spread: Tensor,
        future: Tensor,
        observed: Tensor | None = None,
        limits: WindowLimits | None = None,
    ) -> None:
        """Add a batch of forecasts (B, h, C) or (B, h, C, K), with the spread (B, 1, C) of each window.

        Targets (B, h, C) where `observed` is False are ignored. Quantiles stay within `limits`.
        """
        missing = 0 if observed is None else len(observed) - observed.sum(0)
        self.count += len(future) - missing
        if not self.levels:
            return
        quantiles = self.calibration.each_quantile(forecast, spread, self.levels)
        if limits is not None:
            pairs = zip(quantiles, self.levels, strict=True)
            quantiles = [limits.end(quantile, level) for quantile, level in pairs]
        low_places = {self._place(interval_levels(percent)[0]) for percent in LEVELS}
        sums: list[_LevelSums] = []
        for place, (level, quantile) in enumerate(zip(self.levels, quantiles, strict=True)):
            error = future - quantile
            if observed is not None:
                error = torch.where(observed, error, 0.0)
            level_sums = _LevelSums.of(error, strictly=place in low_places)
            self.pinball[place] += level_sums.absolute + (2 * level - 1) * level_sums.signed
            self.below[place] += level_sums.at_or_below - missing
            sums.append(level_sums)
        for place, percent in enumerate(LEVELS):
            low_place, high_place = (self._place(level) for level in interval_levels(percent))
            if low_place is None or high_place is None:
                continue
            low, high = sums[low_place], sums[high_place]
            width = low.signed - high.signed
            outside = (low.absolute - low.signed + high.absolute + high.signed) / 2
            self.inside[place] += high.at_or_below - missing - low.below
            self.width[place] += width
            self.winkler[place] += width + 2 / (1 - percent / 100) * outside

    def over(self, group: Group) -> "IntervalSums":
        """Return the sums over the windows of all processes, bitwise equal on each of them."""
        names = ("pinball", "below", "inside", "width", "winkler")
        sizes = [len(getattr(self, name)) for name in names]
        whole = group.total(torch.cat([*(getattr(self, name) for name in names), self.count[None]]))
        pinball, below, inside, width, winkler = whole[:-1].split(sizes)
        return IntervalSums(self.calibration, self.levels, pinball, below, inside, width, winkler, whole[-1])

    def __add__(self, other: "IntervalSums") -> "IntervalSums":
        """Return the sums of two sets of windows, scored at the same levels."""
        assert self.levels == other.levels
        names = ("pinball", "below", "inside", "width", "winkler", "count")
        sums = (getattr(self, name) + getattr(other, name) for name in names)
        return IntervalSums(self.calibration, self.levels, *sums)

    def scores(self, scale: np.ndarray, seasonal_error: np.ndarray, level: np.ndarray) -> IntervalScores:
        """Return the scores over all windows, steps and series; None for a score whose levels are not available.

        Parameters
        ----------
        scale, seasonal_error
            Shape (C,), original units: see `forecast.evaluation.metrics.Units`. A series whose seasonal error is 0 or
            NaN is left out of the scaled quantile loss.
        level
            Shape (h, C): mean of |target| over the windows, original units.

        Notes
        -----
        Each measured target counts once, so series and windows without gaps have equal weights.
        *pinball* is the mean pinball loss of z-scores over `QUANTILES`, max(q e, (q - 1) e) for the error e of level q.
        *crps*, the continuous ranked probability score, is twice that, the usual approximation from nine quantiles.
        *sql*, the scaled quantile loss, is twice the mean pinball loss of each series over its seasonal error (the
        denominator of MASE), averaged over the series. *wql*, the weighted quantile loss, is twice the summed pinball
        loss in original units over the sum of |target|, averaged over the levels.
        *coverage_80* is the share of targets in the central 80 % interval, *width_80* its mean width on z-scores, and
        *winkler_80* its width plus 2 / (1 - 0.8) times the distance of targets outside.

        References
        ----------
        Koenker and Bassett, "Regression quantiles", Econometrica 46 (1978); Gneiting and Raftery, "Strictly proper
        scoring rules", JASA 102 (2007), for CRPS and Winkler's score; Salinas et al., "DeepAR", International Journal
        of Forecasting 36 (2020), for the weighted quantile loss; Shchur et al., "fev-bench", 2025, for the scaled one.
        """
        return self._row(self._tables(scale, seasonal_error, level), (0, 1))[0]

    def by_step(self, scale: np.ndarray, seasonal_error: np.ndarray, level: np.ndarray) -> list[IntervalScores]:
        """Return the scores of each horizon step, in order."""
        return self._row(self._tables(scale, seasonal_error, level), (1,))

    def by_series(self, scale: np.ndarray, seasonal_error: np.ndarray, level: np.ndarray) -> list[IntervalScores]:
        """Return the scores of each series, with the width also in its unit (`_original`)."""
        rows = self._row(self._tables(scale, seasonal_error, level), (0,))
        for place, row in enumerate(rows):
            for percent in LEVELS:
                width = row[f"width_{percent}"]
                row[f"width_{percent}_original"] = None if width is None else width * float(scale[place])
        return rows

    def reliability(self) -> dict[str, float]:
        """Return the share of targets at or below each scored quantile, by its level."""
        total = self.count.sum()
        return {f"{level:g}": float(self.below[place].sum() / total) for place, level in enumerate(self.levels)}

    def _tables(self, scale: np.ndarray, seasonal_error: np.ndarray, level: np.ndarray) -> dict[str, Tensor]:
        """Return sums as (h, C) tensors: the losses of z-scores, in original units and relative to the season."""
        device = self.count.device
        factor, season = (torch.as_tensor(row, dtype=torch.float64, device=device) for row in (scale, seasonal_error))
        places = [self._place(quantile) for quantile in QUANTILES]
        nan = torch.full_like(self.count, torch.nan)
        whole = [place for place in places if place is not None]
        pinball = self.pinball[whole].mean(0) if None not in places else nan
        valid = torch.isfinite(season) & (season > 0)
        return {
            "pinball": pinball / 2,
            "units": pinball * factor,
            "scaled": torch.where(valid, pinball * factor / torch.where(valid, season, 1.0), torch.nan),
            "level": torch.as_tensor(level, dtype=torch.float64, device=device).nan_to_num() * self.count,
        }

    def _row(self, tables: dict[str, Tensor], dim: tuple[int, ...]) -> list[IntervalScores]:
        """Return the scores after summing over the dimensions `dim` of (h, C): 0 the steps, 1 the series."""
        count = self.count.sum(dim)
        pinball = tables["pinball"].sum(dim) / count
        columns = {
            "pinball": pinball,
            "crps": 2 * pinball,
            "sql": self._scaled(tables["scaled"], dim),
            "wql": tables["units"].sum(dim) / tables["level"].sum(dim),
        }
        for place, percent in enumerate(LEVELS):
            scored = all(self._place(level) is not None for level in interval_levels(percent))
            for name, sums in (("coverage", self.inside), ("width", self.width), ("winkler", self.winkler)):
                values = sums[place].sum(dim) / count
                columns[f"{name}_{percent}"] = values if scored else torch.full_like(values, torch.nan)
        rows = zip(*(values.flatten().tolist() for values in columns.values()), strict=True)
        return [{name: _finite(value) for name, value in zip(columns, row, strict=True)} for row in rows]

    def _scaled(self, losses: Tensor, dim: tuple[int, ...]) -> Tensor:
        """Return the scaled loss of each series, over all steps if `dim` contains 0, averaged if it contains 1."""
        counts = self.count
        if 0 in dim:
            losses, counts = losses.sum(0, keepdim=True), counts.sum(0, keepdim=True)
        ratio = losses / counts
        return ratio.nanmean(1) if 1 in dim else ratio

    def _place(self, level: float) -> int | None:
        """Return the place of a level among the scored ones; None if it is not scored."""
        return next((place for place, other in enumerate(self.levels) if abs(other - level) < 1e-9), None)


class _LevelSums(NamedTuple):
    """Sums over windows of one quantile's errors, future minus quantile, (h, C) each.

    All scores of a level follow from them: twice the pinball loss of level q is |e| + (2 q - 1) e. An interval whose
    ends do not cross has the width e_low - e_high, and a target lies (|e_low| - e_low + |e_high| + e_high) / 2 outside.

    Parameters
    ----------
    signed, absolute
        Sums of e and |e|, float64.
    at_or_below, below
        Number of targets at or below the quantile, and below it; the latter is 0 unless asked for.
    """

    signed: Tensor
    absolute: Tensor
    at_or_below: Tensor
    below: Tensor

    @classmethod
    def of(cls, error: Tensor, *, strictly: bool) -> "_LevelSums":
        """Return the sums of errors (B, h, C); `strictly` asks for `below`."""
        # comparisons into floats take a third of the time of those into bool on a CPU, and sums of ones are exact
        mark = torch.empty_like(error)
        at_or_below = torch.le(error, 0, out=mark).sum(0)
        below = torch.lt(error, 0, out=mark).sum(0) if strictly else at_or_below.new_zeros(())
        exact = error.double()
        return cls(exact.sum(0), exact.abs_().sum(0), at_or_below, below)


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
