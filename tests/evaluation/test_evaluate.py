import time

import numpy as np
import pytest
import torch
from torch import Tensor

from forecast.data.windows import Batch
from forecast.evaluation import evaluate as module
from forecast.evaluation import metrics
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.intervals import Calibration
from forecast.evaluation.metrics import Units
from forecast.model.presets import Sizes
from tests.support.examples import make_model, make_windows


def mean_of_context(batch: Batch) -> Tensor:
    return batch.past[..., :2].mean(1, keepdim=True).expand_as(batch.future)


def test_every_window_is_scored_against_its_own_future() -> None:
    windows = make_windows()
    evaluation = evaluate(mean_of_context, windows, 16)
    table = windows.values.double().numpy()
    expected = []
    for start in range(50):
        past, future = table[start : start + 8, :2], table[start + 8 : start + 11, :2]
        expected.append(np.square(past.mean(0) - future).mean())
    assert evaluation.origin.tolist() == list(range(8, 58))
    np.testing.assert_allclose(evaluation.mse, expected, rtol=1e-5)
    assert evaluation.sums.scaled()["mse"] == pytest.approx(np.mean(expected), rel=1e-6)
    assert evaluation.sums.count.tolist() == [[50, 50]] * 3


def test_scores_do_not_depend_on_the_batch_size() -> None:
    sizes = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=8, horizon=3)
    model = make_model("patch_informer", sizes, linear_path="zero")

    def forecaster(batch: Batch) -> Tensor:
        return model(batch.past, batch.past_known, batch.future_known, batch.past_observed)

    results = [evaluate(forecaster, make_windows(), size, keep_residuals=True) for size in (1, 7, 64)]
    for other in results[1:]:
        assert other.sums.scaled() == pytest.approx(results[0].sums.scaled(), abs=1e-6)
        np.testing.assert_allclose(other.mse, results[0].mse, atol=1e-5)
        np.testing.assert_allclose(other.residuals, results[0].residuals, atol=1e-5)
        assert other.origin.tolist() == results[0].origin.tolist()


