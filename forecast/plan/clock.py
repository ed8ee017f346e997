"""A callback that times the steps and validations of a short training, and ends it."""

import time
from statistics import fmean
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.types import STEP_OUTPUT

from forecast.common.timing import UNKNOWN, Reading, load_since, read_load
from forecast.data.windows import Batch
from forecast.plan.pace import Pace

WARM_UP, LEAST, MOST = 2, 6, 500
"""Steps that are not among the timed ones, and of a short training at the least and at the most."""

FIRST_VALIDATION = 5
"""Steps before the first validation, since loading what draws takes time. One more validation comes at the end: it may
last as long as twenty steps, and steps are most of a training."""


class StepClock(Callback):
    """Times steps and the gaps between them, synchronising the device after each step.

    Training ends after `seconds` of timed steps and the minimum number of steps.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._finished = 0.0
        self._asked: list[float] = []
        self._given: list[float] = []
        self._ended: list[float] = []
        self._steps: list[float] = []
        self.validations: list[_Validation] = []
        self.load = UNKNOWN  # of the machine, from the first step that is timed to the end
        self._load_from: Reading | None = None

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
        self._steps.append(self._ended[-1] - self._given[-1])
        if len(self._ended) == WARM_UP:
            self._load_from = read_load()
        if len(self._ended) >= LEAST and sum(self._steps[WARM_UP:]) >= self.seconds:
            trainer.should_stop = True

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Note the start of a validation."""
        self.validations.append(_Validation(len(self._ended), _now(pl_module.device)))

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
        self.validations[-1].add(_now(pl_module.device), len(batch.origin))

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Have no other validation before the last step."""
        trainer.val_check_batch = trainer.max_steps

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Note the end of the last validation."""
        self._finished = _now(pl_module.device)
        if self._load_from is not None:
            self.load = load_since(self._load_from)

    @property
    def steps(self) -> int:
        """Steps that were timed."""
        return len(self._steps[WARM_UP:])

    def pace(self, prepare: float) -> Pace:
        """Return the means, since a training lasts as long as the sum; `prepare`: the seconds before the training."""
        waits = [given - asked for given, asked in zip(self._given, self._asked, strict=True)]
        step = fmean(self._steps[WARM_UP:])
        followed = {validation.after for validation in self.validations}
        gaps = [
            asked - ended
            for number, (ended, asked) in enumerate(zip(self._ended, self._asked[1:], strict=False), 1)
            if number > WARM_UP and number not in followed
        ]
        between = fmean(gaps)
        timed = [validation.timed() for validation in self.validations]
        window = sum(seconds for seconds, _ in timed) / sum(windows for _, windows in timed)
        beside = [self._beside(validation, window) - between for validation in self.validations]
        usual = max(0.0, fmean(beside[1:] or beside))
        return Pace(
            step=step,
            wait=fmean(waits[WARM_UP:]),
            between=between,
            first=max(0.0, sum(self._steps[:WARM_UP]) - WARM_UP * step),
            window=window,
            validation=usual,
            first_validation=max(0.0, beside[0] - usual),
            prepare=prepare,
        )

    def _beside(self, validation: "_Validation", window: float) -> float:
        """Return the seconds from the step before a validation to the step after it, less its windows."""
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

    def timed(self) -> tuple[float, int]:
        """Return seconds and windows of the batches, without the first, which warms up, where others have as many."""
        first = 1 if sum(self._sizes[1:]) >= self._sizes[0] else 0
        return self._ends[-1] - self._ends[first], sum(self._sizes[first:])


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
