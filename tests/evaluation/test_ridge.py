"""The closed-form linear maps against sklearn's ridge on windows cut by slicing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from sklearn.linear_model import Ridge as SklearnRidge

from forecast.data.windows import Batch, Windows
from forecast.evaluation import ridge as linear
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.ridge import LinearMap, fit_ridge, refit
from tests.support.examples import make_windows, split_windows


def design(windows: Windows, look_back: int, every: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of context and horizon minus the context's mean, cut by slicing."""
    x, y = [], []
    table = windows.values.double().numpy()
    length = windows.context_length
    for start in windows.thinned(every).starts.tolist():
        for series in range(windows.num_targets):
            past = table[start + length - look_back : start + length, series]
            future = table[start + length : start + length + windows.horizon, series]
            x.append(past - past.mean())
            y.append(future - past.mean())
    return np.array(x), np.array(y)


def test_ridge_equals_sklearns_on_centred_windows() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    x, y = design(train, 8)
    alpha = ridge.penalty * np.square(x).sum() / 8
    reference = SklearnRidge(alpha=alpha, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)
    assert ridge.weight.shape == (8, 3)
    assert ridge.every == 1


@pytest.mark.parametrize("gap", [0, 60])
def test_the_rows_of_a_wide_table_are_multiplied_in_parts(gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    if gap:  # longer than a part and its horizon: a part without any target
        observed = torch.ones(train.values.shape, dtype=torch.bool)
        observed[100 : 100 + gap] = False
        train, validation = (replace(windows, observed=observed) for windows in (train, validation))
    whole, sizes, batches = fit_ridge(train, validation), [], Windows.batches

    def counted(self: Windows, size: int) -> Iterator[Batch]:
        for batch in batches(self, size):
            sizes.append(len(batch.past))
            yield batch

    monkeypatch.setattr(Windows, "batches", counted)
    monkeypatch.setattr(linear, "ROWS", 20 * train.num_targets)
    parts = fit_ridge(train, validation)
    assert max(sizes) == 20
    assert len(sizes) >= -(-len(train) // 20) - (-len(validation) // 20)
    assert parts.penalty == whole.penalty
    torch.testing.assert_close(parts.weight, whole.weight, rtol=1e-4, atol=1e-5)


def test_the_penalty_is_the_best_candidate_on_validation() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    (x, y), (x_val, y_val) = design(train, 8), design(validation, 8)
    errors = {}
    for penalty in linear.PENALTIES.tolist():
        alpha = penalty * np.square(x).sum() / 8
        errors[penalty] = np.square(SklearnRidge(alpha=alpha, fit_intercept=False).fit(x, y).predict(x_val) - y_val)
    assert ridge.penalty == min(errors, key=lambda penalty: errors[penalty].mean())


@pytest.mark.parametrize("count", [2, 400])
def test_the_errors_of_all_penalties_at_once_are_those_of_their_maps(count: int) -> None:
    train, validation = split_windows()
    train = replace(train, starts=train.starts[:count])  # two windows have fewer rows than steps: no full rank
    fitted, scored = (linear._NormalEquations.of(windows, 8) for windows in (train, validation))
    solutions = linear._Solutions(fitted)
    errors = [scored.squared_error(solutions.fit(penalty)) for penalty in linear.PENALTIES.tolist()]
    assert solutions.squared_errors(scored) == pytest.approx(errors, rel=1e-6)
    assert max(errors) > 1.001 * min(errors)


def test_a_ridge_forecast_maps_the_centred_context_and_adds_the_mean() -> None:
    windows = make_windows()
    weight = torch.randn(5, 3)
    batch = windows.batch(torch.tensor([2, 40]))
    forecast = LinearMap(weight, "made")(batch)
    for row, origin in enumerate(batch.origin.tolist()):
        past = windows.values[origin - 5 : origin, :2]
        expected = weight.T @ (past - past.mean(0)) + past.mean(0)
        torch.testing.assert_close(forecast[row], expected)


def test_ridge_recovers_a_linear_law() -> None:
    train, validation = split_windows(context_length=8, horizon=2)
    values = train.values
    for row in range(2, 300):  # the second difference is fixed: x_t = 2 cos(w) x_{t-1} - x_{t-2}
        values[row] = 1.8 * values[row - 1] - values[row - 2]
    validation.values[:] = values
    assert evaluate(fit_ridge(train, validation), validation, 64).sums.scaled()["mse"] < 1e-4


@pytest.mark.parametrize("hostile", [torch.nan, 1e30])
def test_ridge_never_reads_past_the_origin(hostile: float) -> None:
    train, validation = split_windows()
    expected = fit_ridge(train, validation)
    batch = validation.batch(torch.tensor([5]))
    forecast = expected(batch)
    origin = int(batch.origin)
    validation.values[origin:] = hostile
    assert torch.equal(expected(validation.batch(torch.tensor([5]))), forecast)
    train.values[200:] = hostile  # after the training split
    clean = make_windows(300, targets=range(200, 300))
    again = fit_ridge(train, clean)
    assert torch.equal(again.weight, expected.weight)


def with_gaps(windows: Windows, share: float) -> Windows:
    """Return the windows with a share of the values marked as filled."""
    observed = torch.rand(windows.values.shape, generator=torch.Generator().manual_seed(1)) >= share
    return replace(windows, observed=observed, values=windows.values.clone())


def targets_of(windows: Windows) -> np.ndarray:
    """Return whether each target was measured, in the order of `design`."""
    assert windows.observed is not None
    length, horizon = windows.context_length, windows.horizon
    rows = [windows.observed[start + length :][:horizon, : windows.num_targets].T for start in windows.starts.tolist()]
    return torch.cat(rows).numpy()


def test_each_step_is_fitted_on_its_measured_targets() -> None:
    train, validation = split_windows()
    train = with_gaps(train, 0.2)
    (x, y), seen = design(train, 8), targets_of(train)
    assert not seen.all(1).all()
    ridge = fit_ridge(train, validation)
    usable = seen.any(1)
    x, y, seen = x[usable], np.where(seen, y, 0)[usable], seen[usable]
    gram = x.T @ x
    cross = x.T @ y * (len(x) / seen.sum(0))
    direct = np.linalg.solve(gram + ridge.penalty * np.diag(gram).mean() * np.eye(8), cross)
    np.testing.assert_allclose(ridge.weight.numpy(), direct, atol=1e-5)


def test_the_penalty_is_scored_on_every_measured_validation_target() -> None:
    train, validation = split_windows()
    validation = with_gaps(validation, 0.05)
    (x, y), (x_val, y_val) = design(train, 8), design(validation, 8)
    seen = targets_of(validation)
    assert 0 < seen.all(1).sum() < len(seen)
    errors = {}
    for penalty in linear.PENALTIES.tolist():
        alpha = penalty * np.square(x).sum() / 8
        fitted = SklearnRidge(alpha=alpha, fit_intercept=False).fit(x, y)
        errors[penalty] = np.square(fitted.predict(x_val) - y_val)[seen].mean()
    assert fit_ridge(train, validation).penalty == min(errors, key=lambda penalty: errors[penalty])


def test_scattered_gaps_hardly_change_the_ridge() -> None:
    """One target in twenty is missing, so almost no window of 96 is complete; incomplete windows are still used."""
    steps = torch.arange(3000)
    noise = torch.from_numpy(lfilter([1], [1, -0.9], np.random.default_rng(0).standard_normal(3000))).float()
    values = (1.5 * torch.sin(2 * torch.pi * steps / 24) + 0.6 * noise)[:, None]
    observed = torch.rand(3000, 1, generator=torch.Generator().manual_seed(0)) >= 0.05
    filled = values[torch.where(observed[:, 0], steps, 0).cummax(0).values]

    def score(table: torch.Tensor, mask: torch.Tensor | None) -> tuple[float, float]:
        splits = [
            Windows(table, torch.zeros(3000, 0), torch.arange(first, last - 143), 48, 96, 1, mask)
            for first, last in ((0, 2000), (1952, 2500), (2452, 3000))
        ]
        ridge = fit_ridge(splits[0], splits[1])
        return evaluate(ridge, splits[2], 64).sums.scaled()["mse"], ridge.penalty

    (whole, _), (gaps, penalty) = score(values, None), score(filled, observed)
    assert gaps < 1.05 * whole
    assert penalty > linear.PENALTIES[0]


def test_a_small_penalty_does_not_amplify_rounding_along_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows(3000, context_length=64)
    monkeypatch.setattr(linear, "PENALTIES", linear.PENALTIES[:1])
    weight = fit_ridge(train, validation).weight
    assert weight.mean(0).abs().max() < 1e-6 * weight.abs().max()


def test_ridge_without_training_targets_forecasts_the_mean_of_the_context() -> None:
    train, validation = split_windows()
    train = replace(train, observed=torch.zeros(300, 3, dtype=torch.bool))
    batch = validation.batch(torch.tensor([0, 9]))
    forecast = fit_ridge(train, validation)(batch)
    torch.testing.assert_close(forecast, batch.past[..., :2].mean(1, keepdim=True).expand(-1, 3, -1))


def test_only_the_newest_steps_of_a_long_context_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    monkeypatch.setattr(linear, "MAX_LOOK_BACK", 5)
    ridge = fit_ridge(train, validation)
    x, y = design(train, 5)
    reference = SklearnRidge(alpha=ridge.penalty * np.square(x).sum() / 5, fit_intercept=False).fit(x, y)
    assert ridge.look_back == 5
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)


def test_too_many_windows_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    monkeypatch.setattr(linear, "FIT_OPERATIONS", len(train) * linear.WINDOW_OPERATIONS / 3)
    ridge = fit_ridge(train, validation)
    x, y = design(train, 8, every=3)
    reference = SklearnRidge(alpha=ridge.penalty * np.square(x).sum() / 8, fit_intercept=False).fit(x, y)
    assert ridge.every == 3
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)


def test_ridge_of_a_constant_series_forecasts_the_constant() -> None:
    train, validation = split_windows()
    train.values[:] = 2.5
    validation.values[:] = 2.5
    assert evaluate(fit_ridge(train, validation), validation, 64).sums.scaled()["mse"] < 1e-9


def test_refit_keeps_the_penalty_on_other_windows() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    again = refit(validation, ridge)
    x, y = design(validation, 8)
    alpha = ridge.penalty * np.square(x).sum() / 8
    reference = SklearnRidge(alpha=alpha, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(again.weight.numpy(), reference.coef_.T, atol=1e-5)
    assert (again.penalty, again.every) == (ridge.penalty, ridge.every)
