"""Where the time of a training step goes: a trace of a few steps, and the longest operations on the board."""

import tempfile
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch.profiler import ProfilerActivity, profile, schedule

from forecast.common.files import replacing
from forecast.common.tables import Table
from forecast.data.datamodule import ForecastData
from forecast.runs.run import TRACE
from forecast.training.tensorboard.logger import Board

WAIT, WARM_UP, RECORDED = 10, 2, 5
"""Steps skipped, steps in which the profiler starts, steps recorded; few make a long trace."""

ROWS = 20
"""Operations in the table."""


class Profile(Callback):
    """Records a few steps of the training, with what lies between them, in a trace in the run `folder`.

    The recorded steps are slower than the others and are among those that the speed figures are of.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._profiler: profile | None = None

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start to count steps; a short run is recorded from an earlier step on."""
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
        """Tell the profiler that a step is over."""
        if self._profiler is not None:
            self._profiler.step()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop the profiler, which writes what it has if the end came before the last recorded step."""
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Stop the profiler: another run of this process could not start its own."""
        self.on_train_end(trainer, pl_module)

    def _write(self, profiler: profile, trainer: lightning.Trainer) -> None:
        with tempfile.TemporaryDirectory() as scratch, replacing(self._folder / TRACE) as file:
            path = Path(scratch) / TRACE  # the profiler writes to a path, and compresses by its ending
            profiler.export_chrome_trace(str(path))
            file.write(path.read_bytes())
        if isinstance(trainer.logger, Board):
            trainer.logger.add_text("profile/top_operations", top_operations(profiler), trainer.global_step)


def top_operations(profiler: profile) -> str:
    """Return the operations with the most self time as a Markdown table; the device's time where it has one."""
    operations = [each for each in profiler.key_averages() if not each.key.startswith("ProfilerStep")]
    on_device = any(_device_us(each) for each in operations)
    times = {each.key: _device_us(each) if on_device else each.self_cpu_time_total for each in operations}
    whole = sum(times.values()) or 1
    longest = sorted(operations, key=lambda each: times[each.key], reverse=True)[:ROWS]
    cells = [
        [each.key, str(each.count), f"{times[each.key] / 1000:.2f}", f"{times[each.key] / whole:.1%}"]
        for each in longest
    ]
    where = torch.cuda.get_device_name() if on_device else "CPU"
    return Table("", ("operation", "calls", f"own time, ms ({where})", "share"), cells).to_markdown()


def _device_us(operation: Any) -> float:
    return float(operation.self_device_time_total)
