"""The linear maps of a run: the ridge baseline, and the start of the model's linear path."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows
from forecast.evaluation.evaluate import evaluate, spread_of
from forecast.evaluation.linear_start import choose_start, cross_validation
from forecast.evaluation.ridge import LinearMap, Ridge, fit_ridge

MAX_SCORED = 400
"""Maximum number of windows of a part that calibrate intervals."""


@dataclass(frozen=True)
class CrossFit:
    """Maps that forecast a part of the training windows like new windows: other windows fitted them.

    `starts` (W,) are the first rows of the windows of the part, `offsets` those of the quantiles of `start`.
    """

    start: LinearMap
    ridge: LinearMap
    starts: Tensor
    offsets: Tensor | None = None

    def to(self, device: torch.device | str) -> "CrossFit":
        """Return the maps on another device."""
        offsets = None if self.offsets is None else self.offsets.to(device)
        return CrossFit(self.start.to(device), self.ridge.to(device), self.starts.to(device), offsets)

    def quantiles(self, batch: Batch) -> Tensor:
        """Return the forecast of `start` (B, h, C), or its quantiles (B, h, C, K) if it has offsets."""
        forecast = self.start(batch)
        if self.offsets is None:
            return forecast
        return forecast[..., None] + spread_of(batch)[..., None] * self.offsets.to(forecast)


@dataclass(frozen=True)
class LinearMaps:
    """The linear maps of a run: the ridge baseline (row *linear* of every result), and the start of the linear path.

    `start` is None if the model has no linear path that starts from a map. `offsets` (h, C, K) are the quantiles of its
    training residuals, relative to the spread of each window; None for a point forecast. `held_out` are the starts that
    were chosen without each block of validation windows, if validation chose the weights of a combination. `cross_fits`
    are there if validation is short.
    """

    baseline: Ridge
    start: LinearMap | None
    offsets: Tensor | None = None
    held_out: tuple[LinearMap, ...] = ()
    cross_fits: tuple[CrossFit, ...] = ()

    def to(self, device: torch.device | str) -> "LinearMaps":
        """Return the maps on another device."""
        start = None if self.start is None else self.start.to(device)
        offsets = None if self.offsets is None else self.offsets.to(device)
        held_out = tuple(one.to(device) for one in self.held_out)
        cross_fits = tuple(one.to(device) for one in self.cross_fits)
        return LinearMaps(self.baseline.to(device), start, offsets, held_out, cross_fits)


def fit_maps(
    train: Windows,
    validation: Windows,
    *,
    starts: bool,
    period: int,
    confidence: float | None,
    batch_size: int,
    quantiles: Sequence[float] = (),
    each_series: bool = False,
    done: Callable[[], None] = lambda: None,
) -> LinearMaps:
    """Fit the baseline and, if a linear path `starts` from a map, choose that map (`choose_start`).

    `quantiles` are the levels whose offsets are fitted too. `each_series` adds a map of each series to the candidates.
    `done` is called after each penalty of a baseline with known inputs.
    """
    ridge = fit_ridge(train, validation, done)
    if not starts:
        return LinearMaps(ridge, None)
    chosen = choose_start(
        ridge,
        train,
        validation,
        period=period,
        confidence=confidence,
        batch_size=batch_size,
        each_series=each_series,
    )

    def offsets(one: LinearMap, windows: Windows) -> Tensor | None:
        return fit_offsets(one, windows, quantiles, batch_size) if quantiles else None

    parts = cross_validation(train, ridge.every) if chosen.cross_fitted else []
    cross_fits = tuple(
        CrossFit(one, own, part.thinned(-(-len(part) // MAX_SCORED)).starts, offsets(one, rest))
        for one, own, (part, rest) in zip(chosen.cross_fitted, chosen.refits, parts, strict=True)
    )
    return LinearMaps(ridge, chosen.map, offsets(chosen.map, train), chosen.held_out, cross_fits)


MAX_WINDOWS = 2000
"""Maximum number of training windows for the offsets of quantiles."""


def fit_offsets(linear_map: LinearMap, train: Windows, levels: Sequence[float], batch_size: int) -> Tensor:
    """Return the quantiles (h, C, K) of a map's residuals on training windows, relative to the spread of each window.

    A step and series without a measured target gets the offset 0.
    """
    scored = evaluate(linear_map, train.thinned(math.ceil(len(train) / MAX_WINDOWS)), batch_size, keep_residuals=True)
    assert scored.residuals is not None
    assert scored.spread is not None
    scaled = torch.from_numpy(scored.residuals[..., 0] / scored.spread)  # (W, h, C)
    offsets = scaled.nanquantile(torch.tensor(levels, dtype=scaled.dtype), dim=0)  # sorts once for all levels
    return offsets.movedim(0, -1).nan_to_num()
