"""Residuals of held-out windows: each half of the validation split, forecast by weights that the other selected."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from forecast.common.group import Group
from forecast.data.windows import Windows
from forecast.evaluation.evaluate import Evaluation, Forecaster, evaluate, residual_step
from forecast.evaluation.interval_scores import IntervalSums
from forecast.evaluation.intervals import Calibration

CROSS_FITTING, NOT_SELECTED, IN_SAMPLE = "cross-fitting", "not selected", "in-sample"

METHODS = {
    CROSS_FITTING: "validation in two halves; each is forecast with the step and mixing weight that the other selected",
    NOT_SELECTED: "all validation windows; they selected no weights of this forecaster",
    IN_SAMPLE: "all validation windows, which also selected the weights: too few for two halves without common targets",
}
"""Which windows calibrate intervals, by the name in `result.json`."""

CHUNK = 256
"""Windows that are scored at once."""


@dataclass(frozen=True)
class Halves:
    """Positions of the early and the late windows of a split; no target belongs to both."""

    early: range
    late: range

    def select(self, windows: Windows) -> tuple[Windows, Windows]:
        """Return the early and the late windows."""
        early, late = (
            replace(windows, starts=windows.starts[half.start : half.stop]) for half in (self.early, self.late)
        )
        return early, late


def halves(windows: Windows) -> Halves | None:
    """Return halves of nearly equal size that share no target; None if the windows are too few.

    Windows in the middle that share targets with both halves belong to neither.
    """
    starts = windows.starts.cpu()
    first_late = torch.searchsorted(starts, starts + windows.horizon)  # of each last early window
    early, late = torch.arange(len(starts)) + 1, len(starts) - first_late
    possible = late > 0
    if not possible.any():
        return None
    smaller = torch.where(possible, torch.minimum(early, late), 0)
    last = int(smaller.argmax())
    return Halves(range(last + 1), range(int(first_late[last]), len(starts)))


@dataclass(frozen=True)
class Folds:
    """The halves of the validation windows, and the weights that each half selected.

    `early` and `late` are state dicts of the network: their training step and mixing weight are the best on the early
    and on the late windows.
    """

    halves: Halves
    early: Mapping[str, Tensor]
    late: Mapping[str, Tensor]


@dataclass(frozen=True)
class Residuals:
    """Residuals (W, h, C, K) of some windows, z-scores, NaN where not observed, and their spread (W, 1, C)."""

    values: Tensor
    spread: Tensor

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Residuals":
        """Return the residuals that an evaluation kept."""
        assert evaluation.residuals is not None
        assert evaluation.spread is not None
        return cls(torch.from_numpy(evaluation.residuals), torch.from_numpy(evaluation.spread))

    def within(self, windows: Windows, half: range) -> "Residuals":
        """Return the residuals of the windows at the positions `half`; these are of every k-th window of `windows`."""
        step = residual_step(len(windows), windows.horizon, windows.num_targets)
        positions = np.arange(0, len(windows), step)
        kept = torch.from_numpy((positions >= half.start) & (positions < half.stop))
        return Residuals(self.values[kept], self.spread[kept])

    def calibrated(self, trained: tuple[float, ...]) -> Calibration:
        """Return the calibration by these residuals."""
        return Calibration.fit(self.values, self.spread, trained)


@dataclass(frozen=True)
class HeldOut:
    """Residuals of the early and the late windows; `late` is None if the split is too short for two halves.

    `method` is a key of `METHODS`, `num_windows` the number of windows before thinning.
    """

    early: Residuals
    late: Residuals | None
    method: str
    num_windows: int

    def calibration(self, trained: tuple[float, ...]) -> Calibration:
        """Return the calibration by all residuals."""
        if self.late is None:
            return self.early.calibrated(trained)
        whole = Residuals(
            torch.cat([self.early.values, self.late.values]), torch.cat([self.early.spread, self.late.spread])
        )
        return whole.calibrated(trained)

    def scores(self, trained: tuple[float, ...]) -> IntervalSums | None:
        """Return the sums of each half with the calibration by the other; None without two halves."""
        if self.late is None:
            return None
        calibrations = self.late.calibrated(trained), self.early.calibrated(trained)
        levels = [set(IntervalSums.zeros(calibration).levels) for calibration in calibrations]
        common = tuple(sorted(set.intersection(*levels)))
        sums = [
            _scores(half, IntervalSums.zeros(calibration, levels=common))
            for half, calibration in zip((self.early, self.late), calibrations, strict=True)
        ]
        return sums[0] + sums[1]


def _scores(half: Residuals, sums: IntervalSums) -> IntervalSums:
    """Return the sums with the windows of a half: its targets are 0, its forecasts are the negative residuals."""
    for values, spread in zip(half.values.split(CHUNK), half.spread.split(CHUNK), strict=True):
        observed = values[..., 0].isfinite()
        sums.update(-values.nan_to_num(), spread, torch.zeros_like(values[..., 0]), observed)
    return sums


def held_out(
    forecaster: Forecaster,
    network: nn.Module,
    windows: Windows,
    folds: Folds,
    batch_size: int,
    group: Group,
) -> HeldOut:
    """Return the residuals of each half, forecast by `network` with the weights that the other half selected.

    `forecaster` calls `network`, whose own weights are restored afterwards.
    """
    own = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    found = []
    try:
        for half, weights in zip(folds.halves.select(windows), (folds.late, folds.early), strict=True):
            network.load_state_dict(dict(weights))
            found.append(Residuals.of(evaluate(forecaster, half, batch_size, keep_residuals=True, group=group)))
    finally:
        network.load_state_dict(own)
    early, late = found
    return HeldOut(early, late, CROSS_FITTING, len(folds.halves.early) + len(folds.halves.late))


def split_residuals(evaluation: Evaluation, windows: Windows, *, selected: bool) -> HeldOut:
    """Return the residuals of an evaluation of `windows`, which have `selected` the weights of the forecaster or not.

    They are in halves only if they did not select the weights.
    """
    whole = Residuals.of(evaluation)
    if selected or (parts := halves(windows)) is None:
        return HeldOut(whole, None, IN_SAMPLE if selected else NOT_SELECTED, len(windows))
    early, late = (whole.within(windows, half) for half in (parts.early, parts.late))
    return HeldOut(early, late, NOT_SELECTED, len(parts.early) + len(parts.late))
