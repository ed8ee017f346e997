"""How fast training runs: steps, data wait, memory."""

import time
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback

from forecast.memory import peak_memory_mib, reset_peak_memory

WARM_UP_STEPS = 10
"""Steps left out of every figure: kernels are chosen and memory is first touched in them."""


class Speed(Callback):
    """Times each training step and the wait for its data.

    On an accelerator a step's time is read from events, which do not make the device wait.
    """

    def __init__(self) -> None:
        self.step_seconds: list[float] = []
        self.wait_seconds: list[float] = []
        self.fit_seconds = 0.0
        self.peak_memory_mib = float("nan")
        self.windows = 0
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._fit_start = self._step_start = self._step_end = 0.0

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Forget the peak of whatever ran before."""
        reset_peak_memory(pl_module.device)

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start the clocks."""
        self._fit_start = self._step_end = time.perf_counter()

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Note how long the batch was waited for."""
        self._step_start = time.perf_counter()
        self.wait_seconds.append(self._step_start - self._step_end)
        if pl_module.device.type == "cuda":
            self._events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
            self._events[-1][0].record()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note how long the step took."""
        self.windows = len(batch.origin)
        self._step_end = time.perf_counter()
        self.step_seconds.append(self._step_end - self._step_start)
        if self._events:
            self._events[-1][1].record()

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start the wait for the next batch after the validation, which is no wait for data."""
        self._step_end = time.perf_counter()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop the clocks and log what they say."""
        self.fit_seconds = time.perf_counter() - self._fit_start
        self.peak_memory_mib = peak_memory_mib(pl_module.device)
        if self._events:
            torch.cuda.synchronize(pl_module.device)
            self.step_seconds = [first.elapsed_time(last) / 1000 for first, last in self._events]
        if trainer.logger is not None:
            figures = {f"speed/{name}": value for name, value in self.figures().items()}
            trainer.logger.log_metrics(figures, step=trainer.global_step)

    def figures(self) -> dict[str, float]:
        """Give the run's speed; NaN where it was too short to measure."""
        steps = np.array(self.step_seconds[WARM_UP_STEPS:]) * 1000
        waits = np.array(self.wait_seconds[WARM_UP_STEPS:]) * 1000
        measured = len(steps) > 0
        total = float(steps.sum() + waits.sum()) if measured else float("nan")
        return {
            "train_windows_per_s": self.windows * len(steps) / total * 1000 if measured else float("nan"),
            "step_ms_p50": float(np.percentile(steps, 50)) if measured else float("nan"),
            "step_ms_p95": float(np.percentile(steps, 95)) if measured else float("nan"),
            "data_wait_share": float(waits.sum()) / total if measured else float("nan"),
            "peak_memory_mib": self.peak_memory_mib,
            "fit_seconds": self.fit_seconds,
        }
