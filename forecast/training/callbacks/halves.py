"""Selection of weights by each half of the validation windows, so that the other half can calibrate intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from forecast.evaluation.holdout import Folds, Halves
from forecast.evaluation.metrics import ROUNDING
from forecast.evaluation.significance import Evidence
from forecast.training.callbacks.checkpoints import copy_weights
from forecast.training.task import ForecastTask

NETWORK, SHARE = "network.", "network.combination.share"
"""Prefix of the network's weights in a task, and the name of its mixing weight."""

HALVES = ("early", "late")


@dataclass
class Choice:
    """The best weights by one half: training step, selection score, and a copy of the task's weights on the CPU."""

    step: int
    score: float
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class Start:
    """The scores of the weights before training, a candidate of both halves.

    `windows` (n,) is the selection score of each validation window in order of time, NaN without a target. `overlap`
    and `confidence` are those of `Evidence`; without a confidence, any better score replaces the start.
    """

    windows: Tensor
    overlap: int
    confidence: float | None


class HalfSelection(Callback):
    """Chooses training step and mixing weight a second and a third time, by each half of the validation windows alone.

    The rules are those of the run's own choice: the smallest selection score, and a significant gain over the weights
    before training. The network of the run does not change. Training itself ends by all windows, if early stopping
    ends it.

    Parameters
    ----------
    halves
        Positions of the windows of each half.
    start
        Scores of the weights before training; None if these are no candidate.
    weights
        The task's weights before training.
    """

    def __init__(self, halves: Halves, start: Start | None, weights: Mapping[str, Tensor]) -> None:
        self.halves = halves
        self.start = start
        self._shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in weights.items()}
        self.best: dict[str, Choice] = {}
        if start is not None:
            for name in HALVES:
                copied = {key: tensor.detach().cpu().clone() for key, tensor in weights.items()}
                self.best[name] = Choice(0, float(self._of(start.windows, name).nanmean()), copied)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Keep the weights for each half that scores them best so far."""
        assert isinstance(pl_module, ForecastTask)
        assert pl_module.sums is not None
        for name in HALVES:
            numbers = self._of(pl_module.window_numbers, name)
            share, score = pl_module.sums.choose(numbers.nanmean(0))
            if self._is_better(name, share, score, numbers, pl_module):
                weights = copy_weights(pl_module)
                if share is not None:
                    weights[SHARE] = torch.tensor(share, dtype=weights[SHARE].dtype)
                self.best[name] = Choice(trainer.global_step, score, weights)

    def folds(self) -> Folds | None:
        """Return the halves with the network's weights that each selected; None before the first choice."""
        if set(self.best) != set(HALVES):
            return None
        early, late = (
            {key.removeprefix(NETWORK): tensor for key, tensor in self.best[name].weights.items()} for name in HALVES
        )
        return Folds(self.halves, early, late)

    def state_dict(self) -> dict[str, Any]:
        """Return the choices so far and the scores before training."""
        return {
            "best": {name: dict(vars(choice)) for name, choice in self.best.items()} or None,
            "start": None if self.start is None else dict(vars(self.start)),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the choices; raise ValueError for weights of another model."""
        best, start = state_dict["best"] or {}, state_dict["start"]
        for choice in best.values():
            shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in choice["weights"].items()}
            finite = all(bool(torch.isfinite(tensor).all()) for tensor in choice["weights"].values())
            if shapes != self._shapes or not finite or not math.isfinite(choice["score"]):
                raise ValueError("the weights of a validation half do not fit this model")
        if best and set(best) != set(HALVES):
            raise ValueError("a validation half has no weights")
        self.start = None if start is None else Start(**start)
        if self.start is not None and self.start.windows.dim() != 1:
            raise ValueError("the scores before training do not fit the validation windows")
        self.best = {name: Choice(**choice) for name, choice in best.items()}

    def _is_better(self, name: str, share: float | None, score: float, numbers: Tensor, task: ForecastTask) -> bool:
        """Return whether the current weights replace the best of a half."""
        best = self.best.get(name)
        if best is None or not score < best.score * (1 - ROUNDING):
            return best is None
        if self.start is None or self.start.confidence is None:
            return True
        assert task.sums is not None
        start = self._of(self.start.windows, name)
        evidence = Evidence(float(start.nanmean()), start, self.start.overlap, self.start.confidence)
        return evidence.beaten_by(score, task.sums.window_scores(numbers, share))

    def _of(self, windows: Tensor, name: str) -> Tensor:
        half: range = getattr(self.halves, name)
        return windows[half.start : half.stop]
