"""Evaluation of a forecaster on every window of a split, the same for models and baselines."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from forecast.common.group import ALONE, Group
from forecast.common.timing import UNKNOWN, Load, Reading, load_since, read_load
from forecast.data.calendar import CalendarPart, calendar_part
from forecast.data.windows import Batch, Windows, thinned_places
from forecast.evaluation.adaptive import SPAN, Adaptive, RowErrors, stretched
from forecast.evaluation.interval_scores import IntervalScores, IntervalSums
from forecast.evaluation.intervals import Calibration, middle
from forecast.evaluation.limits import Limits, WindowLimits
from forecast.evaluation.metrics import ErrorSums, RelativeSums, Scores, Units, windows_at_once
from forecast.evaluation.series_scores import SeriesSums, scored_quantiles
from forecast.model.normalization import window_spread

if TYPE_CHECKING:
    from forecast.data.datamodule import ForecastData

Forecaster = Callable[[Batch], Tensor]

MAX_RESIDUALS = 2**25
"""Maximum number of residuals kept for each quantile (128 MiB); a split with more keeps one of every k windows."""

_OF_WINDOWS = ("origin", "mse", "mae", "residuals", "spread", "held")
"""Fields of an evaluation with a row for each window."""

LEAST_KEPT = 20
"""Windows that `MAX_RESIDUALS` leaves, if the split has as many: enough for intervals of 95 %."""


@dataclass(frozen=True)
class Evaluation:
    """The result of a pass over a split.

    If several processes share the windows, each has the sums over all windows; only the leading process has the rest.

    Parameters
    ----------
    sums, relative
        Sums and counts by step and series. `relative` is None unless units were given.
    origin, mse, mae
        Shape (W,): each window's first target row and its own scores on z-scores.
    residuals
        Shape (W', h, C, K), future minus forecast as z-scores, NaN where not observed; None unless requested. K is 1,
        or the number of quantiles that the model forecasts.
    spread
        Shape (W', 1, C), the spread of the windows of `residuals`, z-scores.
    held
        Shape (W', h, C), targets of these windows on a limit that their intervals reach.
    windows_per_s
        Throughput without the first batch. A single batch is forecast twice if it is `timed`, and the second time
        counts; NaN otherwise.
    load
        Processor time and other processes during the timed batches; unknown if several processes share the windows.
    intervals
        Sums of the losses of calibrated quantiles; None unless a calibration was given.
    by_id
        Sums of each series of a panel; None for another table, or unless units were given.
    """

    sums: ErrorSums
    origin: np.ndarray
    mse: np.ndarray
    mae: np.ndarray
    residuals: np.ndarray | None
    windows_per_s: float
    relative: RelativeSums | None = None
    load: Load = UNKNOWN
    spread: np.ndarray | None = None
    held: np.ndarray | None = None
    intervals: IntervalSums | None = None
    by_id: SeriesSums | None = None

    def original(self, scale: np.ndarray) -> Scores:
        """Return the scores in original units and, if units were given, the relative scores."""
        if self.by_id is not None:
            scores = self.by_id.pooled()
            return {name: value for name, value in scores.items() if name not in ("sql", "wql")}
        return self.sums.original(scale) | ({} if self.relative is None else self.relative.scores(self.sums))

    def by_step(self, scale: np.ndarray) -> list[IntervalScores]:
        """Return all scores of each horizon step, in order."""
        rows = self.sums.by_step(None if self.by_id is not None else scale)
        more: list[Scores] = [{}] * len(rows) if self.relative is None else self.relative.by_step(self.sums)
        intervals = [{}] * len(rows) if self.intervals is None else self.intervals.by_step(*self._units())
        return [{**row, **other, **scores} for row, other, scores in zip(rows, more, intervals, strict=True)]

    def by_series(self, names: list[str], scale: np.ndarray) -> dict[str, IntervalScores]:
        """Return all scores of each series."""
        rows = self.sums.by_series(names, scale)
        more: list[Scores] = [{}] * len(rows) if self.relative is None else self.relative.by_series(self.sums)
        intervals = [{}] * len(rows) if self.intervals is None else self.intervals.by_series(*self._units())
        return {
            name: {**row, **other, **scores}
            for (name, row), other, scores in zip(rows.items(), more, intervals, strict=True)
        }

    def interval_scores(self) -> dict[str, Any] | None:
        """Return the scores of intervals, and the share of targets at or below each quantile; None if not scored."""
        if self.intervals is None or (self.relative is None and self.by_id is None):
            return None
        scores: dict[str, Any] = {**self.intervals.scores(*self._units())}
        if self.by_id is not None:
            pooled = self.by_id.pooled()
            scores |= {name: None if math.isnan(pooled[name]) else pooled[name] for name in ("sql", "wql")}
        return {**scores, "reliability": self.intervals.reliability()}

    def _units(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scale and seasonal error of each series, (C,), and the mean of |target|, (h, C), original units.

        A panel has none for all its series: NaN.
        """
        if self.by_id is not None:
            horizon, targets = self.sums.count.shape
            none = np.full(targets, np.nan)
            return none, none, np.full((horizon, targets), np.nan)
        assert self.relative is not None
        units = self.relative.units
        season = np.where(units.seasonal_error > units.least, units.seasonal_error, np.nan)
        level = (self.relative.level / self.sums.count).cpu().numpy()
        return units.scale, season, level


def evaluate(
    forecaster: Forecaster,
    windows: Windows,
    batch_size: int,
    *,
    keep_residuals: bool = False,
    group: Group = ALONE,
    units: Units | None = None,
    calibration: Calibration | None = None,
    adaptive: Adaptive | None = None,
    before: Windows | None = None,
    limits: Limits | None = None,
    timed: bool = False,
) -> Evaluation:
    """Score `forecaster` on every window; it maps a batch to its forecast (B, h, C_out), or quantiles (B, h, C_out, K).

    Every process of `group` must make this call and takes a share of the windows. `units` adds the relative scores, and
    `calibration` those of intervals. With `adaptive` these are adaptive; the errors before the first window are those
    of the windows `before`. Forecasts and intervals stay within `limits`, which are z-scores.
    """
    share = group.share(len(windows))
    past = None
    if adaptive is not None and len(share):
        past = _past_errors(forecaster, windows, batch_size, share, adaptive, before, limits)
    ours = _evaluate_share(
        forecaster, windows, batch_size, share, keep_residuals, units, calibration, past, limits, timed
    )
    whole = ours if group.size == 1 else _gather(ours, group)
    if group.leads:
        assert len(whole.origin) == len(windows), f"{len(whole.origin)} of {len(windows)} windows were scored"
    return whole


@torch.inference_mode()
def _evaluate_share(
    forecaster: Forecaster,
    windows: Windows,
    batch_size: int,
    share: range,
    keep_residuals: bool,
    units: Units | None,
    calibration: Calibration | None,
    past: "Past | None",
    limits: Limits | None,
    timed: bool,
) -> Evaluation:
    device = windows.device
    sums = ErrorSums.zeros(windows.horizon, windows.num_targets, device)
    relative, by_id = _sums_in_units(units, windows)
    calibration = calibration if past is None else past.adaptive.calibration
    intervals = None if calibration is None else IntervalSums.zeros(calibration, device)
    kept = _Kept(windows) if keep_residuals else None
    scores = [(torch.empty(0, dtype=torch.int64), *torch.empty(2, 0, dtype=torch.float64))]
    seen, timer = share.start, _Timer(only=timed and len(share) <= batch_size)
    for batch in windows.batches(batch_size, share):
        for part, raw in in_parts(batch, timer.forecast(forecaster, batch)):
            own = None if limits is None else limits_of(limits, part)
            forecast = raw if own is None else own.clip(raw)
            point = middle(forecast)
            mse, mae = sums.update(point, part.future, part.future_observed)
            if relative is not None:
                relative.update(point, part.future, part.future_observed)
            scores.append((part.origin.cpu(), mse.cpu(), mae.cpu()))
            quantiles: list[Tensor] | None = None
            if kept is not None or intervals is not None:
                spread = spread_of(part)
                own = None if own is None else own.near(point, spread)
                if intervals is not None:
                    scaled = (forecast, spread) if past is None else past.scaled(part, forecast, spread)
                    intervals.update(*scaled, part.future, part.future_observed, own)
                    quantiles = None if by_id is None else scored_quantiles(intervals.calibration, *scaled, own)
                if kept is not None:
                    kept.add(seen, part, forecast, spread, own)
            if by_id is not None and part.series is not None:
                by_id.update(part.series, point, part.future, part.future_observed, quantiles)
            seen += len(forecast)
        del part  # a view that would keep the whole batch during the next forecast
    assert seen == share.stop, f"{seen - share.start} of {len(share)} windows were scored"
    origin, window_mse, window_mae = (torch.cat(column).numpy() for column in zip(*scores, strict=True))
    residuals, spreads, held = (None, None, None) if kept is None else _joined(kept.parts, windows)
    return Evaluation(
        sums=sums,
        origin=origin,
        mse=window_mse,
        mae=window_mae,
        residuals=residuals,
        spread=spreads,
        held=held,
        intervals=intervals,
        windows_per_s=timer.windows / timer.seconds if timer.seconds else float("nan"),
        relative=relative,
        load=UNKNOWN if timer.load_from is None else load_since(timer.load_from),
        by_id=by_id,
    )


def _sums_in_units(units: Units | None, windows: Windows) -> tuple[RelativeSums | None, SeriesSums | None]:
    """Return empty sums in original units: of one table, or of the series of a panel; None without units."""
    if units is None:
        return None, None
    if windows.panel is not None:
        return None, SeriesSums.zeros(units, windows.device)
    return RelativeSums.zeros(units, windows.horizon, windows.device), None


class _Kept:
    """Residuals, spreads and held targets of the windows whose residuals are kept, in `parts`."""

    def __init__(self, windows: Windows) -> None:
        self.mask = torch.zeros(len(windows), dtype=torch.bool)
        self.mask[residual_places(len(windows), windows.horizon, windows.num_targets)] = True
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, first: int, batch: Batch, forecast: Tensor, spread: Tensor, limits: WindowLimits | None) -> None:
        """Add a batch whose first window is at the position `first`."""
        kept = self.mask[first : first + len(forecast)].nonzero()[:, 0].to(forecast.device)
        held = torch.zeros_like(batch.future, dtype=torch.bool) if limits is None else limits.held(batch.future)
        closed = None if limits is None else limits.closed
        self.parts.append((_residuals(batch, forecast, kept, closed).cpu(), spread[kept].cpu(), held[kept].cpu()))


@dataclass(frozen=True)
class Past:
    """An adaptive form, and the errors of the windows that were forecast so far."""

    adaptive: Adaptive
    errors: RowErrors

    def add(self, batch: Batch, forecast: Tensor, spread: Tensor) -> None:
        """Add the errors of a batch."""
        residuals = batch.future - middle(forecast)
        if batch.future_observed is not None:
            residuals = torch.where(batch.future_observed, residuals, torch.nan)
        self.errors.add(batch.origin, residuals, spread)

    def scaled(self, batch: Batch, forecast: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Add the errors of a batch; return its forecast and spread, scaled by the errors before each window.

        In a panel each series has its own scale.
        """
        if self.adaptive.series is not None and batch.series is not None:
            scale = self.adaptive.of_series(batch.series)
        else:
            self.add(batch, forecast, spread)
            scale = self.adaptive.scale(self.errors.before(batch.origin)[0])
        return stretched(forecast, scale), spread * scale


@torch.inference_mode()
def _past_errors(
    forecaster: Forecaster,
    windows: Windows,
    batch_size: int,
    share: range,
    adaptive: Adaptive,
    before: Windows | None,
    limits: Limits | None,
) -> Past:
    """Return the errors of the forecasts before a share of the windows."""
    starts = windows.starts if before is None else torch.cat([before.starts, windows.starts])
    first = int(windows.starts[share.start])
    reach = (SPAN + 1) * windows.horizon
    earlier = replace(windows, starts=starts[(starts >= first - reach) & (starts < first)])
    past = Past(adaptive, RowErrors(adaptive.typical.to(windows.device)))
    if adaptive.series is not None:
        return past
    for batch in earlier.batches(batch_size):
        forecast = forecaster(batch)
        past.add(batch, forecast if limits is None else limits_of(limits, batch).clip(forecast), spread_of(batch))
    return past


def in_parts(batch: Batch, forecast: Tensor) -> Iterator[tuple[Batch, Tensor]]:
    """Yield a batch and its forecast, (B, h, C) or (B, h, C, K), in parts that are scored together."""
    size = windows_at_once(batch.future)
    for start in range(0, len(forecast), size):
        part = slice(start, start + size)
        yield Batch._make(None if field is None else field[part] for field in batch), forecast[part]


def spread_of(batch: Batch) -> Tensor:
    """Return the spread of each target's look-back, shape (B, 1, C_out), z-scores."""
    series = batch.future.shape[2]
    observed = None if batch.past_observed is None else batch.past_observed[..., :series]
    return window_spread(batch.past[..., :series], observed)


def _residuals(batch: Batch, forecast: Tensor, kept: Tensor, closed: Tensor | None) -> Tensor:
    """Return future minus forecast of the windows `kept`, shape (B', h, C_out, K), NaN where not observed or closed."""
    quantiles = forecast[..., None] if forecast.dim() == 3 else forecast
    residuals = batch.future[kept][..., None] - quantiles[kept]
    if batch.future_observed is not None:
        residuals = torch.where(batch.future_observed[kept][..., None], residuals, torch.nan)
    return residuals if closed is None else torch.where(closed[kept][..., None], torch.nan, residuals)


def _joined(
    residuals: list[tuple[Tensor, Tensor, Tensor]], windows: Windows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return residuals (W', h, C, K), spreads (W', 1, C) and held targets (W', h, C) of all batches."""
    if not residuals:
        shape = windows.horizon, windows.num_targets
        spread = np.empty((0, 1, windows.num_targets), np.float32)
        return np.empty((0, *shape, 1), np.float32), spread, np.empty((0, *shape), bool)
    kept, spreads, held = (torch.cat(column).numpy() for column in zip(*residuals, strict=True))
    return kept, spreads, held


def limits_of(limits: Limits, batch: Batch) -> WindowLimits:
    """Return the limits of the targets of a batch."""
    series, horizon = batch.future.shape[2], batch.future.shape[1]
    observed = None if batch.past_observed is None else batch.past_observed[..., :series]
    return limits.at(batch.past[..., :series], observed, horizon, batch.series, batch.future_known)


class _Timer:
    """Timer of forecasts, without loading their batches.

    The first batch is left out. An `only` batch is forecast twice, and the second time counts.
    """

    def __init__(self, *, only: bool) -> None:
        self.only, self.warm = only, False
        self.windows, self.seconds = 0, 0.0
        self.load_from: Reading | None = None

    def forecast(self, forecaster: Forecaster, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out) of a batch."""
        if self.only:
            forecaster(batch)
            self.warm = True
        if self.warm and self.load_from is None:
            self.load_from = read_load()
        _wait_for(batch.past.device)
        started = time.perf_counter()
        forecast = forecaster(batch)
        _wait_for(forecast.device)
        if self.warm:
            self.windows, self.seconds = self.windows + len(forecast), self.seconds + time.perf_counter() - started
        self.warm = True
        return forecast


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def residual_places(windows: int, horizon: int, num_targets: int) -> Tensor:
    """Return the places of the windows whose residuals are kept, rising."""
    most = max(1, windows // LEAST_KEPT)
    every = min(most, max(1, -(-windows * horizon * num_targets // MAX_RESIDUALS)))
    return thinned_places(windows, every)


def _gather(ours: Evaluation, group: Group) -> Evaluation:
    """Combine the evaluations of all processes' windows, in order of time."""
    sums = {name: getattr(ours, name) for name in ("sums", "relative", "intervals", "by_id")}
    sums = {name: part.over(group) for name, part in sums.items() if part is not None}
    whole = replace(ours, **sums, load=UNKNOWN)
    columns = [name for name in _OF_WINDOWS if getattr(ours, name) is not None]
    shares = group.collect(([getattr(ours, name) for name in columns], ours.windows_per_s))
    if shares is None:
        return whole
    parts, rates = zip(*shares, strict=True)
    joined = zip(columns, zip(*parts, strict=True), strict=True)
    own: dict[str, Any] = {name: _concatenated(column) for name, column in joined}
    return replace(whole, **own, windows_per_s=sum(rates))


@dataclass(frozen=True)
class Row:
    """One forecaster's evaluations on the validation and test splits, and the calibration of its intervals.

    `adaptive` is the form of the scored intervals; None: the plain one. `calibrated_by` is a key of
    `forecast.evaluation.holdout.METHODS`; `calibration_windows` is the number of windows whose residuals calibrate, and
    `training_windows` of training windows beside them. `more` is added to the scores.
    """

    validation: Evaluation
    test: Evaluation
    calibration: Calibration | None = None
    adaptive: Adaptive | None = None
    calibrated_by: str = ""
    calibration_windows: int = 0
    training_windows: int = 0
    more: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def splits(self) -> dict[str, Evaluation]:
        """The evaluation of each split."""
        return {"validation": self.validation, "test": self.test}

    def scores(self, scale: np.ndarray) -> dict[str, dict[str, Any]]:
        """Return the scores of both splits, on z-scores, in original units, and of intervals if they were scored."""
        scores: dict[str, dict[str, Any]] = {}
        for split, evaluation in self.splits.items():
            scores[split] = {"scaled": evaluation.sums.scaled(), "original": evaluation.original(scale)}
            if (intervals := evaluation.interval_scores()) is not None:
                scores[split]["intervals"] = intervals
        for key, values in self.more.items():
            scores.setdefault(key, {}).update(values)
        return scores


def _concatenated(shares: Sequence[np.ndarray]) -> np.ndarray:
    """Return the shares of all processes; a share without windows does not know the number of quantiles."""
    return np.concatenate([share for share in shares if len(share)] or shares[:1])


@dataclass(frozen=True)
class PartErrors:
    """MAE and mean of truth minus forecast by calendar part, (P,), original units; NaN if nothing was scored."""

    series: str
    part: CalendarPart
    mae: np.ndarray
    bias: np.ndarray


def errors_by_part(evaluation: Evaluation, data: "ForecastData") -> PartErrors | None:
    """Return the errors of the first target by the calendar part of each forecast step, over windows with residuals.

    None for steps of a year or longer.
    """
    part = calendar_part(data.source.series.frequency)
    if part is None or evaluation.by_id is not None:  # errors of many series have no common unit
        return None
    assert evaluation.residuals is not None
    _, horizon, series, quantiles = evaluation.residuals.shape
    residuals = evaluation.residuals[:, :, 0, quantiles // 2]  # (W', h), z-scores
    origin = evaluation.origin[residual_places(len(evaluation.origin), horizon, series).numpy()]
    numbers = np.asarray(part.numbers(data.index))
    size = len(part.labels)
    absolute, signed, count = np.zeros(size), np.zeros(size), np.zeros(size)
    for step, column in enumerate(residuals.T):
        scored = np.isfinite(column)
        at, values = numbers[origin[scored] + step], column[scored].astype(np.float64)
        absolute += np.bincount(at, np.abs(values), size)
        signed += np.bincount(at, values, size)
        count += np.bincount(at, minlength=size)
    scale = data.target_scale[0] / np.where(count > 0, count, np.nan)
    return PartErrors(data.source.targets[0], part, absolute * scale, signed * scale)