@pytest.mark.parametrize("trained", [(), (0.1, 0.5, 0.9)])
@pytest.mark.parametrize("masked", [False, True])
def test_windows_scored_in_parts_have_the_scores_of_the_whole(
    trained: tuple[float, ...], masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = torch.rand(60, 3, generator=torch.Generator().manual_seed(1)) > 0.2 if masked else None
    windows = make_windows(observed=observed)

    def forecaster(batch: Batch) -> Tensor:
        point = mean_of_context(batch)
        return torch.stack([point - 1, point, point + 1], -1) if trained else point

    evaluation = evaluate(forecaster, windows, 16, keep_residuals=True)
    assert evaluation.residuals is not None
    assert evaluation.spread is not None
    calibration = Calibration.fit(torch.from_numpy(evaluation.residuals), torch.from_numpy(evaluation.spread), trained)
    scale = np.full(2, 2.0)
    how = {"keep_residuals": True, "units": Units(np.ones(2), scale, np.ones(2)), "calibration": calibration}
    whole = evaluate(forecaster, windows, 16, **how)
    monkeypatch.setattr(metrics, "CHUNK", 7 * 6)
    sizes = [len(part) for _, part in module.in_parts(windows.batch(torch.arange(16)), torch.zeros(16, 3, 2))]
    assert sizes == [7, 7, 2]
    parts = evaluate(forecaster, windows, 16, **how)
    for name in ("origin", "mse", "mae", "residuals", "spread"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert parts.original(scale) == pytest.approx(whole.original(scale), rel=1e-12)
    for step, same in zip(parts.by_step(scale), whole.by_step(scale), strict=True):
        assert step.keys() == same.keys()
        assert {"sql", "coverage_80"} <= same.keys()
        assert [value for value in step.values() if value is not None] == pytest.approx(
            [value for value in same.values() if value is not None], rel=1e-12
        )


def test_residuals_are_future_minus_forecast() -> None:
    windows = make_windows()
    residuals = evaluate(mean_of_context, windows, 16, keep_residuals=True).residuals
    assert residuals is not None
    assert residuals.shape == (50, 3, 2, 1)
    expected = windows.values[20 + 8 : 20 + 11, :2] - windows.values[20:28, :2].mean(0)
    np.testing.assert_allclose(residuals[20, ..., 0], expected.numpy(), atol=1e-6)
    assert evaluate(mean_of_context, windows, 16).residuals is None


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_some_windows_are_kept_if_residuals_are_too_many(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = make_windows()
    whole = evaluate(mean_of_context, windows, batch_size, keep_residuals=True).residuals
    monkeypatch.setattr(module, "MAX_RESIDUALS", 50 * 3 * 2 // 4)
    monkeypatch.setattr(module, "LEAST_KEPT", 10)
    thinned = evaluate(mean_of_context, windows, batch_size, keep_residuals=True).residuals
    assert whole is not None
    assert thinned is not None
    places = module.residual_places(50, 3, 2)
    assert len(places) == 13 == len(thinned)
    np.testing.assert_array_equal(thinned, whole[places.numpy()])


def test_filled_targets_are_left_out_of_scores_and_residuals() -> None:
    observed = torch.ones(60, 3, dtype=torch.bool)
    observed[30, 0] = False
    windows = make_windows(observed=observed)
    windows.values[30, 0] = 1e6  # a bad fill, in the context of some windows and a target of three
    evaluation = evaluate(lambda batch: torch.zeros_like(batch.future), windows, 16, keep_residuals=True)
    assert evaluation.sums.count.tolist() == [[49, 50]] * 3
    assert evaluation.sums.scaled()["mse"] < 2
    assert evaluation.residuals is not None
    missing = np.argwhere(np.isnan(evaluation.residuals)).tolist()
    assert missing == [[20, 2, 0, 0], [21, 1, 0, 0], [22, 0, 0, 0]]


def test_batches_without_a_measured_target_do_not_change_the_scores() -> None:
    observed = torch.ones(60, 3, dtype=torch.bool)
    observed[20:45] = False
    windows = make_windows(observed=observed)
    evaluation = evaluate(lambda batch: torch.zeros_like(batch.future), windows, 4, keep_residuals=True)
    unseen = np.array([not observed[origin : origin + 3, :2].any() for origin in evaluation.origin])
    assert unseen.sum() == 23
    assert (np.isnan(evaluation.mse) == unseen).all()
    assert (np.isnan(evaluation.mae) == unseen).all()
    assert evaluation.residuals is not None
    assert np.isnan(evaluation.residuals[unseen]).all()
    seen = [windows.batch(torch.tensor([place])) for place in np.flatnonzero(~unseen)]
    errors = torch.cat([batch.future[batch.future_observed] for batch in seen]).double()
    assert evaluation.sums.scaled()["mse"] == pytest.approx(float(errors.square().mean()))


def test_a_forecaster_that_drops_a_window_is_an_error() -> None:
    windows = make_windows()

    def lossy(batch: Batch) -> Tensor:
        return torch.zeros_like(batch.future)[: 1 if len(batch.origin) == 2 else None]

    with pytest.raises((AssertionError, RuntimeError)):
        evaluate(lossy, windows, 16)


def test_evaluation_records_no_gradient() -> None:
    weight = torch.ones((), requires_grad=True)
    grads = []

    def forecaster(batch: Batch) -> Tensor:
        forecast = torch.zeros_like(batch.future) * weight
        grads.append(forecast.requires_grad)
        return forecast

    evaluate(forecaster, make_windows(), 16)
    assert grads == [False] * 4


@pytest.mark.parametrize("batch_size", [50, 10])
def test_the_first_forecast_is_not_timed(batch_size: int) -> None:
    waits = iter([0.5])

    def slow_at_first(batch: Batch) -> Tensor:
        time.sleep(next(waits, 0.0))
        return mean_of_context(batch)

    windows = make_windows()
    assert evaluate(slow_at_first, windows, batch_size, timed=True).windows_per_s > len(windows) / 0.25


def test_the_load_covers_the_timed_batches_only() -> None:
    def slow_at_first(batch: Batch) -> Tensor:
        time.sleep(0.3 if int(batch.origin[0]) == 8 else 0.01)
        return mean_of_context(batch)

    load = evaluate(slow_at_first, make_windows(), 10).load
    assert 0.04 <= load.wall_seconds < 0.3
    assert load.cpu_seconds < load.wall_seconds + 0.3


def test_a_wide_table_keeps_the_windows_that_an_interval_of_95_percent_needs() -> None:
    for windows, kept in ((10, 10), (39, 39), (40, 20), (4000, 20)):
        assert len(module.residual_places(windows, 10**4, 10**4)) == kept


def test_a_share_without_windows_does_not_stop_the_others() -> None:
    nine, none = np.zeros((3, 4, 2, 9), np.float32), np.zeros((0, 4, 2, 1), np.float32)
    assert module._concatenated([none, nine, nine]).shape == (6, 4, 2, 9)
    assert module._concatenated([none, none]).shape == none.shape


@pytest.mark.parametrize(("timed", "forecasts"), [(True, 2), (False, 1)])
def test_a_single_batch_is_forecast_twice_only_if_it_is_timed(timed: bool, forecasts: int) -> None:
    calls = []

    def counted(batch: Batch) -> Tensor:
        calls.append(len(batch.origin))
        return mean_of_context(batch)

    throughput = evaluate(counted, make_windows(), 50, timed=timed).windows_per_s
    assert calls == [50] * forecasts
    assert np.isfinite(throughput) == timed
