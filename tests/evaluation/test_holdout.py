"""Blocks and halves of validation windows: no target belongs to a block and to the windows that select for it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.evaluation import metrics
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import IN_SAMPLE, NOT_SELECTED, NUM_BLOCKS, blocks, halves, split_residuals
from forecast.evaluation.intervals import Calibration
from tests.evaluation.test_evaluate import mean_of_context
from tests.support.examples import make_windows

SPLITS = st.tuples(st.integers(12, 400), st.integers(1, 60), st.integers(1, 4))


def targets(starts: torch.Tensor, places: range, horizon: int) -> set[int]:
    return {row for place in places for row in range(int(starts[place]), int(starts[place]) + horizon)}


def windows_of(count: int, horizon: int, stride: int) -> object:
    windows = make_windows(rows=8 + horizon + count * stride, horizon=horizon)
    return windows.every(stride)


@settings(max_examples=60, deadline=None)
@given(SPLITS)
def test_blocks_share_no_target_with_the_windows_that_select_for_them(split: tuple[int, int, int]) -> None:
    count, horizon, stride = split
    windows = windows_of(count, horizon, stride)
    found = blocks(windows)
    if found is None:
        assert len(windows) <= 2 * horizon + NUM_BLOCKS
        return
    places = [place for block in found for place in block.held_out]
    assert places == list(range(len(windows)))
    for block in found:
        own = targets(windows.starts, block.held_out, horizon)
        for part in (block.before, block.after):
            assert not own & targets(windows.starts, part, horizon)
        near = [place for place in range(len(windows)) if place not in (*block.before, *block.after)]
        assert all(own & targets(windows.starts, range(place, place + 1), horizon) for place in near)


@settings(max_examples=60, deadline=None)
@given(SPLITS)
def test_halves_share_no_target(split: tuple[int, int, int]) -> None:
    windows = windows_of(*split)
    found = halves(windows)
    if found is None:
        assert len(windows) <= split[1]
        return
    early, late = found
    assert early[0] == 0
    assert late[-1] == len(windows) - 1
    assert not targets(windows.starts, early, split[1]) & targets(windows.starts, late, split[1])
    assert abs(len(early) - len(late)) <= 1


@pytest.mark.parametrize("chunk", [7 * 6, 2**18])
def test_held_out_scores_use_the_calibration_of_the_other_half(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    windows = make_windows(rows=120)
    evaluation = evaluate(mean_of_context, windows, 16, keep_residuals=True)
    kept = split_residuals(evaluation, windows, selected=False)
    assert kept.method == NOT_SELECTED
    sums = kept.scores(())
    assert sums is not None
    early, late = (np.array(part) for part in halves(windows) or ())
    assert (metrics.windows_at_once(kept.residuals.values[..., 0]) < len(early)) == (chunk < 2**18)
    residuals, spread = kept.residuals.values, kept.residuals.spread
    inside = []
    for own, other in ((early, late), (late, early)):
        calibration = Calibration.fit(residuals[other], spread[other])
        low, high = calibration.quantiles(torch.zeros(len(own), 3, 2), spread[own], (0.1, 0.9)).unbind(-1)
        error = residuals[own, ..., 0]
        inside.append(((error >= low) & (error <= high)).sum(0))
    assert torch.equal(sums.inside[0].long(), inside[0] + inside[1])
    assert int(sums.count[0, 0]) == len(early) + len(late)


@pytest.mark.parametrize("selected", [True, False])
def test_windows_that_selected_the_weights_give_no_held_out_score(selected: bool) -> None:
    windows = make_windows(rows=120)
    kept = split_residuals(evaluate(mean_of_context, windows, 16, keep_residuals=True), windows, selected=selected)
    assert (kept.scores(()) is None) is selected
    assert kept.method == (IN_SAMPLE if selected else NOT_SELECTED)
    assert len(kept.calibration(()).scores) == len(windows)


def test_a_block_whose_other_windows_have_no_target_cannot_be_selected_for() -> None:
    observed = torch.ones(120, 3, dtype=torch.bool)
    windows = make_windows(rows=8 + 23 + 9, observed=observed[:40], horizon=10)
    assert blocks(windows) is not None
    observed[25:40] = False  # the targets of all windows that share none with the first block
    assert blocks(make_windows(rows=8 + 23 + 9, observed=observed[:40], horizon=10)) is None
