"""Conformal prediction intervals: calibration on held-out windows, and the quantiles of a forecast."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.windows import thinned_places

MAX_WINDOWS = 1000
"""Maximum number of windows whose scores are stored: neighbours share most of their targets."""

MAX_SCORES = 2**22
"""Maximum number of stored scores (16 MiB), which lowers the number of windows for wide tables."""

LEAST_WINDOWS = 39
"""Limit that `MAX_SCORES` does not lower. Of more windows at least half this number is stored, enough for 95 %."""

ROUNDING = 1e-9
"""Tolerance of a rank or level that is a whole number up to the rounding of decimal fractions."""


def interval_levels(percent: float) -> tuple[float, float]:
    """Return the quantile levels of the two ends of a central interval, such as 0.1 and 0.9 for 80 per cent."""
    outside = round(0.5 - percent / 200, 12)
    return outside, 1 - outside


def coverage_of(level: float) -> float:
    """Return the coverage of the central interval that ends at a quantile level: 0.8 for 0.1 and 0.9."""
    return abs(2 * level - 1)


def ranks(coverage: float, counts: Tensor) -> Tensor:
    """Return the conformal rank, from 1, of a coverage among `counts` sorted scores: ceil((n + 1) coverage).

    With exchangeable windows, an interval of that half-width covers at least its level. Ranks beyond the last score
    become the last.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005; Lei et al., "Distribution-free
    predictive inference for regression", JASA 113 (2018).
    """
    index = ((counts + 1).double() * coverage - ROUNDING).ceil().long()
    return torch.minimum(index.clamp(min=1), counts.clamp(min=1))


def fewest_windows(coverage: float) -> int:
    """Return the smallest number of scores that a coverage needs."""
    return max(1, math.ceil(round(coverage / (1 - coverage), 6)))  # 0.8 is not exact in binary


def _most_windows(cells: int) -> int:
    """Return the largest number of windows whose scores are stored, of `cells` scores each."""
    return min(MAX_WINDOWS, max(LEAST_WINDOWS, MAX_SCORES // cells))


def middle(forecast: Tensor) -> Tensor:
    """Return the point forecast (B, h, C) of a forecast (B, h, C) or of quantiles (B, h, C, K): their median."""
    return forecast if forecast.dim() == 3 else forecast[..., forecast.shape[-1] // 2]


@dataclass(frozen=True)
class Calibration:
    """Conformal scores of held-out windows, which turn a forecast into quantiles.

    The score of a point forecast is |future - forecast| / (the spread of the window's look-back, `window_spread`). An
    interval is the forecast plus and minus its spread times the conformal quantile of the scores of its step and
    series. The score of a pair of trained quantiles is their distance to the future, negative within them, over the
    spread; both ends move by its conformal quantile. The median of a quantile forecast is not changed.

    Parameters
    ----------
    scores
        Shape (n, h, C, J), float32, sorted along n for each step, series and pair, NaN last. J is 1 for a
        point forecast, else (K - 1) / 2, the outermost pair first.
    trained
        The K trained levels, rising and symmetric about 0.5; empty for a point forecast.

    Notes
    -----
    The same score for both ends, the spread and its floor were chosen on the validation halves of eleven runs, where
    each half calibrates for the other. One distribution for each end had an interval score up to 5 % higher on loads. A
    constant spread missed the 80 % of electricity prices by 20 points.

    References
    ----------
    Papadopoulos et al., "Inductive confidence machines for regression", ECML 2002, for scores of held-out data, and
    "Normalized nonconformity measures for regression conformal prediction", AIA 2008, for their scale; Romano,
    Patterson and Candès, "Conformalized quantile regression", NeurIPS 2019, arXiv:1905.03222. Corrected levels that
    cross are sorted: Chernozhukov, Fernández-Val and Galichon, "Quantile and probability curves without crossing",
    Econometrica 78 (2010).
    """

    scores: Tensor
    trained: tuple[float, ...] = ()

    @classmethod
    def fit(cls, residuals: Tensor, spread: Tensor, trained: Sequence[float] = ()) -> "Calibration":
        """Return the calibration from residuals (W, h, C, K), z-scores, NaN where not observed, in order of time.

        `spread` (W, 1, C) is the spread of each window. Of many windows some are stored, spread over a season.
        """
        pairs = max(1, residuals.shape[-1] // 2)
        cells = pairs * residuals.shape[1] * residuals.shape[2]
        step = max(1, math.ceil(len(residuals) / _most_windows(cells)))
        kept = thinned_places(len(residuals), step).to(residuals.device)  # the last window is the newest
        values = residuals[kept]
        if trained:
            values = torch.maximum(-values[..., :pairs], values.flip(-1)[..., :pairs])  # low - future, future - high
        return cls((values if trained else values.abs()).div(spread[kept][..., None]).sort(0).values, tuple(trained))

    @classmethod
    def unchanged(cls, levels: Sequence[float], horizon: int, series: int) -> "Calibration":
        """Return a calibration that changes no quantile, for forecasts whose K quantiles are calibrated already.

        `levels` are their K levels, rising and symmetric about 0.5.
        """
        count = max(fewest_windows(coverage_of(level)) for level in levels)
        return cls(torch.zeros(count, horizon, series, max(1, len(levels) // 2)), tuple(levels))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Horizon, number of series and number of pairs."""
        _, *shape = self.scores.shape
        return shape[0], shape[1], shape[2]

    @property
    def count(self) -> int:
        """Number of scores of the step and series with the fewest."""
        return int(self._counts.min()) if len(self.scores) else 0

    def supports(self, level: float) -> bool:
        """Return whether the quantile `level` is within the trained levels and has enough scores."""
        return self.obstacle(level) is None

    def obstacle(self, level: float) -> str | None:
        """Return why the quantile `level` cannot be had, as the end of a sentence; None if it can."""
        if not 0 < level < 1:
            return "must be above 0 and below 1"
        if self.trained and not self.trained[0] - ROUNDING <= level <= self.trained[-1] + ROUNDING:
            return (
                f"is outside the trained quantiles {self.trained[0]:g} to {self.trained[-1]:g}: choose one within "
                "them, or train with more quantiles"
            )
        if self.count < (fewest := fewest_windows(coverage_of(self._nearest(level)))):
            longer = (
                ", or train with a longer validation split" if fewest <= _most_windows(math.prod(self.shape)) else ""
            )
            return (
                f"needs the scores of {fewest:,} held-out windows, the run has {self.count:,}: choose one nearer to "
                f"the median{longer}"
            )
        return None

    def check(self, levels: Sequence[float]) -> None:
        """Raise InputError if one of the quantile `levels` cannot be had."""
        for level in levels:
            if reason := self.obstacle(level):
                raise InputError(f"quantile {level:g} {reason}")

    def check_intervals(self, percents: Sequence[float]) -> None:
        """Raise InputError if a central interval, in per cent, cannot be had."""
        for percent in percents:
            for level in interval_levels(percent):
                if reason := self.obstacle(level):
                    raise InputError(f"levels: the {percent:g} % interval (quantile {level:g}) {reason}")

    def quantiles(self, forecast: Tensor, spread: Tensor, levels: Sequence[float]) -> Tensor:
        """Return the quantiles (B, h, C, Q) of a forecast, in the order of `levels`, on the scale of the forecast.

        Parameters
        ----------
        forecast
            Shape (B, h, C, K); a point forecast (B, h, C) has K = 1.
        spread
            Shape (B, 1, C), in the unit of the forecast.
        levels
            Quantile levels that the calibration supports.
        """
        return torch.stack(self.each_quantile(forecast, spread, levels), -1)

    def each_quantile(self, forecast: Tensor, spread: Tensor, levels: Sequence[float]) -> list[Tensor]:
        """Return the quantiles of `quantiles` one by one, (B, h, C) each, in the order of `levels`."""
        self.check(levels)
        values = forecast[..., None] if forecast.dim() == 3 else forecast  # (B, h, C, K)
        if not self.trained:
            return [self._corrected(values[..., 0], spread, 0, level) for level in levels]
        ordered = self._ordered(values, spread)
        return [self._between(ordered, level) for level in levels]

    def _ordered(self, values: Tensor, spread: Tensor) -> Tensor:
        """Return the corrected quantiles (B, h, C, K) of the trained levels, rising."""
        last = len(self.trained) - 1
        corrected = [
            self._corrected(values[..., place], spread, min(place, last - place), level)
            for place, level in enumerate(self.trained)
        ]
        median = corrected[last // 2]  # the point forecast, which stays
        lower = [torch.minimum(one, median) for one in corrected[: last // 2]]
        upper = [torch.maximum(one, median) for one in corrected[last // 2 + 1 :]]
        parts = [torch.stack(part, -1).sort(-1).values for part in (lower, upper) if part]
        return torch.cat([parts[0], median[..., None], parts[1]], -1) if parts else median[..., None]

    def _between(self, ordered: Tensor, level: float) -> Tensor:
        """Return the quantile `level` (B, h, C), interpolated between the trained levels (B, h, C, K)."""
        upper = next(place for place, trained in enumerate(self.trained) if level <= trained + ROUNDING)
        if abs(level - self.trained[upper]) <= ROUNDING:
            return ordered[..., upper]
        low, high = self.trained[upper - 1], self.trained[upper]
        weight = (level - low) / (high - low)
        below, above = ordered[..., upper - 1], ordered[..., upper]
        return torch.minimum(below + weight * (above - below), above)  # rises with the level despite rounding

    def _corrected(self, values: Tensor, spread: Tensor, pair: int, level: float) -> Tensor:
        """Return values (B, h, C) moved outwards by the conformal quantile of a pair's scores; a median stays."""
        if abs(level - 0.5) <= ROUNDING:
            return values
        return values + (-1 if level < 0.5 else 1) * (spread * self._quantile(pair, coverage_of(level)))

    def _quantile(self, pair: int, coverage: float) -> Tensor:
        """Return the conformal quantile (h, C) of a pair's scores."""
        if (pair, coverage) not in self._found:
            index = ranks(coverage, self._counts[..., pair])
            self._found[pair, coverage] = self.scores[..., pair].gather(0, (index - 1)[None])[0]
        return self._found[pair, coverage]

    @cached_property
    def _found(self) -> dict[tuple[int, float], Tensor]:
        """The quantiles of the scores that have been read."""
        return {}

    @cached_property
    def _counts(self) -> Tensor:
        """Number of scores of each step, series and pair, (h, C, J)."""
        return self.scores.isfinite().sum(0)

    def _nearest(self, level: float) -> float:
        """Return the outermost level whose scores the quantile `level` reads."""
        if not self.trained:
            return level
        outer = [trained for trained in self.trained if (trained <= level if level < 0.5 else trained >= level)]
        return (max(outer) if level < 0.5 else min(outer)) if outer else level

    def tensors(self) -> dict[str, Tensor]:
        """Return the content as named tensors, for a file."""
        return {"scores": self.scores.contiguous(), "trained": torch.tensor(self.trained, dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Calibration":
        """Invert `tensors`; raise ValueError if the content is not a calibration."""
        scores, trained = tensors["scores"], tuple(tensors["trained"].tolist())
        if scores.dim() != 4 or scores.shape[3] != max(1, len(trained) // 2) or scores.dtype != torch.float32:
            raise ValueError("the calibration has another shape")
        if list(trained) != sorted(trained) or not all(0 < level < 1 for level in trained):
            raise ValueError("the trained levels do not rise")
        finite = scores.isfinite()
        rises = (scores.diff(dim=0) >= 0) | ~finite[1:]
        if scores.isinf().any() or not rises.all() or not (finite[:-1] | ~finite[1:]).all():
            raise ValueError("the scores are not sorted")
        return cls(scores, trained)
