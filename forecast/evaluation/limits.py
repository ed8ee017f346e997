"""Limits that a series never crosses in training, and the piles of values on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

OFTEN = 0.01
"""Share of training values at exactly 100 (or 1, of fractions) that makes it an upper limit."""

FEWEST = 10
"""Fewest values of a look-back at the same phase of the season that show a pile; else all values count."""

PILE = 0.1
"""Share of values on a limit from which a target on it counts as covered: the level of an end of 80 % intervals."""

UPPER = (100.0, 1.0)
"""Upper limits of percentages and fractions."""


@dataclass(frozen=True)
class Limits:
    """Lower and upper limit of each target, (C,), infinite where there is none; `period` is its season in steps.

    As z-scores of a panel they are those of each of its S series, (S, C).
    """

    lower: Tensor
    upper: Tensor
    period: int

    @classmethod
    def fit(cls, values: np.ndarray, period: int, observed: np.ndarray | None = None) -> "Limits":
        """Return the limits of training rows (N, C), original units; `observed` is False where a value was filled.

        The lower limit is 0 for a series that never falls below it. The upper limit is 100 for a series from 0 to 100
        that reaches 100 often, such as a percentage; 1 likewise for fractions.
        """
        masked = values if observed is None else np.where(observed, values, np.nan)
        lower, upper = np.full(values.shape[1], -np.inf), np.full(values.shape[1], np.inf)
        for place, column in enumerate(masked.T):
            known = column[np.isfinite(column)]
            if not len(known) or known.min() < 0 or known.max() == 0:
                continue
            lower[place] = 0.0
            highest = known.max()
            whole = highest == 1 and bool((known == known.round()).all())  # 0 and 1 may be counts
            if highest in UPPER and not whole and (known == highest).mean() >= OFTEN:
                upper[place] = highest
        return cls(torch.from_numpy(lower), torch.from_numpy(upper), period)

    def scaled(self, mean: np.ndarray, scale: np.ndarray, device: torch.device | str = "cpu") -> "Limits":
        """Return the limits as z-scores, float32, equal to those of values on them.

        `mean` and `scale` have the shape (C,), or (S, C) for each series of a panel.
        """
        low, high = (
            torch.from_numpy(((limit.numpy() - mean) / scale).astype(np.float32)).to(device)
            for limit in (self.lower, self.upper)
        )
        return Limits(low, high, self.period)

    def at(self, past: Tensor, observed: Tensor | None, horizon: int, series: Tensor | None = None) -> "WindowLimits":
        """Return the limits of windows with a look-back (B, T, C); a limit that one crosses does not hold there.

        `series` (B,) are the series of the windows of a panel.
        """
        seen = torch.ones_like(past, dtype=torch.bool) if observed is None else observed
        low, high = (each if series is None else each[series][:, None] for each in (self.lower, self.upper))
        crossed = (((past < low) & seen).any(1, keepdim=True), ((past > high) & seen).any(1, keepdim=True))
        lower = torch.where(crossed[0], -torch.inf, low.to(past))
        upper = torch.where(crossed[1], torch.inf, high.to(past))
        shares = [self._share((past == limit) & seen, seen, horizon) for limit in (lower, upper)]
        return WindowLimits(lower, upper, *shares)

    def _share(self, hit: Tensor, seen: Tensor, horizon: int) -> Tensor:
        """Return the share of the values at the phase of each step that are hits, (B, h, C)."""
        length = hit.shape[1]
        period = self.period if length >= FEWEST * self.period else 1
        whole = slice(length - length // period * period, None)
        hits, counts = (part[:, whole].unflatten(1, (-1, period)).sum(1) for part in (hit, seen))
        step = torch.arange(horizon, device=hit.device) % period
        share: Tensor = hits / counts.clamp(min=1)
        return share[:, step]

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as plain lists, for the manifest; None for no limit."""
        lists = {name: getattr(self, name).tolist() for name in ("lower", "upper")}
        finite = {name: [value if np.isfinite(value) else None for value in row] for name, row in lists.items()}
        return {**finite, "period": self.period}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], num_targets: int) -> "Limits":
        """Invert `to_dict`; raise ValueError for limits of other targets."""
        lower, upper = (_limits(facts[name], none) for name, none in (("lower", -np.inf), ("upper", np.inf)))
        period = facts["period"]
        fits = len(lower) == len(upper) == num_targets and type(period) is int and period > 0
        if not fits or bool((lower > upper).any()):
            raise ValueError("the limits do not fit the targets")
        return cls(lower, upper, period)


def _limits(values: Sequence[float | None], none: float) -> Tensor:
    return torch.tensor([none if value is None else float(value) for value in values], dtype=torch.float64)


@dataclass(frozen=True)
class WindowLimits:
    """Limits (B, 1, C) of windows, and the share (B, h, C) of values on them at the phase of each step."""

    lower: Tensor
    upper: Tensor
    share_lower: Tensor
    share_upper: Tensor

    def clip(self, forecast: Tensor) -> Tensor:
        """Return a forecast (B, h, C) or (B, h, C, K) within the limits."""
        low, high = (self.lower, self.upper) if forecast.dim() == 3 else (self.lower[..., None], self.upper[..., None])
        return torch.minimum(torch.maximum(forecast, low.to(forecast)), high.to(forecast))

    def end(self, quantile: Tensor, level: float) -> Tensor:
        """Return the quantile `level` (B, h, C) within the limits, and on one where at least its share of values is."""
        clipped = self.clip(quantile)
        if level < 0.5:
            return torch.where(self.share_lower >= level, self.lower.to(clipped), clipped)
        if level > 0.5:
            return torch.where(self.share_upper >= 1 - level, self.upper.to(clipped), clipped)
        return clipped

    def near(self, point: Tensor, spread: Tensor) -> "WindowLimits":
        """Return the limits with the shares of those within a spread (B, 1, C) of the point forecast (B, h, C) alone.

        A storage that is half full is not full within the horizon because it was full last week.
        """
        lower, upper = (
            torch.where((point - limit.to(point)).abs() <= spread, share, 0)
            for limit, share in ((self.lower, self.share_lower), (self.upper, self.share_upper))
        )
        return replace(self, share_lower=lower, share_upper=upper)

    def held(self, future: Tensor) -> Tensor:
        """Return which targets (B, h, C) lie on a limit that the interval reaches, so that they are covered."""
        low = (future == self.lower.to(future)) & (self.share_lower >= PILE)
        return low | ((future == self.upper.to(future)) & (self.share_upper >= PILE))
