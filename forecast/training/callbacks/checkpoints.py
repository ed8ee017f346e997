"""Checkpoints: the complete state of a run, saved between steps and restored before the first one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
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
    """The weights with the best validation score so far: a copy on the CPU. Step 0 is before training.

    The score is the MSE, or the quantile loss of a model of quantiles.
    """

    step: int
    score: float
    weights: dict[str, Tensor]


def copy_weights(task: ForecastTask) -> dict[str, Tensor]:
    """Return a copy of the weights on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in task.state_dict().items()}


@dataclass(eq=False, repr=False, kw_only=True)
class Checkpoints(Callback):
    """Keeps the best weights and writes checkpoints with the complete state of the run.

    It writes a checkpoint after each validation, every `minutes` between validations, at the end, and on a stop signal.
    A checkpoint includes the best weights, so one file is enough. With several processes the leading one writes, and a
    signal to any process stops all of them at the same step. It must be the last callback, so that the states of the
    other callbacks belong to the same step.

    Lightning's own restoring of loops is not used: it counts epochs, this run counts steps.

    `fingerprint` is a hash of the training data, `start` one of the weights of `start_from`. `best` has the weights
    before training if they are a candidate; only a gain that is significant by `evidence` replaces them (None: any
    gain). `resumed` is the content of the checkpoint to resume from. `after_save` is called after a save between a
    batch and its step, so that clocks can be restarted. `resume_hint` ends the interrupt message: how to resume.
    """

    folder: Path
    fingerprint: str
    start: str | None
    minutes: float
    best: Best | None
    evidence: Evidence | None
    resumed: dict[str, Any] | None
    after_save: Callable[[], None]
    resume_hint: str
    stop: StopRequest = field(default_factory=StopRequest, init=False)
    _saved_at: float = field(default=0.0, init=False)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore the state of the checkpoint, and make the validation that is due.

        It was interrupted, or the run now ends at a step between two validations.
        """
        assert isinstance(pl_module, ForecastTask)
        self.stop.listen()
        self._saved_at = time.monotonic()
        if self.resumed is None:
            return
        restore(trainer, pl_module, self.resumed)
        self.best = None if self.resumed["best"] is None else Best(**self.resumed["best"])
        self.evidence = None if self.resumed["evidence"] is None else Evidence(**self.resumed["evidence"])
        if self.resumed["validation_due"] or self.resumed["step"] >= pl_module.total_steps:
            validate(trainer)
        self.resumed = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Save between two steps after `minutes`; on a stop signal, save and stop."""
        assert isinstance(pl_module, ForecastTask)
        if number := pl_module.group.largest(self.stop.number or 0):
            self._save(trainer, pl_module)
            self._interrupt(trainer, number)
        if time.monotonic() - self._saved_at >= 60 * self.minutes:
            self._save(trainer, pl_module)
            self.after_save()

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """On a stop signal, save the step and stop; resuming repeats this validation."""
        assert isinstance(pl_module, ForecastTask)
        if self.stop.number is not None and pl_module.group.size == 1:  # processes may differ in number of batches
            self._save(trainer, pl_module, validation_due=True)
            self._interrupt(trainer, self.stop.number)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the weights if they are the best so far, and save."""
        assert isinstance(pl_module, ForecastTask)
        assert pl_module.sums is not None
        score = pl_module.sums.selection_score  # in float64, like the score before training
        check_validation(score, trainer.global_step)
        is_significant = self.evidence is None or self.evidence.beaten_by(score, pl_module.window_scores)
        if self.best is None or (is_significant and score < self.best.score * (1 - ROUNDING)):
            self.best = Best(trainer.global_step, score, copy_weights(pl_module))
        self._save(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the finished training, after which only the evaluation remains."""
        assert isinstance(pl_module, ForecastTask)
        self._save(trainer, pl_module, finished=True)
        self.stop.forget()
        if number := pl_module.group.largest(self.stop.number or 0):
            self._interrupt(trainer, number)

    def on_exception(self, *_: Any) -> None:
        """Restore the previous signal handlers."""
        self.stop.forget()

    def _save(
        self, trainer: Trainer, pl_module: LightningModule, *, validation_due: bool = False, finished: bool = False
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
            "start": self.start,
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

    def _interrupt(self, trainer: Trainer, number: int) -> None:
        reached = f"step {trainer.global_step:,} of {trainer.max_steps:,}"
        raise Interrupted(f"interrupted at {reached}, which is saved: resume with {self.resume_hint}", number)
