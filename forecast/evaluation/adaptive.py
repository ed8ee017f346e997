"""Adaptive intervals: as wide as the errors of the latest forecasts whose truth is known."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from forecast.evaluation.intervals import Calibration, middle

DECAY, SPAN = 2, 6
"""Horizons after which the weight of a row's error has fallen to 1/e, and after which the row no longer counts."""

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Powers of the relative size of recent errors by which an interval may be scaled; 0: the plain form."""

LEAST, MOST = 0.1, 10.0
"""Limits of the relative size of an error, so that a single outlier does not decide."""

LEAST_OF_SERIES, PRIOR_WINDOWS = 8, 2
"""Windows from which a series of a panel has a size of its own, and windows of size 1 in its geometric mean."""

TINY = 1e-6
"""Least typical error, in spreads: a constant series has none."""


def stretched(forecast: Tensor, scale: Tensor) -> Tensor:
    """Return quantiles (B, h, C, K) with their distances from the median times `scale` (B, 1, C).

    A point forecast (B, h, C) has no distances and does not change.
    """
    if forecast.dim() == 3:
        return forecast
    median = middle(forecast)[..., None]
    return median + scale[..., None] * (forecast - median)


@dataclass(frozen=True)
class Adaptive:
    """Intervals scaled by recent errors.

    The relative error of a row is the mean of |truth - forecast| / (spread × typical error of the step) over all
    forecasts of this row. Its mean over the rows before a forecast, the newest with the largest weight, to the power
    `power`, scales the spread of the window, and the distances of trained quantiles from the median.

    Parameters
    ----------
    typical
        Mean score of the point forecast by step and series, (h, C), float32.
    power
        One of `POWERS`, above 0.
    calibration
        Scores of forecasts that were scaled in this way.
    series
        Relative size of the errors of each series of a panel, (S, 1, C), float32, instead of the size of recent ones;
        1 for a series with fewer than `LEAST_OF_SERIES` windows. None: one series.

    References
    ----------
    Normalized scores: Papadopoulos et al., "Normalized nonconformity measures for regression conformal prediction", AIA
    2008; a scale from the latest errors follows Engle, "Autoregressive conditional heteroscedasticity", Econometrica 50
    (1982). Differs from both in: the scale is a mean of errors at all steps of the horizon.
    """

    typical: Tensor
    power: float
    calibration: Calibration
    series: Tensor | None = None

    def of_series(self, codes: Tensor, recent: Tensor | None = None) -> Tensor:
        """Return the scale of intervals of series at places (B,), (B, 1, C); a negative place is a new series: 1.

        With the size of their `recent` errors (B, 1, C), the size is the geometric mean of both.
        """
        assert self.series is not None
        stored = self.series.to(codes.device)[codes.clamp(min=0)]
        size = torch.where((codes >= 0)[:, None, None], stored, 1.0)
        return self.scale(size if recent is None else (size * recent).sqrt())

    def scale(self, size: Tensor) -> Tensor:
        """Return the scale of intervals after errors of a relative size, both (B, 1, C)."""
        return size**self.power


class RowErrors:
    """Relative errors of the forecasts of each row, and their means over the rows before a forecast.

    Forecasts are added in the order of time. Only rows that still count for the latest are held.

    Parameters
    ----------
    typical
        Shape (h, C): see `Adaptive`.
    """

    def __init__(self, typical: Tensor) -> None:
        self.typical = typical.clamp(min=TINY)
        self.horizon, series = typical.shape
        self.first, self.is_whole = 0, True
        self.total = typical.new_zeros(0, series)
        self.count = torch.zeros_like(self.total)

    def add(self, origin: Tensor, residuals: Tensor, spread: Tensor) -> None:
        """Add truth minus point forecast (B, h, C), NaN where not observed, of windows with a spread (B, 1, C)."""
        self._hold(int(origin.min()) - SPAN * self.horizon, int(origin.max()) + self.horizon)
        relative = (residuals.abs() / spread / self.typical).clamp(max=MOST)
        seen = relative.isfinite()
        rows = (origin[:, None] - self.first + torch.arange(self.horizon, device=origin.device)).flatten()
        self.total.index_add_(0, rows, torch.where(seen, relative, 0).flatten(0, 1).to(self.total.dtype))
        self.count.index_add_(0, rows, seen.flatten(0, 1).to(self.count.dtype))

    def _hold(self, first: int, stop: int) -> None:
        """Hold the rows from `first` to `stop`, and forget those before."""
        if not len(self.total):
            self.first = first
        past = max(0, first - self.first)
        self.is_whole &= not past
        self.first += past
        self.total, self.count = (
            functional.pad(part[past:], (0, 0, 0, max(0, stop - self.first - len(part[past:]))))
            for part in (self.total, self.count)
        )

    def before(self, origin: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean relative error before each origin (B,), shape (B, 1, C), and where it is known.

        It is known if at least one horizon of rows has errors, else it is 1. Only rows before the origin count.
        """
        span = SPAN * self.horizon
        assert self.is_whole or int(origin.min()) - span >= self.first, "rows before these origins are forgotten"
        self._hold(min(self.first, int(origin.min())), int(origin.max()))
        last = origin - self.first
        low, high = max(0, int(last.min()) - span), int(last.max())
        rows = torch.arange(low, high, device=origin.device)
        age = last[:, None] - 1 - rows  # (B, n)
        counts = ((age >= 0) & (age < span)).double()
        weights = counts * (-age.clamp(min=0) / (DECAY * self.horizon)).exp()
        seen = (self.count[low:high] > 0).double()
        mean = self.total[low:high].double() / self.count[low:high].clamp(min=1)
        known = counts @ seen >= self.horizon
        size = torch.where(known, (weights @ mean) / (weights @ seen).clamp(min=TINY), 1.0)
        return size.clamp(LEAST, MOST)[:, None].to(self.total.dtype), known[:, None]


