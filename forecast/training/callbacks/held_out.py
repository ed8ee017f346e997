"""Selection of weights without each block of the validation windows, so that the block can calibrate intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from forecast.evaluation.holdout import Block, HeldOutBlock
from forecast.evaluation.metrics import ROUNDING
from forecast.evaluation.significance import FEWEST, Evidence, count_blocks
from forecast.training.callbacks.checkpoints import Best, copy_weights
from forecast.training.task import ForecastTask

NETWORK, MIXING_WEIGHT = "network.", "network.combination.mixing_weight"
"""Prefix of the network's weights in a task, and the name of its mixing weight."""


@dataclass(frozen=True)
class Start:
    """The scores of the weights before training, a candidate for all blocks.

    `windows` (n,) is the selection score of each validation window in order of time, NaN without a target. `overlap`
    and `confidence` are those of `Evidence`; without a confidence, any better score replaces the start.
    """

    windows: Tensor
    overlap: int
    confidence: float | None


class HeldOutSelection(Callback):
    """Chooses training step and mixing weight again for each block, by the validation windows apart from it.

    The rules are the run's own: the smallest selection score, and a significant gain over the weights before training.
    If the full validation split can judge a gain, so can the split without one block. The network of the run does not
    change. Early stopping looks at all windows. Blocks that choose the same step share one copy of the weights. With
    the same mixing weight they share the dictionary too, which is faster to save.

    Parameters
    ----------
    blocks
        Positions of the windows of each block, and of those that select for it.
    start
        Scores of the weights before training; None if these are no candidate.
    weights
        The task's weights before training, for each block.
    """

    def __init__(self, blocks: Sequence[Block], start: Start | None, weights: Sequence[dict[str, Tensor]]) -> None:
        self.blocks = list(blocks)
        self.start = start
        self._shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in weights[0].items()}
        self.best: list[Best] = []  # of each block
        if start is not None:
            self.best = [
                Best(0, float(block.selecting(start.windows).nanmean()), own)
                for block, own in zip(self.blocks, weights, strict=True)
            ]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the weights for each block whose other windows score them best so far."""
        assert isinstance(pl_module, ForecastTask)
        assert pl_module.sums is not None
        first, weights = not self.best, None
        chosen: dict[float | None, dict[str, Tensor]] = {}
        for place, block in enumerate(self.blocks):
            numbers = block.selecting(pl_module.window_numbers)
            mixing_weight, score = pl_module.sums.choose(numbers.nanmean(0))
            if first or self._is_better(place, mixing_weight, score, numbers, pl_module):
                if mixing_weight not in chosen:
                    weights = copy_weights(pl_module) if weights is None else weights
                    chosen[mixing_weight] = dict(weights)
                    if mixing_weight is not None:
                        dtype = weights[MIXING_WEIGHT].dtype
                        chosen[mixing_weight][MIXING_WEIGHT] = torch.tensor(mixing_weight, dtype=dtype)
                self.best[place : place + 1] = [Best(trainer.global_step, score, chosen[mixing_weight])]

    def held_out_blocks(self) -> list[HeldOutBlock] | None:
        """Return the blocks with the network's weights that were selected for each; None before the first choice."""
        if not self.best:
            return None
        return [
            HeldOutBlock(block, {key.removeprefix(NETWORK): tensor for key, tensor in choice.weights.items()})
            for block, choice in zip(self.blocks, self.best, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the choices so far and the scores before training."""
        return {
            "best": [dict(vars(choice)) for choice in self.best],
            "start": None if self.start is None else dict(vars(self.start)),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the choices; raise ValueError for weights of another model."""
        best, start = state_dict["best"], state_dict["start"]
        for choice in best:
            shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in choice["weights"].items()}
            finite = all(bool(torch.isfinite(tensor).all()) for tensor in choice["weights"].values())
            if shapes != self._shapes or not finite or not math.isfinite(choice["score"]):
                raise ValueError("the weights of a validation block do not fit this model")
        if best and len(best) != len(self.blocks):
            raise ValueError("a validation block has no weights")
        self.start = None if start is None else Start(**start)
        if self.start is not None and self.start.windows.dim() != 1:
            raise ValueError("the scores before training do not fit the validation windows")
        self.best = [Best(**choice) for choice in best]

    def _is_better(
        self, place: int, mixing_weight: float | None, score: float, numbers: Tensor, task: ForecastTask
    ) -> bool:
        """Return whether the current weights replace the best of a block."""
        if not score < self.best[place].score * (1 - ROUNDING):
            return False
        if self.start is None or self.start.confidence is None:
            return True
        assert task.sums is not None
        start = self.blocks[place].selecting(self.start.windows)
        evidence = Evidence(float(start.nanmean()), start, self.start.overlap, self.start.confidence)
        enough = self._count_blocks(self.start.windows) >= FEWEST
        fewest = max(2, min(FEWEST, self._count_blocks(start))) if enough else FEWEST
        return evidence.beaten_by(score, task.sums.window_scores(numbers, mixing_weight), fewest)

    def _count_blocks(self, windows: Tensor) -> int:
        """Return the number of blocks of windows (n,) with a score."""
        assert self.start is not None
        return count_blocks(int((~windows.isnan()).sum()), self.start.overlap)
