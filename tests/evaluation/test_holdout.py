"""Blocks and halves of validation windows: no target belongs to a block and to the windows that select for it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.windows import Batch
from forecast.evaluation import holdout, metrics
from forecast.evaluation.adaptive import LEAST_OF_SERIES, Forms
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import (
    IN_SAMPLE,
    NOT_SELECTED,
    NUM_BLOCKS,
    HeldOut,
    Residuals,
    best_power,
    blocks,
    halves,
    split_residuals,
)
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


def test_a_power_is_chosen_on_the_latest_windows_of_a_large_split(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, seen = make_windows(rows=400, horizon=3), set[int]()

    def forecaster(batch: Batch) -> torch.Tensor:
        seen.update(batch.origin.tolist())
        return mean_of_context(batch)

    monkeypatch.setattr(holdout, "LEAST_KEPT", 20)
    monkeypatch.setattr(holdout, "MAX_SELECTING", 40 * windows.horizon * windows.num_targets)
    best_power(forecaster, windows, 32)
    last = int(windows.starts[-1]) + windows.context_length
    assert len(seen) == 40
    assert min(seen) > last - 42 * windows.horizon


def residuals_of_series(counts: list[int], sizes: list[float], seed: int = 0) -> Residuals:
    """Return residuals of a point forecast over 6 steps; each series has errors of its own size."""
    series = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(series), 6, 1, 1, generator=generator)
    order = torch.randperm(len(series), generator=generator)
    values = (noise * torch.tensor(sizes)[series, None, None, None])[order]
    places = torch.arange(len(series))
    covered = torch.zeros_like(values[..., 0]) > 0
    return Residuals(values, torch.ones(len(series), 1, 1), places, places, covered, series[order])


def coverage(calibration: Calibration, residuals: Residuals, scale: torch.Tensor) -> float:
    low, high = calibration.each_quantile(torch.zeros_like(residuals.values[..., 0]), scale, (0.1, 0.9))
    return float(((low <= residuals.values[..., 0]) & (residuals.values[..., 0] <= high)).float().mean())


def test_series_with_errors_of_their_own_size_are_covered_alike() -> None:
    counts, sizes = [60] * 4, [0.2, 0.5, 1.0, 4.0]
    found = HeldOut(residuals_of_series(counts, sizes), NOT_SELECTED, 240, None).by_series(4, ())
    assert found is not None
    form, _ = found
    fresh = residuals_of_series(counts, sizes, seed=1)
    assert fresh.series is not None
    plain = residuals_of_series(counts, sizes).calibrated(())
    for place in range(4):
        own = fresh._at(fresh.series == place)
        assert own.series is not None
        assert 0.7 < coverage(form.calibration, own, form.of_series(own.series)) < 0.9
    smallest = fresh._at(fresh.series == 0)
    assert coverage(plain, smallest, smallest.spread) > 0.95
    again = Forms.from_tensors(Forms(plain, form).tensors()).adaptive
    assert again is not None
    assert again.series is not None
    assert torch.equal(again.of_series(torch.arange(4)), form.of_series(torch.arange(4)))
    assert form.of_series(torch.tensor([-1, 3])).flatten()[0] == 1  # a new series has the level of all


def test_a_series_with_few_windows_and_series_with_equal_errors_have_the_level_of_all() -> None:
    few = LEAST_OF_SERIES - 1
    sizes, others = residuals_of_series([100, few], [1.0, 9.0]).sizes_of_series(2)
    assert sizes[1] == 1
    assert len(others) == 100 + few
    assert (
        HeldOut(residuals_of_series([few] * 9, [1.0] * 8 + [9.0]), NOT_SELECTED, 9 * few, None).by_series(9, ()) is None
    )


def test_the_size_that_calibrates_a_window_does_not_know_its_errors() -> None:
    clean = residuals_of_series([20, 20], [1.0, 1.0])
    values = clean.values.clone()
    values[3] *= 3
    changed = clean._replace(values=values)
    typical = clean.typical
    assert clean.series is not None
    one, other = (each.sizes_of_series(2)[1] * each.typical.mean() for each in (clean, changed))
    same = clean.series == clean.series[3]
    assert typical.shape == (6, 1)
    assert (one[same] - other[same]).abs().argmin() == int((same.cumsum(0) - 1)[3])
