"""All that a run needs to go on where it was: saved at whole steps, put back before the first one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor

from forecast.common.errors import Interrupted
from forecast.common.finite import check_state, check_validation
from forecast.common.processes import StopRequest
from forecast.evaluation.metrics import ROUNDING
from forecast.evaluation.significance import Evidence
from forecast.runs.checkpoint import write_checkpoint
from forecast.training.callbacks.loop_state import restore, states_of, stopped_by, validate
from forecast.training.task import ForecastTask


@dataclass(frozen=True)
class Best:
    """The best weights so far by validation: their step (0: the start), their MSE, a copy on the CPU."""

    step: int
    mse: float
    weights: dict[str, Tensor]


def copy_weights(task: ForecastTask) -> dict[str, Tensor]:
    """Return a copy of the weights on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in task.state_dict().items()}


class Checkpoints(Callback):
    """Keeps the best weights, and writes the run's whole state.

    It writes after each validation, every `minutes` between them, at the end, and when a signal asks the
    run to stop; a checkpoint holds the best weights too, so that one file is enough. Of several processes the
    one that leads writes, and a signal to any of them stops all at the same step. It comes last among
    the callbacks: their state is then that of the same step.

    Lightning's own restoring of its loops is not used: it counts in epochs, this run in steps. What is
    put back is the step, the weights, the optimizer, the schedule and the other callbacks.

    Parameters
    ----------
    folder
        Where the checkpoints are.
    fingerprint
        Of the data; a checkpoint says what it was trained on.
    minutes
        Longest time between two checkpoints.
    best
        The start, where that is a candidate already.
    evidence
        What weights have to be sure of before they count as better than the start; None: nothing.
    resumed
        The content of the checkpoint to go on from.
    after_save
        Called where a save has come between a batch and its step, which others may be timing.
    again
        The words of the command line that go on with the run, for the line that says that it was interrupted.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fingerprint: str,
        minutes: float,
        best: Best | None,
        evidence: Evidence | None,
        resumed: dict[str, Any] | None,
        after_save: Callable[[], None],
        again: str,
    ) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        self.seconds = 60 * minutes
        self.best = best
        self.evidence = evidence
        self.resumed = resumed
        self.after_save = after_save
        self.again = again
        self.stop = StopRequest()
        self._saved_at = time.monotonic()

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Put the state of the checkpoint back, and make up for a validation that was cut short."""
        assert isinstance(pl_module, ForecastTask)
        self.stop.listen()
        self._saved_at = time.monotonic()
        if self.resumed is None:
            return
        restore(trainer, pl_module, self.resumed)
        self.best = None if self.resumed["best"] is None else Best(**self.resumed["best"])
        self.evidence = None if self.resumed["evidence"] is None else Evidence(**self.resumed["evidence"])
        if self.resumed["validation_due"]:
            validate(trainer)
        self.resumed = None

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Save between two steps where it is time to, and stop where a signal asks for it."""
        assert isinstance(pl_module, ForecastTask)
        if number := pl_module.group.largest(self.stop.number or 0):
            self._save(trainer, pl_module)
            self._interrupt(trainer, number)
        if time.monotonic() - self._saved_at >= self.seconds:
            self._save(trainer, pl_module)
            self.after_save()

    def on_validation_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: STEP_OUTPUT,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Save the step before this validation, which is then still due, where a signal asks to stop."""
        assert isinstance(pl_module, ForecastTask)
        if self.stop.number is not None and pl_module.group.size == 1:  # several have not as many batches each
            self._save(trainer, pl_module, validation_due=True)
            self._interrupt(trainer, self.stop.number)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Note the weights if they are the best so far, and save."""
        assert isinstance(pl_module, ForecastTask)
        assert pl_module.sums is not None
        mse = pl_module.sums.scaled()["mse"]  # in float64, as that of the start
        check_validation(mse, trainer.global_step)
        sure = self.evidence is None or self.evidence.beaten_by(mse, pl_module.window_mse)
        if self.best is None or (sure and mse < self.best.mse * (1 - ROUNDING)):
            self.best = Best(trainer.global_step, mse, copy_weights(pl_module))
        self._save(trainer, pl_module)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Save the end, from which only the evaluation is left to do."""
        assert isinstance(pl_module, ForecastTask)
        self._save(trainer, pl_module, finished=True)
        self.stop.forget()
        if number := pl_module.group.largest(self.stop.number or 0):
            self._interrupt(trainer, number)

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Restore the previous signal handlers."""
        self.stop.forget()

    def _save(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        *,
        validation_due: bool = False,
        finished: bool = False,
    ) -> None:
        assert isinstance(pl_module, ForecastTask)
        pl_module.guard.read()
        check_state(pl_module.state_dict(), trainer.optimizers[0], trainer.global_step)
        if not pl_module.group.leads:
            self._saved_at = time.monotonic()
            return
        scheduler = trainer.lr_scheduler_configs[0].scheduler
        content = {
            "step": trainer.global_step,
            "total_steps": pl_module.total_steps,
            "validation_due": validation_due,
            "stopped_by": stopped_by(trainer),
            "finished": finished,
            "data": self.fingerprint,
            "network": pl_module.state_dict(),
            "optimizer": trainer.optimizers[0].state_dict(),
            "scheduler": scheduler.state_dict(),
            "precision": trainer.precision_plugin.state_dict(),
            "callbacks": states_of(trainer),
            "best": None if self.best is None else vars(self.best),
            "evidence": None if self.evidence is None else vars(self.evidence),
        }
        write_checkpoint(self.folder, trainer.global_step, content)
        self._saved_at = time.monotonic()

    def _interrupt(self, trainer: lightning.Trainer, number: int) -> None:
        reached = f"step {trainer.global_step:,} of {trainer.max_steps:,}"
        raise Interrupted(f"interrupted at {reached}, which is saved: {self.again}", number)
