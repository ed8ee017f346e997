"""Evaluation of a forecaster on every window of a split, the same for models and baselines."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from forecast.common.group import ALONE, Group
from forecast.common.timing import UNKNOWN, Load, Reading, load_since, read_load
from forecast.data.calendar import CalendarPart, calendar_part
from forecast.data.windows import Batch, Windows
from forecast.evaluation.metrics import ErrorSums, RelativeSums, Scores, Units

if TYPE_CHECKING:
    from forecast.data.datamodule import ForecastData

Forecaster = Callable[[Batch], Tensor]

MAX_RESIDUALS = 2**25
"""Maximum number of residuals kept for quantiles (128 MiB); a split with more keeps every k-th window."""


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
        Shape (W', h, C), future minus forecast as z-scores, NaN where not observed; None unless requested.
    windows_per_s
        Throughput without the first batch. A single batch is forecast twice, and the second time counts.
    load
        Processor time and other processes during the timed batches; unknown if several processes share the windows.
    """

    sums: ErrorSums
    origin: np.ndarray
    mse: np.ndarray
    mae: np.ndarray
    residuals: np.ndarray | None
    windows_per_s: float
    relative: RelativeSums | None = None
    load: Load = UNKNOWN

    def original(self, scale: np.ndarray) -> Scores:
        """Return the scores in original units and, if units were given, the relative scores."""
        return self.sums.original(scale) | ({} if self.relative is None else self.relative.scores(self.sums))

    def by_step(self, scale: np.ndarray) -> list[Scores]:
        """Return all scores of each horizon step, in order."""
        rows = self.sums.by_step(scale)
        more: list[Scores] = [{}] * len(rows) if self.relative is None else self.relative.by_step(self.sums)
        return [row | other for row, other in zip(rows, more, strict=True)]

    def by_series(self, names: list[str], scale: np.ndarray) -> dict[str, Scores]:
        """Return all scores of each series."""
        rows = self.sums.by_series(names, scale)
        more: list[Scores] = [{}] * len(rows) if self.relative is None else self.relative.by_series(self.sums)
        return {name: row | other for (name, row), other in zip(rows.items(), more, strict=True)}


def evaluate(
    forecaster: Forecaster,
    windows: Windows,
    batch_size: int,
    *,
    keep_residuals: bool = False,
    group: Group = ALONE,
    units: Units | None = None,
) -> Evaluation:
    """Score `forecaster` on every window; it maps a batch to its forecast (B, h, C_out).

    Every process of `group` must make this call and takes a share of the windows. `units` adds the relative scores.
    """
    ours = _evaluate_share(forecaster, windows, batch_size, group.share(len(windows)), keep_residuals, units)
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
) -> Evaluation:
    device = windows.device
    sums = ErrorSums.zeros(windows.horizon, windows.num_targets, device)
    relative = None if units is None else RelativeSums.zeros(units, windows.horizon, device)
    step = residual_step(len(windows), windows.horizon, windows.num_targets)
    none, no_scores = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64)
    scores: list[tuple[Tensor, Tensor, Tensor]] = [(none, no_scores, no_scores)]
    residuals: list[Tensor] = [torch.empty(0, windows.horizon, windows.num_targets)]
    seen, timer = share.start, _Timer(only=len(share) <= batch_size)
    for batch in windows.batches(batch_size, share):
        forecast = timer.forecast(forecaster, batch)
        mse, mae = sums.update(forecast, batch.future, batch.future_observed)
        if relative is not None:
            relative.update(forecast, batch.future, batch.future_observed)
        scores.append((batch.origin.cpu(), mse.cpu(), mae.cpu()))
        if keep_residuals:
            residuals.append(_residuals(batch, forecast)[(-seen) % step :: step].cpu())
        seen += len(forecast)
    assert seen == share.stop, f"{seen - share.start} of {len(share)} windows were scored"
    origin, window_mse, window_mae = (torch.cat(column).numpy() for column in zip(*scores, strict=True))
    return Evaluation(
        sums=sums,
        origin=origin,
        mse=window_mse,
        mae=window_mae,
        residuals=torch.cat(residuals).numpy() if keep_residuals else None,
        windows_per_s=timer.windows / timer.seconds if timer.seconds else float("nan"),
        relative=relative,
        load=UNKNOWN if timer.load_from is None else load_since(timer.load_from),
    )


def _residuals(batch: Batch, forecast: Tensor) -> Tensor:
    """Return future minus forecast, shape (B, h, C_out), NaN where not observed."""
    residuals = batch.future - forecast
    return residuals if batch.future_observed is None else torch.where(batch.future_observed, residuals, torch.nan)


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


def residual_step(windows: int, horizon: int, num_targets: int) -> int:
    """Return k such that the residuals of every k-th window are kept, starting with the first."""
    return -(-windows * horizon * num_targets // MAX_RESIDUALS)


def _gather(ours: Evaluation, group: Group) -> Evaluation:
    """Combine the evaluations of all processes' windows, in order of time."""
    sums = ours.sums.over(group)
    relative = None if ours.relative is None else ours.relative.over(group)
    shares = group.collect((ours.origin, ours.mse, ours.mae, ours.residuals, ours.windows_per_s))
    if shares is None:
        return replace(ours, sums=sums, relative=relative, load=UNKNOWN)
    origin, mse, mae, residuals, rates = zip(*shares, strict=True)
    return Evaluation(
        sums=sums,
        origin=np.concatenate(origin),
        mse=np.concatenate(mse),
        mae=np.concatenate(mae),
        residuals=None if ours.residuals is None else np.concatenate(residuals),
        windows_per_s=sum(rates),
        relative=relative,
        load=UNKNOWN,
    )


@dataclass(frozen=True)
class Row:
    """One forecaster's evaluations on the validation and test splits."""

    validation: Evaluation
    test: Evaluation

    def scores(self, scale: np.ndarray) -> dict[str, dict[str, Scores]]:
        """Return the scores of both splits, on z-scores and in original units."""
        return {
            split: {"scaled": evaluation.sums.scaled(), "original": evaluation.original(scale)}
            for split, evaluation in vars(self).items()
        }


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
    if part is None:
        return None
    assert evaluation.residuals is not None
    residuals = evaluation.residuals[..., 0]  # (W', h), z-scores
    origin = evaluation.origin[:: residual_step(len(evaluation.origin), *evaluation.residuals.shape[1:])]
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
