"""With any number of processes, each window is scored once and the sums cover all windows."""

import numpy as np
import pytest
import torch
from torch import Tensor

from forecast.common.group import ALONE, Group
from forecast.common.place import Place
from forecast.data.datamodule import EvaluationBatches
from forecast.data.windows import Batch, Windows
from forecast.evaluation import evaluate as module
from forecast.evaluation.evaluate import Evaluation, evaluate
from forecast.evaluation.metrics import Units
from tests.support.examples import make_windows
from tests.training.parallel.threads import together

CONTEXT, HORIZON = 8, 3


def windows_of(count: int) -> Windows:
    observed = torch.rand(CONTEXT + HORIZON - 1 + count, 3, generator=torch.Generator().manual_seed(1)) > 0.2
    return make_windows(CONTEXT + HORIZON - 1 + count, observed=observed)


def mean_of_context(batch: Batch) -> Tensor:
    assert len(batch.origin)  # an empty share has no batch
    return batch.past[..., :2].mean(1, keepdim=True).expand_as(batch.future)


UNITS = Units(np.array([5.0, -1.0]), np.array([1.0, 3.0]), np.array([1.0, 2.0]))


def scored(group: Group, windows: Windows) -> Evaluation:
    return evaluate(mean_of_context, windows, 4, keep_residuals=True, group=group, units=UNITS)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("count", range(1, 18))
def test_every_window_is_counted_once_with_any_number_of_processes(count: int, size: int) -> None:
    windows = windows_of(count)
    one = scored(ALONE, windows)
    several = together(size, lambda group: scored(group, windows))
    for evaluation in several:
        for name in ("squared", "absolute", "count"):
            torch.testing.assert_close(
                getattr(evaluation.sums, name), getattr(one.sums, name), rtol=1e-12, atol=0, equal_nan=True
            )
            assert torch.equal(getattr(evaluation.sums, name), getattr(several[0].sums, name))
    for evaluation in several:
        assert evaluation.original(UNITS.scale) == pytest.approx(one.original(UNITS.scale), rel=1e-12, nan_ok=True)
    for name in ("origin", "mse", "mae", "residuals"):
        np.testing.assert_array_equal(getattr(several[0], name), getattr(one, name))


@pytest.mark.parametrize("size", [2, 3])
def test_the_same_residuals_are_kept_with_any_number_of_processes(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESIDUALS", 17 * HORIZON * 2 // 4)
    monkeypatch.setattr(module, "LEAST_KEPT", 1)
    windows = windows_of(17)
    residuals = together(size, lambda group: scored(group, windows))[0].residuals
    assert residuals is not None
    assert 3 <= len(residuals) <= 5
    np.testing.assert_array_equal(residuals, scored(ALONE, windows).residuals)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_validation_loops_cover_every_window_once_and_in_order(size: int) -> None:
    windows = make_windows()
    loops = [EvaluationBatches(windows, 4, Group(Place(rank, size)).share(len(windows))) for rank in range(size)]
    batches = [list(loop) for loop in loops]
    assert [len(loop) for loop in loops] == [len(own) for own in batches]
    origins = torch.cat([batch.origin for own in batches for batch in own])
    assert origins.tolist() == list(range(CONTEXT, CONTEXT + len(windows)))