@dataclass(frozen=True)
class Forms:
    """The interval forms of a model: the plain one, and the adaptive one if recent errors say something."""

    plain: Calibration
    adaptive: Adaptive | None = None

    @property
    def default(self) -> Calibration:
        """The calibration of the form that is used where past errors are known."""
        return self.plain if self.adaptive is None else self.adaptive.calibration

    def tensors(self) -> dict[str, Tensor]:
        """Return the content as named tensors, for a file."""
        if self.adaptive is None:
            return self.plain.tensors()
        series = {} if self.adaptive.series is None else {"series_sizes": self.adaptive.series.contiguous()}
        return {
            **self.plain.tensors(),
            **series,
            "adaptive_scores": self.adaptive.calibration.scores.contiguous(),
            "typical": self.adaptive.typical.contiguous(),
            "power": torch.tensor([self.adaptive.power], dtype=torch.float64),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Forms":
        """Invert `tensors`; raise ValueError if the content is not a calibration."""
        plain = Calibration.from_tensors(tensors)
        if "adaptive_scores" not in tensors:
            return cls(plain)
        calibration = Calibration.from_tensors({**tensors, "scores": tensors["adaptive_scores"]})
        typical, power = tensors["typical"], tensors["power"].tolist()
        if typical.shape != plain.shape[:2] or calibration.shape != plain.shape or typical.dtype != torch.float32:
            raise ValueError("the adaptive form has another shape")
        if not (typical.isfinite() & (typical >= 0)).all() or len(power) != 1 or power[0] not in POWERS[1:]:
            raise ValueError("the adaptive form has invalid numbers")
        series = tensors.get("series_sizes")
        if series is not None and not (series.dim() == 3 and ((series >= LEAST) & (series <= MOST)).all()):
            raise ValueError("the sizes of the series are invalid")
        return cls(plain, Adaptive(typical, power[0], calibration, series))
