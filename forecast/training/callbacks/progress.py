"""Progress of a training: a bar on a terminal, a line that changes in a notebook, lines elsewhere, and an estimate.

A quiet training shows the bar or the line of a notebook, and prints nothing.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from forecast.common.progress import is_quiet, notebook_line
from forecast.common.timing import clock
from forecast.training.callbacks.loop_state import seconds_allowed

REFRESH = 0.25
"""Seconds between two updates."""

LINE = 60.0
"""Seconds between two printed lines if there is no terminal."""

ENOUGH = (3, 3.0)
"""Steps after the first, and their seconds; both are needed to estimate the time left."""

SLOW = 20.0
"""Seconds that are enough for the estimate with any number of steps."""

LONG, VERY_LONG = 120.0, 1800.0
"""Seconds from which the estimated time is printed, and from which hints to shorten it are printed too."""

SHORTER = (
    "to make it shorter: fewer data.targets, training.max_steps, training.max_time or training.evaluation_stride; "
    "trainer=smoke is a trial of 30 steps"
)


class StepProgress(Callback):
    """Shows steps, loss, validation error and time left on `console`.

    None: standard output, or standard error if the thread is quiet.

    `interval` is the number of steps between validations; a validation takes `validation_seconds` (None: unknown).
    """

    def __init__(self, interval: int, validation_seconds: float | None, console: Console | None = None) -> None:
        self.interval = interval
        self.validation_seconds = validation_seconds
        self.console = Console(stderr=is_quiet()) if console is None else console
        self._cell: Callable[[str], None] | None = None
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
        self._validating, self._is_estimated = "", False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the step from which the training starts or resumes."""
        self._began = self._last = self._line = time.monotonic()
        self._first = trainer.datamodule.first_step  # type: ignore[attr-defined]  # restored after this
        self._bar.update(self._task, total=trainer.max_steps, completed=self._first)
        if self.console.is_jupyter:
            self._cell = notebook_line()
        elif self.console.is_terminal:
            self._bar.start()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Count the step, and show it after `REFRESH` seconds."""
        now = time.monotonic()
        self._seconds.append(now - self._last)
        self._last = now
        if not self._is_estimated:
            self._print_estimate(trainer)
        if now - self._shown >= REFRESH:
            self._show(trainer, now)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show that the validation is running."""
        self._validating, self._validation_began = "validating", time.monotonic()
        self._show(trainer, self._validation_began)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Show the progress of the validation."""
        self._validating = f"validating: batch {batch_idx + 1} of {trainer.num_val_batches[dataloader_idx]}"
        if (now := time.monotonic()) - self._shown >= REFRESH:
            self._show(trainer, now)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the validation error; the validation does not count as time of the next step."""
        now = time.monotonic()
        self.validation_seconds, self._validating = now - self._validation_began, ""
        self._last = now
        self._show(trainer, now)

    def on_train_end(self, *_: Any) -> None:
        """Remove the bar."""
        if self._bar.live.is_started:  # else it would print an empty line
            self._bar.stop()

    def on_exception(self, *_: Any) -> None:
        """Remove the bar."""
        self.on_train_end()

    def text(self, trainer: Trainer, now: float) -> str:
        """Return loss, validation error and time left, as far as they are known."""
        metrics = trainer.callback_metrics
        facts = []
        if "train/loss" in metrics:
            facts.append(f"training loss {float(metrics['train/loss']):.4f}")
        if "val/mse" in metrics:
            facts.append(f"validation MSE {float(metrics['val/mse']):.4f}")
        done, left = trainer.global_step - self._first, trainer.max_steps - trainer.global_step
        if self._validating:
            facts.append(self._validating)
        elif done >= 2 and left > 0 and (allowed := seconds_allowed(trainer)) > 0:
            facts.append(f"{clock(min((now - self._began) / done * left, allowed))} left")
        return ", ".join(facts)

    def _show(self, trainer: Trainer, now: float) -> None:
        self._shown = now
        text = self.text(trainer, now)
        self._bar.update(self._task, completed=trainer.global_step, description=text)
        line = f"step {trainer.global_step:,} of {trainer.max_steps:,}: {text}"
        if self._cell is not None:
            self._cell(line)
        elif not self.console.is_terminal and now - self._line >= LINE:
            self._line = now
            self._print(line)

    def _print_estimate(self, trainer: Trainer) -> None:
        """Print, once and for a long training only, the time left as estimated from all steps but the first."""
        steps = self._seconds[1:]
        if not steps or (sum(steps) < SLOW and (len(steps) < ENOUGH[0] or sum(steps) < ENOUGH[1])):
            return
        self._is_estimated = True
        left, step = trainer.max_steps - trainer.global_step, statistics.median(steps)
        validations, validation = left // self.interval + 1, self.validation_seconds or 0.0
        needed = left * step + validations * validation
        if (total := min(needed, seconds_allowed(trainer) + validation)) < LONG:
            return
        time_of_each = f" of {clock(validation)}" if validation else ""
        work = f"{left:,} steps of {clock(step)} and {validations} validation{'s' * (validations > 1)}{time_of_each}"
        if total < needed:
            work = f"training.max_time ends it before {work} ({clock(needed)})"
        self._print(f"about {clock(total)} left: {work}, then scoring; Ctrl-C saves a checkpoint")
        if total >= VERY_LONG:
            self._print(SHORTER)

    def _print(self, line: str) -> None:
        """Print a line above the bar without wrapping, unless the training is quiet."""
        if not is_quiet():
            self.console.print(line, soft_wrap=True, markup=False, highlight=False)
