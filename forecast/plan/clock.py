"""Callback that times the steps and validations of a short training, and ends it."""

import time
from statistics import fmean
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from forecast.common.timing import UNKNOWN, Reading, load_since, read_load
from forecast.data.windows import Batch
from forecast.plan.pace import Pace

WARM_UP, LEAST, MOST = 2, 6, 500
"""Untimed first steps, and the minimum and maximum steps of a short training."""

FIRST_VALIDATION = 5
"""Steps before the first validation, which loads the drawing libraries. The only other validation is at the end: one
validation can take as long as twenty steps."""


class StepClock(Callback):
    """Times steps and the gaps between them, synchronising the device after each step.

    Training ends after `seconds` of timed steps and the minimum number of steps.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._finished = 0.0
        self._requested: list[float] = []
        self._available: list[float] = []
        self._step_ends: list[float] = []
        self._steps: list[float] = []
        self.validations: list[_Validation] = []
        self.load = UNKNOWN  # of the machine, from the first timed step to the end
        self._load_from: Reading | None = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Record when the batch was requested and when it was available."""
        loader: Any = trainer.train_dataloader
        self._requested.append(loader.asked)
        self._available.append(loader.given)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Record the end of the step, and stop the training after enough steps."""
        self._step_ends.append(_now(pl_module.device))
        self._steps.append(self._step_ends[-1] - self._available[-1])
        if len(self._step_ends) == WARM_UP:
            self._load_from = read_load()
        if len(self._step_ends) >= LEAST and sum(self._steps[WARM_UP:]) >= self.seconds:
            trainer.should_stop = True

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the start of a validation."""
        self.validations.append(_Validation(len(self._step_ends), _now(pl_module.device)))

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, *_: Any
    ) -> None:
        """Record the end of a batch of windows."""
        self.validations[-1].add(_now(pl_module.device), len(batch.origin))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Skip all validations until the last step."""
        trainer.val_check_batch = trainer.max_steps

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the end of the last validation."""
        self._finished = _now(pl_module.device)
        if self._load_from is not None:
            self.load = load_since(self._load_from)

    @property
    def steps(self) -> int:
        """Number of timed steps."""
        return len(self._steps[WARM_UP:])

    def pace(self, prepare: float) -> Pace:
        """Return mean times, since a training takes the sum; `prepare` is the time in seconds before the training."""
        waits = [end - start for start, end in zip(self._requested, self._available, strict=True)]
        step = fmean(self._steps[WARM_UP:])
        before_validation = {validation.after for validation in self.validations}
        gaps = [
            requested - ended
            for number, (ended, requested) in enumerate(zip(self._step_ends, self._requested[1:], strict=False), 1)
            if number > WARM_UP and number not in before_validation
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
        """Return the seconds between the steps around a validation, without the time of its windows."""
        after = validation.after
        end = self._requested[after] if after < len(self._requested) else self._finished
        return end - self._step_ends[after - 1] - validation.windows * window


class _Validation:
    """The position of a validation, and the end times of its batches."""

    def __init__(self, after: int, begun: float) -> None:
        self.after = after  # steps before it
        self.windows = 0
        self._batch_ends = [begun]
        self._batch_sizes: list[int] = []

    def add(self, ended: float, size: int) -> None:
        self._batch_ends.append(ended)
        self._batch_sizes.append(size)
        self.windows += size

    def timed(self) -> tuple[float, int]:
        """Return seconds and windows of the batches; leave out the first, a warm-up, if the others are large enough."""
        first = 1 if sum(self._batch_sizes[1:]) >= self._batch_sizes[0] else 0
        return self._batch_ends[-1] - self._batch_ends[first], sum(self._batch_sizes[first:])


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
