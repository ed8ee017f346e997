"""Comparison of each attention with the exact softmax at each validation."""

from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from forecast.common.timing import Stopwatch
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch, evenly_spaced
from forecast.training.callbacks.figures import check_windows
from forecast.training.probe.layer import probe, record, scalars, table
from forecast.training.task import ForecastTask
from forecast.training.tensorboard.logger import board_of


class Probe(Callback):
    """Measures every attention on a few fixed validation windows, in one forward pass without side effects.

    The windows are evenly spaced over the validation split and the same for every validation and mechanism. Only the
    leading process measures. The means over the heads are logged as scalars, the numbers of each head as a table for
    TensorBoard. `result.json` has the numbers of the last validation.

    Parameters
    ----------
    windows
        Number of windows, limited to `training.evaluation_batch_size`.

    Attributes
    ----------
    last
        The latest findings, from `forecast.training.probe.layer.record`; None before the first validation.
    """

    def __init__(self, windows: int) -> None:
        self.windows = check_windows(windows)
        self.last: dict[str, Any] | None = None
        self._clock = Stopwatch()
        self._batch: Batch | None = None

    @property
    def seconds(self) -> float:
        """Seconds that the probe has taken so far."""
        return self._clock.seconds

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the attention of the current weights."""
        assert isinstance(pl_module, ForecastTask)
        if not pl_module.group.leads:
            return
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)  # do not count the rest of the validation
        with self._clock:
            if self._batch is None:
                self._batch = self._fixed_windows(trainer.datamodule)  # type: ignore[attr-defined]
            findings = probe(pl_module.network, self._batch)
            self.last = record(findings, trainer.global_step, len(self._batch.origin))
            for logger in trainer.loggers:
                logger.log_metrics(scalars(self.last), step=trainer.global_step - 1)
            if (board := board_of(trainer.loggers)) is not None:
                board.add_text("probe/table", table(self.last), trainer.global_step - 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the latest findings and the time taken."""
        return {"last": self.last, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the findings and the time taken."""
        self.last = state_dict["last"]
        self._clock.seconds = state_dict["seconds"]

    def _fixed_windows(self, data: ForecastData) -> Batch:
        windows = data.parts["validation"]
        wanted = min(self.windows, data.evaluation_batch_size)
        return windows.batch(evenly_spaced(len(windows), wanted).to(windows.starts.device))
