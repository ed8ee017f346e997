"""Speed of a training: windows per second, time of its parts."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback

from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.common.timing import UNKNOWN, Load, Reading, Stopwatch, load_since, read_load
from forecast.model.compiling import CompiledForward
from forecast.training.tensorboard.logger import Board


@dataclass
class Timings:
    """Sums over the clocks of a run, with all its pieces if it was resumed.

    After the warm-up: `step_ms` has the milliseconds of each step (forward, backward, update), and `windows` counts the
    windows trained on. `training_seconds` is the wall-clock time of the training loop, without the logger's
    `logged_seconds`; `waited_seconds` is its wait for batches, `arithmetic_seconds` its forward, backward and update (0
    where not measured).

    `fit_seconds` run from the first batch to the last, everything included. `logging_seconds` are those of the logger
    and its figures, NaN where the logger has no clock. `peak_memory_mib` is the highest of all pieces.
    `compile_seconds` are spent before the first step, `recompiles` counts compilations after it; both are 0 where
    nothing is compiled. `load` has processor time and other processes, while `training_seconds` ran.
    """

    step_ms: list[float] = field(default_factory=list)
    windows: int = 0
    training_seconds: float = 0.0
    waited_seconds: float = 0.0
    fit_seconds: float = 0.0
    logging_seconds: float = 0.0
    peak_memory_mib: float = 0.0
    arithmetic_seconds: float = 0.0
    logged_seconds: float = 0.0
    compile_seconds: float = 0.0
    recompiles: int = 0
    load: Load = field(default_factory=Load)

    def figures(self) -> dict[str, float]:
        """Return the speed figures by name; NaN where the run was too short to measure.

        `train_windows_per_s` is the wall-clock throughput of the training loop. Batches, steps, the loop's own work and
        progress bars count; compiling, warm-up, validation, checkpoints and logging do not. `train_…_seconds` and
        `train_disturbed` are the load of that time, as in `Load.figures`; `arithmetic_share` counts the logging in.
        Only a compiled run has `compile_seconds` and `recompiles`.
        """
        nan = float("nan")
        measured = self.training_seconds > 0 and self.windows > 0
        loop = self.training_seconds + self.logged_seconds
        compiled = {"compile_seconds": self.compile_seconds, "recompiles": self.recompiles}
        return {
            "train_windows_per_s": self.windows / self.training_seconds if measured else nan,
            "step_ms_p50": float(np.percentile(self.step_ms, 50)) if self.step_ms else nan,
            "step_ms_p95": float(np.percentile(self.step_ms, 95)) if self.step_ms else nan,
            "data_wait_share": self.waited_seconds / self.training_seconds if measured else nan,
            "arithmetic_share": self.arithmetic_seconds / loop if measured and self.arithmetic_seconds else nan,
            "peak_memory_mib": self.peak_memory_mib or nan,
            "fit_seconds": self.fit_seconds,
            "logging_share": self.logging_seconds / self.fit_seconds if self.fit_seconds > 0 else nan,
            **self.load.figures("train"),
            **(compiled if self.compile_seconds > 0 else {}),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain numbers and one float32 tensor, so that any checkpoint can hold it."""
        return {**asdict(self), "step_ms": torch.tensor(self.step_ms, dtype=torch.float32)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Timings":
        """Return the timings with this state."""
        load = Load(**state["load"]) if "load" in state else UNKNOWN
        return cls(**{**state, "step_ms": state["step_ms"].tolist(), "load": load})


WARM_UP_STEPS = 10
"""Steps after each start that no figure counts: they choose kernels and touch memory first."""


class Speed(Callback):
    """Times each training step and the wait for its data; its state goes into checkpoints.

    Throughput and data wait are read from the host's clock, which waits for the device wherever it stops. On CUDA the
    time of a step is the device's own, from events, which make nothing wait. `arithmetic` runs while a step computes;
    on CUDA it is not read, since the host's clock does not see the device. `compiled` is what was compiled for the
    training, set before a fit.
    """

    def __init__(self, arithmetic: Stopwatch | None = None) -> None:
        self.timings = Timings()
        self._arithmetic = Stopwatch() if arithmetic is None else arithmetic
        self._computed_before = 0.0  # of the step that runs
        self.compiled: CompiledForward | None = None
        self._compiled = (0.0, 0)  # seconds and recompiles up to where `timings` has been brought
        self._device = torch.device("cpu")
        self._steps = 0  # since this start
        self._mark: float | None = None  # since when the training loop runs uncounted; None: it stands still
        self._logged_at_mark = 0.0
        self._load_from: Reading | None = None  # of the steps since the loop last stood still
        self._step_start = 0.0
        self._begun: torch.cuda.Event | None = None
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # of steps not yet read
        self._settled: tuple[float, float] | None = None  # clocks up to where `timings` has been brought
        self._shown = (0, 0.0)  # windows and seconds up to the last point of the curve
        self._board: Board | None = None

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Reset the peak memory."""
        self._device = pl_module.device
        reset_peak_memory(self._device)

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start the clocks."""
        self._board = trainer.logger if isinstance(trainer.logger, Board) else None
        self._steps, self._mark, self._load_from, self._events = 0, None, None, []
        if trainer.world_size > 1:  # the processes of one run are no strangers to one another
            self.timings.load = UNKNOWN
        self._settled = (time.perf_counter(), self._logged())
        self._shown = (self.timings.windows, self.timings.training_seconds)

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Note the time that the batch was waited for."""
        loader: Any = trainer.train_dataloader
        self._stop(loader.asked)
        self._computed_before = self._arithmetic.seconds
        if self._steps >= WARM_UP_STEPS:
            self._mark, self._logged_at_mark = loader.asked + self._read_load(), self._logged()
            self.timings.waited_seconds += loader.given - loader.asked
            self._begun = self._event()
        self._step_start = time.perf_counter()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note the time of the step."""
        self._steps += 1
        if self._steps > WARM_UP_STEPS:
            self.timings.windows += len(batch.origin) * trainer.world_size
            if self._device.type == "cpu":
                self.timings.arithmetic_seconds += self._arithmetic.seconds - self._computed_before
            ended = self._event()
            if self._begun is not None and ended is not None:
                self._events.append((self._begun, ended))
            else:
                self.timings.step_ms.append(1000 * (time.perf_counter() - self._step_start))
        elif self._steps == WARM_UP_STEPS:
            self._synchronize()

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop the training clock."""
        self._halt()

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Log the training speed since the last validation."""
        windows, seconds = (self.timings.windows, self.timings.training_seconds)
        since = seconds - self._shown[1]
        if trainer.logger is not None and since > 0:
            curve = {"speed/train_windows_per_s": (windows - self._shown[0]) / since}
            trainer.logger.log_metrics(curve, step=trainer.global_step - 1)
        self._shown = (windows, seconds)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop all clocks."""
        self._halt()
        self._settle()
        self._settled = None

    def figures(self) -> dict[str, float]:
        """Return the run's speed so far, as `Timings.figures` does."""
        return self.timings.figures()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the clocks."""
        self._halt()
        self._settle()
        return self.timings.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the clocks of an earlier start."""
        self.timings = Timings.from_state_dict(state_dict)
        self._shown = (self.timings.windows, self.timings.training_seconds)

    def go_on(self) -> None:
        """Restart the clocks of a step that a save has interrupted."""
        if self._steps >= WARM_UP_STEPS:
            self._read_load()
            self._mark, self._logged_at_mark = time.perf_counter(), self._logged()
            self._begun = self._event()
        self._step_start = time.perf_counter()

    def _logged(self) -> float:
        return float("nan") if self._board is None else self._board.clock.seconds

    def _stop(self, now: float) -> None:
        """Count the training loop's time up to `now`, less the logger's share."""
        if self._mark is not None:
            logged = 0.0 if self._board is None else self._logged() - self._logged_at_mark
            self.timings.training_seconds += now - self._mark - logged
            self.timings.logged_seconds += logged
            self._mark = None

    def _halt(self) -> None:
        """Let the device finish, read its events, and stop the training clock until the next batch."""
        if self._mark is None:
            return
        self._synchronize()
        self._stop(time.perf_counter())
        if self._load_from is not None:
            self.timings.load += load_since(self._load_from)
            self._load_from = None
        self.timings.step_ms += [first.elapsed_time(last) for first, last in self._events]
        self._events = []

    def _read_load(self) -> float:
        """Read the machine's load at the first step after a halt; return the seconds that the reading takes."""
        if self._load_from is not None:
            return 0.0
        before = time.perf_counter()
        self._load_from = read_load()
        return time.perf_counter() - before

    def _settle(self) -> None:
        """Bring all sums up to now."""
        if self._settled is not None:
            now = (time.perf_counter(), self._logged())
            self.timings.fit_seconds += now[0] - self._settled[0]
            self.timings.logging_seconds += now[1] - self._settled[1]
            self._settled = now
            self.timings.peak_memory_mib = max(self.timings.peak_memory_mib, peak_memory_mib(self._device))
        if self.compiled is not None:
            compiled = (self.compiled.seconds, self.compiled.recompiles)
            self.timings.compile_seconds += compiled[0] - self._compiled[0]
            self.timings.recompiles += compiled[1] - self._compiled[1]
            self._compiled = compiled

    def _event(self) -> torch.cuda.Event | None:
        if self._device.type != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
