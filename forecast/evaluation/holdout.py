"""Residuals of held-out windows: each block of the validation split, forecast by weights that the others selected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from forecast.common.group import Group
from forecast.data.windows import Windows
from forecast.evaluation.adaptive import (
    LEAST,
    LEAST_OF_SERIES,
    MOST,
    POWERS,
    PRIOR_WINDOWS,
    TINY,
    Adaptive,
    RowErrors,
)
from forecast.evaluation.evaluate import LEAST_KEPT, Evaluation, Forecaster, evaluate, residual_places
from forecast.evaluation.interval_scores import IntervalSums
from forecast.evaluation.intervals import Calibration, interval_levels, middle
from forecast.evaluation.limits import Limits
from forecast.evaluation.metrics import windows_at_once

NUM_BLOCKS = 10
"""Number of validation blocks for cross-fitting.

Each leaves most windows for the selection, so its weights resemble the run's own. With two blocks on PJM East, their
errors at the first step were 1.6 times as large as those of the run; with ten, 1.1 times.
"""

AT_ONCE = 256
"""Windows whose past errors are averaged together."""

MAX_SELECTING = 2**23
"""Maximum number of residuals by which a power is chosen (32 MiB)."""

LEAST_TRAINING = 10
"""Fewest horizons of training windows by which a power is chosen."""

BEFORE = -1
"""Position of a training window among the windows of validation."""

CROSS_FITTING, NOT_SELECTED, IN_SAMPLE = "cross-fitting", "not selected", "in-sample"

METHODS = {
    CROSS_FITTING: f"validation in {NUM_BLOCKS} blocks; each is forecast with the step and mixing weight that the "
    "others selected",
    NOT_SELECTED: "all validation windows; they selected no weights of this forecaster",
    IN_SAMPLE: "all validation windows, which also selected the weights: too few for blocks without common targets",
}
"""Which windows calibrate intervals, by the name in `result.json`."""


@dataclass(frozen=True)
class Block:
    """Positions of consecutive windows, and of the windows before and after them that share no target with them."""

    held_out: range
    before: range
    after: range

    @property
    def is_selected(self) -> bool:
        """Whether other windows select the weights of this block."""
        return len(self.before) + len(self.after) > 0

    def selecting(self, values: Tensor) -> Tensor:
        """Return the rows of `values` (n, ...), one for each window of the split, that select for this block."""
        parts = [values[part.start : part.stop] for part in (self.before, self.after)]
        return torch.cat(parts)


def blocks(windows: Windows) -> list[Block] | None:
    """Return blocks of nearly equal size, which hold all windows; None if one would have no target to select by."""
    measured = windows.with_target.cpu()
    starts, count = windows.steps, len(windows)
    ends = [count * place // NUM_BLOCKS for place in range(NUM_BLOCKS + 1)]
    found = []
    for first, stop in pairwise(ends):
        if first == stop:
            return None
        before = int(torch.searchsorted(starts, starts[first] - windows.horizon, right=True))
        after = int(torch.searchsorted(starts, starts[stop - 1] + windows.horizon))
        found.append(Block(range(first, stop), range(before), range(after, count)))
    return found if all(block.selecting(measured).any() for block in found) else None


def halves(windows: Windows) -> tuple[range, range] | None:
    """Return the positions of the early and the late windows, nearly equal in number; None if the windows are too few.

    No target belongs to both. Windows in the middle that share targets with both belong to neither.
    """
    starts = windows.steps
    first_late = torch.searchsorted(starts, starts + windows.horizon)  # of each last early window
    early, late = torch.arange(len(starts)) + 1, len(starts) - first_late
    possible = late > 0
    if not possible.any():
        return None
    smaller = torch.where(possible, torch.minimum(early, late), 0)
    last = int(smaller.argmax())
    return range(last + 1), range(int(first_late[last]), len(starts))


@dataclass(frozen=True)
class HeldOutBlock:
    """A block of the validation windows, and the state dict of the network that its other windows selected."""

    block: Block
    weights: Mapping[str, Tensor]


class Residuals(NamedTuple):
    """Residuals (W, h, C, K) of windows in order of time, z-scores, NaN where not observed.

    `spread` (W, 1, C) is the spread of each window, `positions` (W,) its place in the split, `origins` (W,) the row of
    its first target. `covered` (W, h, C) are targets on a limit that intervals reach, and so cover whatever their
    width. `series` (W,) are the series of a panel.
    """

    values: Tensor
    spread: Tensor
    positions: Tensor
    origins: Tensor
    covered: Tensor
    series: Tensor | None = None

    @classmethod
    def of(cls, evaluation: Evaluation, windows: Windows, positions: np.ndarray | None = None) -> "Residuals":
        """Return the residuals that an evaluation kept, of windows at these positions in the split `windows`.

        None: those that an evaluation of the whole split keeps.
        """
        assert evaluation.residuals is not None
        assert evaluation.spread is not None
        assert evaluation.held is not None
        kept = residual_places(len(windows), windows.horizon, windows.num_targets)
        places = kept if positions is None else torch.from_numpy(positions)
        origins = windows.starts.cpu()[places] + windows.context_length
        series = None if windows.panel is None else windows.panel.series.cpu()[origins]
        values, spread, covered = map(torch.from_numpy, (evaluation.residuals, evaluation.spread, evaluation.held))
        return cls(values, spread, places, origins, covered, series)

    @classmethod
    def joined(cls, parts: "Sequence[Residuals]") -> "Residuals":
        """Return the residuals of several parts."""
        columns = zip(*parts, strict=True)
        return cls._make(None if column[0] is None else torch.cat(column) for column in columns)

    def within(self, part: range) -> "Residuals":
        """Return the residuals of the windows at the positions `part`."""
        return self._at((self.positions >= part.start) & (self.positions < part.stop))

    def _at(self, kept: Tensor) -> "Residuals":
        return Residuals._make(None if part is None else part[kept] for part in self)

    @property
    def scored_values(self) -> Tensor:
        """The residuals by which intervals are calibrated: those of covered targets are as if on the median."""
        if not self.covered.any():
            return self.values
        moved = self.values - middle(self.values)[..., None]
        return torch.where(self.covered[..., None] & self.values.isfinite(), moved, self.values)

    def calibrated(self, trained: tuple[float, ...]) -> Calibration:
        """Return the calibration by these residuals."""
        return Calibration.fit(self.scored_values, self.spread, trained)

    @property
    def typical(self) -> Tensor:
        """Mean of |residual| over the spread, of the point forecast by step and series, (h, C)."""
        return (middle(self.values).abs() / self.spread).nanmean(0).nan_to_num()

    def sizes(self) -> tuple[Tensor, "Residuals"]:
        """Return the relative size of the errors before each window (W', 1, C), of windows that have it, and these."""
        errors, found = RowErrors(self.typical), []
        parts = (part.split(AT_ONCE) for part in (self.origins, middle(self.values), self.spread))
        for origins, point, spread in zip(*parts, strict=True):
            errors.add(origins, point, spread)
            found.append(errors.before(origins))
        size, known = (torch.cat(parts) for parts in zip(*found, strict=True))
        enough = known.all(2).all(1)
        return size[enough], self._at(enough)

    def sizes_of_series(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the relative size of the errors of each of `count` series, (S, 1, C), and of their other windows.

        The latter (W, 1, C) leave out the window itself.
        """
        assert self.series is not None
        relative = (middle(self.values).abs() / self.spread / self.typical.clamp(min=TINY)).clamp(max=MOST)
        own, seen = relative.nansum(1), relative.isfinite().sum(1)  # (W, C)
        empty = own.new_zeros(count, own.shape[1])
        total, number = (empty.index_add(0, self.series, part.to(own.dtype)) for part in (own, seen))
        windows = torch.bincount(self.series, minlength=count)[:, None]
        others = _size(total[self.series] - own, number[self.series] - seen, windows[self.series] - 1)
        return _size(total, number, windows), others

    def scaled(self, scale: Tensor) -> "Residuals":
        """Return the residuals of quantiles stretched about the median, with a scaled spread; `scale` is (W, 1, C)."""
        values = self.values
        if values.shape[-1] > 1:
            median = middle(values)[..., None]
            values = median + scale[..., None] * (values - median)
        return self._replace(values=values, spread=self.spread * scale)


@dataclass(frozen=True)
class HeldOut:
    """Residuals of validation windows, and how they were held out: `method` is a key of `METHODS`.

    `num_windows` is the number of windows before thinning. `halves` are those of the split, None if it is too short.
    `num_training` training windows come before those of validation, at the position `BEFORE`.
    """

    residuals: Residuals
    method: str
    num_windows: int
    halves: tuple[range, range] | None
    num_training: int = 0

    def after(self, training: Residuals) -> "HeldOut":
        """Return the residuals with those of training windows, forecast by maps that other windows fitted."""
        training = training._replace(positions=torch.full_like(training.positions, BEFORE))
        residuals = Residuals.joined([training, self.residuals])
        return replace(self, residuals=residuals, num_training=len(training.values))

    def calibration(self, trained: tuple[float, ...]) -> Calibration:
        """Return the calibration by all residuals."""
        return self.residuals.calibrated(trained)

    def adapted(self, power: float) -> "HeldOut | None":
        """Return the residuals scaled by the errors before them; None if too few windows have such errors."""
        if not power:
            return None
        size, residuals = self.residuals.sizes()
        if len(size) < max(2 * LEAST_KEPT, 2 / 3 * len(self.residuals.values)):
            return None
        return replace(self, residuals=residuals.scaled(size**power))

    def by_series(self, count: int, trained: tuple[float, ...]) -> "tuple[Adaptive, HeldOut] | None":
        """Return the form in which each of `count` series has its own level, and the residuals in it.

        None if the plain form scores as well, since the errors of the series are alike or their windows too few.
        """
        sizes, others = self.residuals.sizes_of_series(count)
        power = 0.0 if (others == 1).all() else _best_power(self.residuals, others, trained)
        if not power:
            return None
        scaled = replace(self, residuals=self.residuals.scaled(others**power))
        return Adaptive(self.residuals.typical, power, scaled.calibration(trained), sizes), scaled

    def scores(self, trained: tuple[float, ...]) -> IntervalSums | None:
        """Return the sums of each half with the calibration by the other; None if they would not be held out."""
        if self.halves is None or self.method == IN_SAMPLE:
            return None
        early, late = (self.residuals.within(half) for half in self.halves)
        calibrations = late.calibrated(trained), early.calibrated(trained)
        levels = [set(IntervalSums.zeros(calibration).levels) for calibration in calibrations]
        common = tuple(sorted(set.intersection(*levels)))
        sums = [
            _scores(half, IntervalSums.zeros(calibration, levels=common))
            for half, calibration in zip((early, late), calibrations, strict=True)
        ]
        return sums[0] + sums[1]


def _scores(half: Residuals, sums: IntervalSums) -> IntervalSums:
    """Return the sums with the windows of a half: its targets are 0, its forecasts are the negative residuals."""
    size = windows_at_once(half.values[..., 0])
    for values, spread in zip(half.scored_values.split(size), half.spread.split(size), strict=True):
        observed = values[..., 0].isfinite()
        sums.update(-values.nan_to_num(), spread, torch.zeros_like(values[..., 0]), observed)
    return sums


@torch.inference_mode()
def best_power(forecaster: Forecaster, train: Windows, batch_size: int, limits: Limits | None = None) -> float:
    """Return the power of `POWERS` whose adaptive 80 % intervals score best on the training windows.

    A validation split can be shorter than a season, in which errors may be alike; the training split has all seasons.
    `forecaster` should have few parameters, since it was fitted there. Of a large split, the latest windows are scored.
    0 if the split has too few windows.
    """
    every = -(-len(train) * train.horizon * train.num_targets // MAX_SELECTING)
    if len(train) < LEAST_TRAINING * train.horizon:
        return 0.0
    windows = train.thinned(min(every, train.horizon))
    latest = max(LEAST_KEPT, MAX_SELECTING // (train.horizon * train.num_targets))
    windows = replace(windows, starts=windows.starts[-latest:])
    evaluation = evaluate(forecaster, windows, batch_size, keep_residuals=True, limits=limits)
    size, residuals = Residuals.of(evaluation, windows).sizes()
    if len(size) < LEAST_KEPT:
        return 0.0
    return _best_power(residuals, size, ())


def _best_power(residuals: Residuals, size: Tensor, trained: tuple[float, ...]) -> float:
    """Return the power of `POWERS` by which sizes (W, 1, C) scale the 80 % intervals that score best."""
    scores = []
    for power in POWERS:
        own = residuals.scaled(size**power)
        calibration = own.calibrated(trained)
        levels = interval_levels(80)
        if not all(map(calibration.supports, levels)):
            return 0.0
        sums = _scores(own, IntervalSums.zeros(calibration, levels=levels))
        scores.append(float((sums.winkler[0].sum(0) / sums.count.sum(0)).nanmean()))
    return POWERS[scores.index(min(scores))]


def _size(total: Tensor, number: Tensor, windows: Tensor) -> Tensor:
    """Return means (n, 1, C) of `number` relative errors, shrunk by `PRIOR_WINDOWS` windows of 1; 1 for few windows."""
    size = (total / number.clamp(min=1)).clamp(min=LEAST) ** (windows / (windows + PRIOR_WINDOWS))
    return torch.where(windows >= LEAST_OF_SERIES, size, 1.0).clamp(LEAST, MOST)[:, None].float()


def held_out(
    forecaster: Forecaster,
    network: nn.Module,
    windows: Windows,
    held_out_blocks: Sequence[HeldOutBlock],
    batch_size: int,
    group: Group,
    limits: Limits | None = None,
) -> HeldOut | None:
    """Return the residuals of each block, forecast by `network` with the weights that the other windows selected.

    `forecaster` calls `network`, whose own weights are restored afterwards. None: this process does not lead.
    """
    weights = network.state_dict()
    loaded: Mapping[str, Tensor] = {}
    own = {name: tensor.clone() for name, tensor in weights.items()}
    places = residual_places(len(windows), windows.horizon, windows.num_targets).numpy()
    parts = []
    try:
        for one in held_out_blocks:
            positions = places[(places >= one.block.held_out.start) & (places < one.block.held_out.stop)]
            for name, tensor in weights.items():
                if loaded.get(name) is not one.weights[name]:  # most blocks share the weights of one step
                    tensor.copy_(one.weights[name])
            loaded = one.weights
            block = replace(windows, starts=windows.starts[torch.from_numpy(positions).to(windows.starts.device)])
            evaluation = evaluate(forecaster, block, batch_size, keep_residuals=True, group=group, limits=limits)
            if group.leads:
                parts.append(Residuals.of(evaluation, windows, positions))
    finally:
        network.load_state_dict(own)
    method = CROSS_FITTING if any(one.block.is_selected for one in held_out_blocks) else NOT_SELECTED
    return HeldOut(Residuals.joined(parts), method, len(windows), halves(windows)) if group.leads else None


def split_residuals(evaluation: Evaluation, windows: Windows, *, selected: bool) -> HeldOut:
    """Return the residuals of an evaluation of `windows`, which `selected` the weights of the forecaster or not."""
    residuals = Residuals.of(evaluation, windows)
    return HeldOut(residuals, IN_SAMPLE if selected else NOT_SELECTED, len(windows), halves(windows))
