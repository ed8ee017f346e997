"""The times that a run's training took, and the speed figures that follow from them."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from forecast.common.contention import UNKNOWN, Load


@dataclass
class Timings:
    """What the clocks of a run add up to, over all its pieces where it was resumed.

    Parameters
    ----------
    step_ms
        Milliseconds of each step after the warm-up: forward, backward, update.
    windows, training_seconds, waited_seconds
        Windows trained on after the warm-up; the wall-clock seconds of the training loop that they took, and
        those of them in which the loop waited for its next batch.
    fit_seconds, logging_seconds
        From the first batch to the last, everything included; spent meanwhile in the logger and on its figures.
        The latter is NaN where the logger has no clock.
    peak_memory_mib
        The highest of all pieces.
    arithmetic_seconds, logged_seconds
        Of the training loop's time after the warm-up: forward, backward and update of its steps, 0 where nobody
        measured them; the logger, which `training_seconds` leaves out.
    compile_seconds, recompiles
        Spent in compiling before the first step, and how often something was compiled after it; 0 where nothing is.
    load
        Processor time and other processes, while `training_seconds` ran. Unknown of a run that an earlier version
        began: what it did not record is not guessed.
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
        """Give the speed figures by name; NaN where the run was too short to measure.

        `train_windows_per_s` is what a clock on the wall sees of the training loop: batches, steps, the
        loop's own work and progress bars are in; compiling, warm-up, validation, checkpoints and logging are out.
        `train_…_seconds` and `train_disturbed` are the load of that same time, as `Load.figures` has it.
        `arithmetic_share` is of the same time with the logging in it; `compile_seconds` and `recompiles` are
        those of a run that is compiled.
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
        """Give the state as plain numbers and one float32 tensor, so that any checkpoint may hold it."""
        return {**asdict(self), "step_ms": torch.tensor(self.step_ms, dtype=torch.float32)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Timings":
        """Give what `state_dict` was made of."""
        load = Load(**state["load"]) if "load" in state else UNKNOWN
        return cls(**{**state, "step_ms": state["step_ms"].tolist(), "load": load})
