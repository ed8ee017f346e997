"""Progress of a training: a bar on a terminal, lines elsewhere, and an early line with the time that it takes."""

import statistics
import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.types import STEP_OUTPUT
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from forecast.common.timing import clock

REFRESH = 0.25
"""Seconds between two looks at the loss, for which a GPU has to finish its step."""

LINE = 60.0
"""Seconds between two lines without a terminal."""

ENOUGH = (3, 3.0)
"""Steps after the first, and seconds, both needed to estimate the time left."""

SLOW = 20.0
"""Seconds of steps that are enough for the estimate, however few the steps."""

LONG, VERY_LONG = 120.0, 1800.0
"""Seconds from which a training says how long it takes, and from which how to make it shorter."""

SHORTER = (
    "to make it shorter: fewer data.targets, training.max_steps, training.max_time or training.evaluation_stride; "
    "trainer=smoke is a trial of 30 steps"
)


class StepProgress(Callback):
    """Shows step of total, loss, validation error and time left, on standard output if no `console` is given.

    `interval` is the number of steps between validations; a validation takes `validation_seconds` (None: not known).
    """

    def __init__(self, interval: int, validation_seconds: float | None, console: Console | None = None) -> None:
        self.interval = interval
        self.validation_seconds = validation_seconds
        self.console = Console() if console is None else console
        self._bar = Progress(
            TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=self.console,
            refresh_per_second=2,
            transient=True,
        )
        self._task = self._bar.add_task("")
        self._seconds: list[float] = []
        self._first = 0
        self._began = self._last = self._shown = self._line = self._validation_began = 0.0
        self._validating, self._promised = "", False

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Begin at the step from which the training starts or resumes."""
        self._began = self._last = self._line = time.monotonic()
        self._first = trainer.global_step
        self._bar.update(self._task, total=trainer.max_steps, completed=self._first)
        if self.console.is_terminal:
            self._bar.start()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: STEP_OUTPUT,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count the step, and show it when it is time."""
        now = time.monotonic()
        self._seconds.append(now - self._last)
        self._last = now
        if not self._promised:
            self._promise(trainer)
        if now - self._shown >= REFRESH:
            self._show(trainer, now)

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Say that the validation runs."""
        self._validating, self._validation_began = "validating", time.monotonic()
        self._show(trainer, self._validation_began)

    def on_validation_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: STEP_OUTPUT,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Say how far the validation is."""
        self._validating = f"validating: batch {batch_idx + 1} of {trainer.num_val_batches[dataloader_idx]}"
        if (now := time.monotonic()) - self._shown >= REFRESH:
            self._show(trainer, now)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Show the error of the validation, whose time does not count for the next step."""
        now = time.monotonic()
        self.validation_seconds, self._validating = now - self._validation_began, ""
        self._last = now
        self._show(trainer, now)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Remove the bar."""
        self._stop()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Remove the bar."""
        self._stop()

    def text(self, trainer: lightning.Trainer, now: float) -> str:
        """Return loss, validation error and time left, where they are known."""
        metrics = trainer.callback_metrics
        parts = []
        if "train/loss" in metrics:
            parts.append(f"loss {float(metrics['train/loss']):.4f}")
        if "val/mse" in metrics:
            parts.append(f"validation MSE {float(metrics['val/mse']):.4f}")
        done, left = trainer.global_step - self._first, trainer.max_steps - trainer.global_step
        if self._validating:
            parts.append(self._validating)
        elif done >= 2 and left > 0:
            parts.append(f"{clock((now - self._began) / done * left)} left")
        return ", ".join(parts)

    def _stop(self) -> None:
        if self._bar.live.is_started:  # else it would print an empty line
            self._bar.stop()

    def _show(self, trainer: lightning.Trainer, now: float) -> None:
        self._shown = now
        self._bar.update(self._task, completed=trainer.global_step, description=self.text(trainer, now))
        if not self.console.is_terminal and now - self._line >= LINE:
            self._line = now
            self._say(f"step {trainer.global_step:,} of {trainer.max_steps:,}: {self.text(trainer, now)}")

    def _promise(self, trainer: lightning.Trainer) -> None:
        """Print once, for a long training only, how long it takes by the steps so far without the first."""
        steps = self._seconds[1:]
        if not steps or (sum(steps) < SLOW and (len(steps) < ENOUGH[0] or sum(steps) < ENOUGH[1])):
            return
        self._promised = True
        left, step = trainer.max_steps - trainer.global_step, statistics.median(steps)
        validations, one = left // self.interval + 1, self.validation_seconds or 0.0
        if (total := left * step + validations * one) < LONG:
            return
        each = f" of {clock(one)}" if one else ""
        work = f"{left:,} steps of {clock(step)} and {validations} validation{'s' * (validations > 1)}{each}"
        self._say(f"about {clock(total)} from here: {work}, then the scores; Ctrl-C saves the step")
        if total >= VERY_LONG:
            self._say(SHORTER)

    def _say(self, line: str) -> None:
        """Print a line above the bar, without wrapping it."""
        self.console.print(line, soft_wrap=True, markup=False, highlight=False)
