"""Profile of a few training steps: a trace file, and a table of the slowest operations for TensorBoard."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch.profiler import ProfilerActivity, profile, schedule

from forecast.common.files import replacing
from forecast.common.tables import Table
from forecast.data.datamodule import ForecastData
from forecast.runs.run import TRACE
from forecast.training.tensorboard.logger import board_of

WAIT, WARM_UP, RECORDED = 10, 2, 5
"""Steps to skip, to warm up the profiler, and to record. A few steps already make a large trace."""

ROWS = 20
"""Operations in the table."""


class Profile(Callback):
    """Records a few training steps, and the time between them, in a trace file in the run `folder`.

    The recorded steps are slower than the others, and the speed figures include them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._profiler: profile | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the profiler; a short run skips fewer steps."""
        data: ForecastData = trainer.datamodule  # type: ignore[attr-defined]
        left = int(pl_module.total_steps) - data.first_step  # type: ignore[arg-type]
        cuda = pl_module.device.type == "cuda"
        self._profiler = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])],
            schedule=schedule(
                wait=min(WAIT, max(0, left - WARM_UP - RECORDED)), warmup=WARM_UP, active=RECORDED, repeat=1
            ),
            on_trace_ready=lambda profiler: self._write(profiler, trainer),
            acc_events=True,
        )
        self._profiler.start()

    def on_train_batch_end(self, *_: Any) -> None:
        """Advance the profiler by a step."""
        if self._profiler is not None:
            self._profiler.step()

    def on_train_end(self, *_: Any) -> None:
        """Stop the profiler. It writes what it has if the run ends before the last recorded step."""
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None

    def on_exception(self, *_: Any) -> None:
        """Stop the profiler: a process can run only one."""
        self.on_train_end()

    def _write(self, profiler: profile, trainer: Trainer) -> None:
        with tempfile.TemporaryDirectory() as scratch, replacing(self._folder / TRACE) as file:
            path = Path(scratch) / TRACE  # the profiler needs a path, and compresses by its suffix
            profiler.export_chrome_trace(str(path))
            file.write(path.read_bytes())
        if (board := board_of(trainer.loggers)) is not None:
            board.add_text("profile/top_operations", top_operations(profiler), trainer.global_step)


def top_operations(profiler: profile) -> str:
    """Return the operations with the most self time, on the GPU if there is one, as a Markdown table."""
    operations = [entry for entry in profiler.key_averages() if not entry.key.startswith("ProfilerStep")]
    on_device = any(_device_us(entry) for entry in operations)
    times = {entry.key: _device_us(entry) if on_device else entry.self_cpu_time_total for entry in operations}
    total = sum(times.values()) or 1
    longest = sorted(operations, key=lambda entry: times[entry.key], reverse=True)[:ROWS]
    cells = [
        [entry.key, str(entry.count), f"{times[entry.key] / 1000:.2f}", f"{times[entry.key] / total:.1%}"]
        for entry in longest
    ]
    where = torch.cuda.get_device_name() if on_device else "CPU"
    return Table("", ("operation", "calls", f"self time, ms ({where})", "share"), cells).to_markdown()


def _device_us(operation: Any) -> float:
    return float(operation.self_device_time_total)
