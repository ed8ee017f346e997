"""Pictures of validation forecasts during a training."""

from dataclasses import replace

import numpy as np
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from forecast.common.errors import InputError
from forecast.common.pictures import SHEET
from forecast.data.calendar import seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch, Windows, evenly_spaced
from forecast.evaluation.baselines import SeasonalNaive
from forecast.training.tensorboard.figures import ForecastPanels
from forecast.training.tensorboard.logger import board_of

MAX_WINDOWS = 1_000
"""Maximum number of windows that a callback may use at each validation."""


def check_windows(windows: object) -> int:
    """Return the number of windows after checking its range."""
    if not isinstance(windows, int) or isinstance(windows, bool) or not 1 <= windows <= MAX_WINDOWS:
        raise InputError(f"windows={windows}: must be a whole number from 1 to {MAX_WINDOWS}")
    return windows


TAG = "1_forecasts/validation"
"""TensorBoard sorts tags by name: forecasts first, then errors, then attention."""


class Figures(Callback):
    """Draws forecast, truth and seasonal naive of the first target for TensorBoard; other loggers get no pictures.

    The windows are evenly spaced over the validation split, or over the series of a panel at its last date. They are
    the same at every validation, for every model and for every look-back.

    Parameters
    ----------
    windows
        Number of windows.
    """

    def __init__(self, windows: int) -> None:
        self.windows = check_windows(windows)
        self._batch: Batch | None = None
        self._panels: ForecastPanels | None = None

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forecast the windows with the current weights, in evaluation mode, and draw them."""
        board = board_of(trainer.loggers)
        if board is None:
            return
        with board.clock:
            data = trainer.datamodule  # type: ignore[attr-defined]
            if self._batch is None or self._panels is None:
                self._batch, self._panels = self._prepare(data)
            forecast = _first_target(data, self._batch, pl_module(self._batch))
            board.add_image(TAG, self._panels.pixels(forecast), trainer.global_step - 1)

    def _prepare(self, data: ForecastData) -> tuple[Batch, ForecastPanels]:
        windows = data.parts["validation"]
        positions = _chosen(windows, self.windows).to(windows.starts.device)
        batch = windows.batch(positions)
        masked = replace(windows, past_masked=True).batch(positions)  # marks filled values for any model
        period = seasonal_period(data.source.series.frequency)
        naive = SeasonalNaive(windows, period)(batch) if period <= len(data.split.train) else None
        panels = ForecastPanels(
            past=_measured(_first_target(data, batch, batch.past), masked.past_observed)[:, -windows.horizon :],
            truth=_measured(_first_target(data, batch, batch.future), batch.future_observed),
            naive=None if naive is None else _first_target(data, batch, naive),
            titles=_titles(data, batch),
        )
        return batch, panels


def _chosen(windows: Windows, count: int) -> torch.Tensor:
    """Return evenly spaced windows; of a panel the last date of at least `SHEET` evenly spaced series."""
    if windows.panel is None:
        return evenly_spaced(len(windows), count)
    steps = windows.steps
    last = (steps == steps.max()).nonzero()[:, 0]
    return last[evenly_spaced(len(last), max(count, SHEET))]


def _measured(values: np.ndarray, observed: torch.Tensor | None) -> np.ndarray:
    """Return the values of the first target, shape (K, n), with NaN for filled values."""
    return values if observed is None else np.where(observed[..., 0].cpu().numpy(), values, np.nan)


def _titles(data: ForecastData, batch: Batch) -> list[str]:
    """Return what each window shows: the first target, the id in a panel, and the origin."""
    ids = data.source.series.ids
    names = [data.source.targets[0]] * len(batch.origin)
    if ids is not None and batch.series is not None:
        names = [f"{name}, {ids.shown(place)}" for name, place in zip(names, batch.series.tolist(), strict=True)]
    return [f"{name} from {data.index[row]}" for name, row in zip(names, batch.origin.tolist(), strict=True)]


def _first_target(data: ForecastData, batch: Batch, values: torch.Tensor) -> np.ndarray:
    """Return the first target in original units, shape (K, n), from z-scores (K, n, C) of a batch."""
    return data.original(values[..., :1].double().cpu().numpy(), batch)[..., 0]
