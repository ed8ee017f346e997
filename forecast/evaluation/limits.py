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

FEWEST_CLOSED = 20
"""Fewest measured training values at a state of a known input, all of them 0, that make it a closed step."""

UPPER = (100.0, 1.0)
"""Upper limits of percentages and fractions."""


@dataclass(frozen=True)
class Limits:
    """Lower and upper limit of each target, (C,), infinite where there is none; `period` is its season in steps.

    `closed` are states of known inputs, as a place in them and a value, at which every target has always been its lower
    limit, 0: a shop on a day that is known to be closed. As z-scores of a panel the limits are those of each of its S
    series, (S, C).
    """

    lower: Tensor
    upper: Tensor
    period: int
    closed: tuple[tuple[int, float], ...] = ()

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

    def within(self, bounds: Sequence[tuple[float | None, float | None]]) -> "Limits":
        """Return the limits with those that a user knows, lower and upper of each target; None: as they were."""
        lower, upper = self.lower.clone(), self.upper.clone()
        for place, pair in enumerate(bounds):
            for limits, limit in zip((lower, upper), pair, strict=True):
                if limit is not None:
                    limits[place] = limit
        return replace(self, lower=lower, upper=upper)

    def scaled(self, mean: np.ndarray, scale: np.ndarray, device: torch.device | str = "cpu") -> "Limits":
        """Return the limits as z-scores, float32, equal to those of values on them.

        `mean` and `scale` have the shape (C,), or (S, C) for each series of a panel.
        """
        low, high = (
            torch.from_numpy(((limit.numpy() - mean) / scale).astype(np.float32)).to(device)
            for limit in (self.lower, self.upper)
        )
        return replace(self, lower=low, upper=high)

    def open(self) -> "Limits":
        """Return the limits without closed steps, for a forecast that reads no known inputs."""
        return replace(self, closed=())

    def at(
        self,
        past: Tensor,
        observed: Tensor | None,
        horizon: int,
        series: Tensor | None = None,
        future_known: Tensor | None = None,
    ) -> "WindowLimits":
        """Return the limits of windows with a look-back (B, T, C); a limit that one crosses does not hold there.

        `series` (B,) are the series of the windows of a panel, and `future_known` (B, h, F) their known inputs.
        """
        seen = torch.ones_like(past, dtype=torch.bool) if observed is None else observed
        low, high = (each if series is None else each[series][:, None] for each in (self.lower, self.upper))
        crossed = (((past < low) & seen).any(1, keepdim=True), ((past > high) & seen).any(1, keepdim=True))
        lower = torch.where(crossed[0], -torch.inf, low.to(past))
        upper = torch.where(crossed[1], torch.inf, high.to(past))
        below, above = (self._share((past == limit) & seen, seen, horizon) for limit in (lower, upper))
        if not self.closed or future_known is None:
            return WindowLimits(lower, upper, below, above)
        states = [future_known[..., place] == value for place, value in self.closed]
        closed = torch.stack(states).any(0)[..., None] & lower.isfinite()  # (B, h, C)
        return WindowLimits(lower.expand_as(closed), torch.where(closed, lower, upper), below, above, closed)

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
        closed = {"closed": [list(state) for state in self.closed]} if self.closed else {}
        return {**finite, "period": self.period, **closed}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], num_targets: int) -> "Limits":
        """Invert `to_dict`; raise ValueError for limits of other targets."""
        lower, upper = (_limits(facts[name], none) for name, none in (("lower", -np.inf), ("upper", np.inf)))
        period = facts["period"]
        fits = len(lower) == len(upper) == num_targets and type(period) is int and period > 0
        if not fits or bool((lower > upper).any()):
            raise ValueError("the limits do not fit the targets")
        closed = tuple((place, float(value)) for place, value in facts.get("closed", []))
        if not all(type(place) is int and place >= 0 for place, _ in closed):
            raise ValueError("the closed steps have no place in the known inputs")
        return cls(lower, upper, period, closed)


def closed_states(
    known: np.ndarray, values: np.ndarray, observed: np.ndarray | None, first: int
) -> tuple[tuple[int, float], ...]:
    """Return the states of known inputs at which every measured target of training is 0, and which are not the rule.

    `known` (N, F) are the known inputs of the training rows, `values` (N, C) the targets in original units; the places
    below `first` are the calendar's. A state is a value of a category, or 0 or 1 of an input that has no others.
    """
    seen = np.isfinite(values) if observed is None else observed
    zero = ((values == 0) | ~seen).all(1)
    rows = seen.any(1)
    if zero.all():
        return ()
    found = []
    for place in range(first, known.shape[1]):
        column = known[:, place]
        states = np.unique(column[:1000])
        if len(states) > MOST_STATES or not (states == states.round()).all():
            continue
        for state in np.unique(column):
            at = (column == state) & rows
            if at.sum() >= FEWEST_CLOSED and zero[at].all():
                found.append((place, float(state)))
    return tuple(found)


MOST_STATES = 64
"""Most values of a known input that are looked at for closed steps."""


def _limits(values: Sequence[float | None], none: float) -> Tensor:
    return torch.tensor([none if value is None else float(value) for value in values], dtype=torch.float64)


@dataclass(frozen=True)
class WindowLimits:
    """Limits (B, 1, C) of windows, and the share (B, h, C) of values on them at the phase of each step.

    With closed steps the limits are (B, h, C), and `closed` of that shape is True there.
    """

    lower: Tensor
    upper: Tensor
    share_lower: Tensor
    share_upper: Tensor
    closed: Tensor | None = None

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
