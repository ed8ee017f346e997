"""A callback that times the steps and validations of a short training, and ends it."""

import time
from statistics import median
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.types import STEP_OUTPUT

from forecast.data.windows import Batch
from forecast.planning.pace import Pace

WARM_UP, LEAST, MOST = 2, 6, 60
"""Steps that are not among the timed ones, and of a short training at the least and at the most."""

INTERVAL = 5
"""Steps from one of its validations to the next: with the last one there are at least two, and only the first of them
has to load what draws."""


class StepClock(Callback):
    """Times what a training does between its steps too; the device is waited for after each step.

    Parameters
    ----------
    seconds
        After which the training ends, once it has made its least steps.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun = self._finished = 0.0
        self._asked: list[float] = []
        self._given: list[float] = []
        self._ended: list[float] = []
        self._validations: list[_Validation] = []

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start."""
        self._begun = time.perf_counter()

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Note when the batch was asked for and when it was there."""
        loader: Any = trainer.train_dataloader
        self._asked.append(loader.asked)
        self._given.append(loader.given)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note the end of the step, and ask for that of the training where it is time."""
        self._ended.append(_now(pl_module.device))
        if len(self._ended) >= LEAST and self._ended[-1] - self._begun >= self.seconds:
            trainer.should_stop = True

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Note the start of a validation."""
        self._validations.append(_Validation(len(self._ended), _now(pl_module.device)))

    def on_validation_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: STEP_OUTPUT,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Note the end of a batch of windows."""
        self._validations[-1].add(_now(pl_module.device), len(batch.origin))

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Note the end of the last validation."""
        self._finished = _now(pl_module.device)

    @property
    def steps(self) -> int:
        """Steps that were made."""
        return len(self._ended)

    def pace(self, prepare: float) -> Pace:
        """Give the medians; `prepare` is what came before the training, in seconds."""
        steps = [ended - given for ended, given in zip(self._ended, self._given, strict=True)]
        waits = [given - asked for given, asked in zip(self._given, self._asked, strict=True)]
        step = median(steps[WARM_UP:])
        followed = {validation.after for validation in self._validations}
        gaps = [
            asked - ended
            for number, (ended, asked) in enumerate(zip(self._ended, self._asked[1:], strict=False), 1)
            if number not in followed
        ]
        between = median(gaps)
        window = median([seconds for validation in self._validations for seconds in validation.windows_seconds()])
        beside = [self._beside(validation, window) - between for validation in self._validations]
        usual = max(0.0, median(beside[1:] or beside))
        return Pace(
            step=step,
            wait=median(waits[WARM_UP:]),
            between=between,
            first=max(0.0, sum(steps[:WARM_UP]) - WARM_UP * step),
            window=window,
            validation=usual,
            first_validation=max(0.0, beside[0] - usual),
            prepare=prepare,
        )

    def _beside(self, validation: "_Validation", window: float) -> float:
        """Give the seconds from the step before a validation to the step after it, less its windows."""
        after = validation.after
        over = self._asked[after] if after < len(self._asked) else self._finished
        return over - self._ended[after - 1] - validation.windows * window


class _Validation:
    """When a validation came, and the ends of its batches."""

    def __init__(self, after: int, begun: float) -> None:
        self.after = after  # steps before it
        self.windows = 0
        self._ends = [begun]
        self._sizes: list[int] = []

    def add(self, ended: float, size: int) -> None:
        self._ends.append(ended)
        self._sizes.append(size)
        self.windows += size

    def windows_seconds(self) -> list[float]:
        """Give the seconds a window of each batch, without the first where there are others: it warms up."""
        taken = [later - earlier for earlier, later in zip(self._ends, self._ends[1:], strict=False)]
        each = [seconds / size for seconds, size in zip(taken, self._sizes, strict=True)]
        return each[1:] or each


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
