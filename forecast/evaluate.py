"""Score any forecaster on every window of a part, the same way for models and baselines."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows
from forecast.metrics import ErrorSums

Forecaster = Callable[[Batch], Tensor]

MAX_RESIDUALS = 2**25
"""Residuals kept for quantiles (128 MiB); a part with more keeps every k-th window."""


@dataclass(frozen=True)
class Evaluation:
    """What a pass over a part gives.

    Parameters
    ----------
    sums
        Sums and counts by step and series.
    origin, mse, mae
        Shape (W,): each window's first target row and its own scores on z-scores.
    residuals
        Shape (W', h, C), future minus forecast as z-scores, NaN where not observed; None unless asked for.
    windows_per_s
        Windows a second, the first batch left out; NaN if there was no second one.
    """

    sums: ErrorSums
    origin: np.ndarray
    mse: np.ndarray
    mae: np.ndarray
    residuals: np.ndarray | None
    windows_per_s: float


@torch.inference_mode()
def evaluate(forecaster: Forecaster, windows: Windows, batch_size: int, *, keep_residuals: bool = False) -> Evaluation:
    """Score `forecaster`, which maps a batch to its forecast (B, h, C_out), on every one of `windows`.

    Raises
    ------
    AssertionError
        If a window was not counted: a score over part of the windows is not a score.
    """
    device = windows.values.device
    sums = ErrorSums.zeros(windows.horizon, windows.num_targets, device)
    step = -(-len(windows) * windows.horizon * windows.num_targets // MAX_RESIDUALS)
    pieces: list[tuple[Tensor, Tensor, Tensor]] = []
    residuals: list[Tensor] = []
    seen, timed, seconds = 0, 0, 0.0
    for batch in windows.batches(batch_size):
        started = time.perf_counter()
        forecast = forecaster(batch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if seen:
            timed, seconds = timed + len(forecast), seconds + time.perf_counter() - started
        mse, mae = sums.update(forecast, batch.future, batch.future_observed)
        pieces.append((batch.origin.cpu(), mse.cpu(), mae.cpu()))
        if keep_residuals:
            residual = batch.future - forecast
            if batch.future_observed is not None:
                residual = torch.where(batch.future_observed, residual, torch.nan)
            residuals.append(residual[(-seen) % step :: step].cpu())
        seen += len(forecast)
    assert seen == len(windows), f"{seen} of {len(windows)} windows were scored"
    origin, window_mse, window_mae = (torch.cat(part).numpy() for part in zip(*pieces, strict=True))
    return Evaluation(
        sums=sums,
        origin=origin,
        mse=window_mse,
        mae=window_mae,
        residuals=torch.cat(residuals).numpy() if keep_residuals else None,
        windows_per_s=timed / seconds if seconds else float("nan"),
    )
