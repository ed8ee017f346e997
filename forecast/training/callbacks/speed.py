"""Speed of a training: throughput, step times, data wait, memory."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.common.timing import UNKNOWN, Load, Reading, Stopwatch, load_since, read_load
from forecast.model.compiling import CompiledForward
from forecast.training.tensorboard.logger import Board, board_of


@dataclass
class Timings:
    """Times and counts of a run, summed over all its starts if it was resumed.

    Attributes
    ----------
    step_ms, windows
        Milliseconds of each step (forward, backward, update), and number of windows, after the warm-up.
    training_seconds
        Wall-clock time of the training loop after the warm-up, without `logged_seconds`.
    waited_seconds, arithmetic_seconds, logged_seconds
        Time of the loop spent waiting for batches, computing steps (0 if not measured), and in the logger.
    fit_seconds
        Wall-clock time from the first batch to the last, everything included.
    logging_seconds
        Time of the logger and its figures in `fit_seconds`; NaN if the logger has no clock.
    peak_memory_mib
        Highest memory use of all starts.
    compile_seconds, recompiles
        Compile time before the first step, and number of compilations after it; 0 without compiling.
    load
        Processor time and other processes during `training_seconds`.
    validations
        Step, `training_seconds` and MSE of each validation.
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
    validations: list[tuple[int, float, float]] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Return the speed figures by name; NaN if the run was too short to measure.

        `train_windows_per_s` is the wall-clock throughput of the training loop. It excludes compiling, warm-up,
        validation, checkpoints and logging. `arithmetic_share` is relative to the loop with logging. For
        `train_…_seconds` and `train_disturbed` see `Load.figures`. Only a compiled run has `compile_seconds` and
        `recompiles`.
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
        """Return the state as plain numbers, a float32 tensor of steps and a float64 tensor of validations, (n, 3)."""
        validations = torch.tensor(self.validations, dtype=torch.float64).reshape(-1, 3)
        steps = torch.tensor(self.step_ms, dtype=torch.float32)
        return {**vars(self), "load": asdict(self.load), "step_ms": steps, "validations": validations}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Timings":
        """Return the timings with this state."""
        load = Load(**state["load"]) if "load" in state else UNKNOWN
        rows = state["validations"].tolist() if "validations" in state else []
        validations = [(int(step), seconds, mse) for step, seconds, mse in rows]
        return cls(**{**state, "step_ms": state["step_ms"].tolist(), "load": load, "validations": validations})


WARM_UP_STEPS = 10
"""Steps after each start that the figures exclude: they select kernels and allocate memory."""


class Speed(Callback):
    """Measures step times, throughput and data wait; checkpoints include its state.

    Throughput and data wait are host time; the host waits for the device before its clock stops. On CUDA, step times
    come from CUDA events, which need no synchronization. `arithmetic` runs while a step computes; it is not read on
    CUDA, where the host's clock does not measure the device. `compiled` is the compiled network, set before a fit.
    """

    def __init__(self, arithmetic: Stopwatch | None = None) -> None:
        self.timings = Timings()
        self._arithmetic = Stopwatch() if arithmetic is None else arithmetic
        self._computed_before = 0.0  # seconds before the current step
        self.compiled: CompiledForward | None = None
        self._compiled = (0.0, 0)  # seconds and recompiles that `timings` includes
        self._device = torch.device("cpu")
        self._steps = 0  # in this start
        self._mark: float | None = None  # start of the loop time not yet in `timings`; None: halted
        self._logged_at_mark = 0.0
        self._load_from: Reading | None = None  # at the first step since the last halt
        self._step_start = 0.0
        self._is_alone = True
        self._begun: torch.cuda.Event | None = None
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # of steps not yet in `timings`
        self._settled: tuple[float, float] | None = None  # clock readings that `timings` includes
        self._logged_until = (0, 0.0)  # windows and seconds at the last logged point
        self._board: Board | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Reset the peak memory."""
        self._device = pl_module.device
        reset_peak_memory(self._device)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clocks."""
        self._board = board_of(trainer.loggers)
        self._steps, self._mark, self._load_from, self._events = 0, None, None, []
        self._is_alone = trainer.world_size == 1
        self._settled = (time.perf_counter(), self._logged())
        self._logged_until = (self.timings.windows, self.timings.training_seconds)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Record the wait for the batch."""
        loader: Any = trainer.train_dataloader
        self._stop(loader.asked)
        self._computed_before = self._arithmetic.seconds
        if self._steps >= WARM_UP_STEPS:
            self._mark, self._logged_at_mark = loader.asked + self._read_load(), self._logged()
            self.timings.waited_seconds += loader.given - loader.asked
            self._begun = self._event()
        self._step_start = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Record the time of the step."""
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

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the training clock."""
        self._halt()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the training speed since the last validation, and keep its score."""
        windows, seconds = (self.timings.windows, self.timings.training_seconds)
        since = seconds - self._logged_until[1]
        if since > 0:
            curve = {"speed/train_windows_per_s": (windows - self._logged_until[0]) / since}
            for logger in trainer.loggers:
                logger.log_metrics(curve, step=trainer.global_step - 1)
        self._logged_until = (windows, seconds)
        if (mse := trainer.callback_metrics.get("val/mse")) is not None:
            self.timings.validations.append((trainer.global_step, seconds, float(mse)))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop all clocks."""
        self._halt()
        self._settle()
        self._settled = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the clocks."""
        self._halt()
        self._settle()
        return self.timings.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the clocks of an earlier start."""
        self.timings = Timings.from_state_dict(state_dict)
        self._logged_until = (self.timings.windows, self.timings.training_seconds)

    def restart_clocks(self) -> None:
        """Restart the clocks after a checkpoint between a batch and its step."""
        if self._steps >= WARM_UP_STEPS:
            self._read_load()
            self._mark, self._logged_at_mark = time.perf_counter(), self._logged()
            self._begun = self._event()
        self._step_start = time.perf_counter()

    def _logged(self) -> float:
        return float("nan") if self._board is None else self._board.clock.seconds

    def _stop(self, now: float) -> None:
        """Add the time of the training loop up to `now`, without the logger's time."""
        if self._mark is not None:
            logged = 0.0 if self._board is None else self._logged() - self._logged_at_mark
            self.timings.training_seconds += now - self._mark - logged
            self.timings.logged_seconds += logged
            self._mark = None

    def _halt(self) -> None:
        """Wait for the device, read its events, and stop the training clock until the next batch."""
        if self._mark is None:
            return
        self._synchronize()
        self._stop(time.perf_counter())
        if self._load_from is not None:  # several processes of this run would count as disturbance of each other
            self.timings.load = self.timings.load + load_since(self._load_from) if self._is_alone else UNKNOWN
            self._load_from = None
        self.timings.step_ms += [first.elapsed_time(last) for first, last in self._events]
        self._events = []

    def _read_load(self) -> float:
        """Read the load of the machine at the first step after a halt; return the seconds that this takes."""
        if self._load_from is not None:
            return 0.0
        before = time.perf_counter()
        self._load_from = read_load()
        return time.perf_counter() - before

    def _settle(self) -> None:
        """Update all sums to the present time."""
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
