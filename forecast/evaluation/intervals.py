"""Conformal prediction intervals: calibration on held-out windows, and the quantiles of a forecast."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.common.errors import InputError

MAX_WINDOWS = 1000
"""Maximum number of windows whose residuals are stored: neighbours share most of their targets."""

MAX_RESIDUALS = 2**22
"""Maximum number of stored residuals (16 MiB), which lowers the number of windows for wide tables."""

ROUNDING = 1e-9
"""Tolerance of a rank or level that is a whole number up to the rounding of decimal fractions."""


def interval_levels(percent: float) -> tuple[float, float]:
    """Return the quantile levels of the two ends of a central interval, such as 0.1 and 0.9 for 80 per cent."""
    outside = round(0.5 - percent / 200, 12)
    return outside, 1 - outside


def rank(level: float, count: int) -> int:
    """Return the conformal rank, from 1, of a quantile level among `count` sorted residuals; 0 if there are too few.

    Below the median it rounds down, above it up, so that an interval of exchangeable residuals covers at least its
    level.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005; Lei et al., "Distribution-free
    predictive inference for regression", JASA 113 (2018).
    """
    exact = (count + 1) * level
    place = math.floor(exact + ROUNDING) if level < 0.5 else math.ceil(exact - ROUNDING)
    return place if 1 <= place <= count else 0


def fewest_windows(level: float) -> int:
    """Return the smallest number of residuals that a quantile level needs."""
    return max(1, math.ceil(1 / min(level, 1 - level) - 1 - ROUNDING))


def middle(forecast: Tensor) -> Tensor:
    """Return the point forecast (B, h, C) of a forecast (B, h, C) or of quantiles (B, h, C, K): their median."""
    return forecast if forecast.dim() == 3 else forecast[..., forecast.shape[-1] // 2]


@dataclass(frozen=True)
class Calibration:
    """Scaled residuals of held-out windows, which turn a forecast into quantiles.

    A scaled residual is future minus forecast, divided by the window's spread (`window_spread`). Quantile q of a point
    forecast is forecast + spread x (conformal quantile q of the residuals of its step and series). A quantile forecast
    is corrected in the same way: level q by quantile q of its own residuals.

    Parameters
    ----------
    residuals
        Shape (n, h, C, K), float32, sorted along n for each step, series and trained level, NaN last. K is 1 for a
        point forecast.
    trained
        The K trained levels, rising; empty for a point forecast.

    References
    ----------
    Papadopoulos et al., "Inductive confidence machines for regression", ECML 2002, for residuals of held-out data, and
    "Normalized nonconformity measures for regression conformal prediction", AIA 2008, for their scale; Romano,
    Patterson and Candès, "Conformalized quantile regression", NeurIPS 2019, arXiv:1905.03222, here for each level
    (its Theorem 2). Corrected levels that cross are sorted: Chernozhukov, Fernández-Val and Galichon, "Quantile and
    probability curves without crossing", Econometrica 78 (2010).
    """

    residuals: Tensor
    trained: tuple[float, ...] = ()

    @classmethod
    def fit(cls, residuals: Tensor, spread: Tensor, trained: Sequence[float] = ()) -> "Calibration":
        """Return the calibration from residuals (W, h, C, K), z-scores, NaN where not observed, in order of time.

        `spread` (W, 1, C) is the spread of each window. Of many windows, evenly spaced ones are stored.
        """
        cells = residuals[0].numel() if len(residuals) else 1
        step = max(1, math.ceil(len(residuals) / max(1, min(MAX_WINDOWS, MAX_RESIDUALS // cells))))
        offset = (len(residuals) - 1) % step  # the last window is the newest
        scaled = residuals[offset::step] / spread[offset::step, ..., None]
        return cls(scaled.sort(0).values, tuple(trained))  # NaN sorts last

    @property
    def shape(self) -> tuple[int, int, int]:
        """Horizon, number of series and number of trained levels."""
        _, *shape = self.residuals.shape
        return shape[0], shape[1], shape[2]

    @property
    def count(self) -> int:
        """Number of residuals of the step and series with the fewest."""
        if not len(self.residuals):
            return 0
        return int(self.residuals.isfinite().sum(0).min())

    def supports(self, level: float) -> bool:
        """Return whether the quantile `level` is within the trained levels and has enough residuals."""
        return self.obstacle(level) is None

    def obstacle(self, level: float) -> str | None:
        """Return why the quantile `level` cannot be had; None if it can."""
        if not 0 < level < 1:
            return f"level {level:g} must be above 0 and below 1"
        if self.trained and not self.trained[0] - ROUNDING <= level <= self.trained[-1] + ROUNDING:
            return (
                f"level {level:g} is outside the trained quantiles {self.trained[0]:g} to {self.trained[-1]:g}: ask "
                "for a level within them, or train with more quantiles"
            )
        if self.count < (fewest := fewest_windows(self._nearest(level))):
            return (
                f"level {level:g} needs residuals of {fewest} held-out windows, the run has {self.count}: ask for a "
                "level nearer to the median, or train with a longer validation split"
            )
        return None

    def check(self, levels: Sequence[float], name: str = "levels") -> None:
        """Raise InputError if one of the quantile `levels` cannot be had."""
        for level in levels:
            if reason := self.obstacle(level):
                raise InputError(f"{name}: {reason}")

    def quantiles(
        self, forecast: Tensor, spread: Tensor, levels: Sequence[float], shift: Tensor | None = None
    ) -> Tensor:
        """Return the quantiles (B, h, C, Q) of a forecast, in the order of `levels`, on the scale of the forecast.

        Parameters
        ----------
        forecast
            Shape (B, h, C, K); a point forecast (B, h, C) has K = 1.
        spread
            Shape (B, 1, C), in the unit of the forecast.
        levels
            Quantile levels that the calibration supports.
        shift
            Shape (h, C, Q): added to the probability at which each residual quantile is read, for adaptive intervals;
            the result is limited to the smallest and largest residual. None: 0.
        """
        self.check(levels)
        values = forecast[..., None] if forecast.dim() == 3 else forecast  # (B, h, C, K)
        if not self.trained:
            corrections = [self._correction(0, level, _part(shift, place)) for place, level in enumerate(levels)]
            return torch.stack([values[..., 0] + spread * correction for correction in corrections], -1)
        return torch.stack(
            [self._between(values, spread, level, _part(shift, place)) for place, level in enumerate(levels)], -1
        )

    def _between(self, values: Tensor, spread: Tensor, level: float, shift: Tensor | None) -> Tensor:
        """Return the quantile of a level between two trained ones, (B, h, C), from all corrected trained levels."""
        corrected = [
            values[..., place] + spread * self._correction(place, trained, shift)
            for place, trained in enumerate(self.trained)
        ]
        ordered = torch.stack(corrected, -1).sort(-1).values
        upper = next(place for place, trained in enumerate(self.trained) if level <= trained + ROUNDING)
        if abs(level - self.trained[upper]) <= ROUNDING:
            return ordered[..., upper]
        low, high = self.trained[upper - 1], self.trained[upper]
        weight = (level - low) / (high - low)
        return (1 - weight) * ordered[..., upper - 1] + weight * ordered[..., upper]

    def _correction(self, place: int, level: float, shift: Tensor | None) -> Tensor:
        """Return the conformal quantile (h, C) of the residuals of a trained level."""
        residuals, counts = self.residuals[..., place], self._counts[..., place]
        if shift is None:
            ranks = torch.tensor([max(1, rank(level, count)) for count in range(int(counts.max()) + 1)])
            index = ranks[counts]
        else:
            exact = (counts + 1) * (level + shift.double())
            index = (exact + ROUNDING).floor() if level < 0.5 else (exact - ROUNDING).ceil()
            index = torch.minimum(index.clamp(min=1), counts).long()
        return residuals.gather(0, (index.clamp(min=1) - 1)[None])[0]

    @property
    def _counts(self) -> Tensor:
        """Number of residuals of each step, series and trained level, (h, C, K)."""
        return self.residuals.isfinite().sum(0)

    def _nearest(self, level: float) -> float:
        """Return the outermost level whose residuals the quantile `level` reads."""
        if not self.trained:
            return level
        outer = [trained for trained in self.trained if (trained <= level if level < 0.5 else trained >= level)]
        return (max(outer) if level < 0.5 else min(outer)) if outer else level

    def tensors(self) -> dict[str, Tensor]:
        """Return the content as named tensors, for a file."""
        return {"residuals": self.residuals.contiguous(), "trained": torch.tensor(self.trained, dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Calibration":
        """Invert `tensors`; raise ValueError if the content is not a calibration."""
        residuals, trained = tensors["residuals"], tuple(tensors["trained"].tolist())
        if residuals.dim() != 4 or residuals.shape[3] != max(1, len(trained)) or residuals.dtype != torch.float32:
            raise ValueError("the calibration has another shape")
        if list(trained) != sorted(trained) or not all(0 < level < 1 for level in trained):
            raise ValueError("the trained levels do not rise")
        finite = residuals.isfinite()
        rises = (residuals.diff(dim=0) >= 0) | ~finite[1:]
        if residuals.isinf().any() or not rises.all() or not (finite[:-1] | ~finite[1:]).all():
            raise ValueError("the residuals are not sorted")
        return cls(residuals, trained)


def _part(shift: Tensor | None, place: int) -> Tensor | None:
    return None if shift is None else shift[..., place]
