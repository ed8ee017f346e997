"""The closed form with known covariates against normal equations that are solved in one piece."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from forecast.data.known import KnownLayout
from forecast.data.windows import Windows, start_rows
from forecast.evaluation.linear_maps import fit_maps
from forecast.evaluation.ridge import PENALTIES, LinearMap, fit_ridge, refit

CONTEXT, HORIZON, TARGETS, ROWS = 8, 3, 2, 400
LAYOUT = KnownLayout(num_calendar=1, num_dense=2, categories=(3,), look_back=2)


def split(observed: torch.Tensor | None = None, layout: KnownLayout = LAYOUT) -> tuple[Windows, Windows]:
    """Return training and validation windows of series that answer to what is known ahead, each in its own way."""
    generator = torch.Generator().manual_seed(0)
    known = torch.randn(ROWS, 4, generator=generator)
    known[:, 3] = torch.randint(0, 3, (ROWS,), generator=generator)
    noise = torch.randn(ROWS, TARGETS, generator=generator)
    level = torch.tensor([0.0, 1.0, -2.0])[known[:, 3].long()]
    values = 0.3 * noise + known[:, 1:2] * torch.tensor([2.0, -1.0]) + level[:, None] * torch.tensor([0.0, 1.0])
    values[1:] += 0.5 * values[:-1]
    parts = [(range(280), "train"), (range(280, ROWS), "validation")]
    train, validation = (
        Windows(
            values=values,
            known=known,
            starts=start_rows(rows, CONTEXT, HORIZON, part=part),
            context_length=CONTEXT,
            horizon=HORIZON,
            num_targets=TARGETS,
            observed=observed,
            layout=layout,
        )
        for rows, part in parts
    )
    return train, validation


def design(windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of centred context, known inputs and centred future, (W C, …), series within windows."""
    batch = windows.batch(torch.arange(len(windows)))
    past, future = batch.past.double(), batch.future.double()
    mean = past.mean(1, keepdim=True)
    inputs = []
    for window in range(len(windows)):
        row = [*batch.past_known[window, -2:, 1:3].flatten(), *batch.future_known[window, :, 1:3].flatten()]
        row += [float(step[3] == label) for step in batch.future_known[window] for label in (1, 2)]
        inputs.append([float(value) for value in row])
    x, y = ((part - mean).transpose(1, 2).flatten(0, 1).numpy() for part in (past, future))
    return x, np.repeat(np.array(inputs), TARGETS, 0), y


def solve(windows: Windows, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of the past (T, h) and of each series' known inputs (C, M, h), from one system."""
    x, k, y = design(windows)
    zero = np.zeros_like(k)
    own = [np.where((np.arange(len(k)) % TARGETS == series)[:, None], k, zero) for series in range(TARGETS)]
    whole = np.concatenate([x, *own], 1)
    unit, scale = np.square(x).sum() / x.shape[1], np.square(own[0]).sum() / k.shape[1]
    penalties = np.r_[np.full(x.shape[1], unit), np.full(TARGETS * k.shape[1], scale)] * penalty
    weights = np.linalg.solve(whole.T @ whole + np.diag(penalties), whole.T @ y)
    return weights[:CONTEXT], weights[CONTEXT:].reshape(TARGETS, -1, HORIZON)


def test_past_weights_are_shared_and_known_weights_are_each_series_own() -> None:
    train, validation = split()
    ridge = fit_ridge(train, validation)
    weight, known = solve(train, ridge.penalty)
    assert ridge.known is not None
    assert ridge.known.shape == (TARGETS, LAYOUT.num_features(HORIZON), HORIZON)
    np.testing.assert_allclose(ridge.weight, weight, atol=1e-4)
    np.testing.assert_allclose(ridge.known, known, atol=1e-4)


def test_the_penalty_is_the_best_on_validation() -> None:
    train, validation = split()
    x, k, y = design(validation)
    errors = {}
    for penalty in PENALTIES.tolist():
        weight, known = solve(train, penalty)
        series = np.arange(len(k)) % TARGETS
        forecast = x @ weight + np.einsum("nm,nmh->nh", k, known[series])
        errors[penalty] = np.square(forecast - y).mean()
    found = fit_ridge(train, validation).penalty
    chosen = min(PENALTIES.tolist(), key=lambda penalty: abs(penalty - found))
    assert errors[chosen] == pytest.approx(min(errors.values()), rel=1e-6)  # small penalties differ by rounding
    assert max(errors.values()) > 1.1 * errors[chosen]


def test_what_is_known_ahead_lowers_the_error() -> None:
    train, validation = split()
    without = [replace(windows, layout=KnownLayout(4)) for windows in (train, validation)]
    batch = validation.batch(torch.arange(len(validation)))
    error = float((fit_ridge(train, validation)(batch) - batch.future).square().mean())
    blind = float((fit_ridge(*without)(batch) - batch.future).square().mean())
    assert error < 0.2 * blind


def test_a_forecast_adds_the_known_inputs_of_each_series() -> None:
    windows = split()[0]
    batch = windows.batch(torch.tensor([3, 50]))
    known = torch.randn(TARGETS, LAYOUT.num_features(HORIZON), HORIZON)
    forecast = LinearMap(torch.zeros(CONTEXT, HORIZON), "made", known, LAYOUT)(batch)
    features = LAYOUT.features(batch.past_known, batch.future_known)
    mean = batch.past[..., :TARGETS].mean(1)
    for series in range(TARGETS):
        wanted = features @ known[series] + mean[:, series : series + 1]
        torch.testing.assert_close(forecast[..., series], wanted)


def test_known_inputs_that_do_not_help_on_validation_are_not_read() -> None:
    train, validation = split()
    turned = replace(validation, known=validation.known * torch.tensor([1.0, -1, -1, 0]))  # effects change their sign
    ridge = fit_ridge(train, turned)
    assert ridge.known is None
    assert torch.equal(refit(train, ridge).weight, ridge.weight)
    blind = fit_ridge(*(replace(windows, layout=KnownLayout(4)) for windows in (train, turned)))
    torch.testing.assert_close(ridge.weight, blind.weight, atol=1e-4, rtol=1e-3)
    assert fit_ridge(train, validation).known is not None


@pytest.mark.parametrize("kind", ["scattered", "weekends"])
def test_gaps_hardly_change_the_weights(kind: str) -> None:
    observed = torch.rand(ROWS, TARGETS, generator=torch.Generator().manual_seed(1)) > 0.1
    if kind == "weekends":  # whole horizons without a value
        observed = (torch.arange(ROWS) % 20 < 14)[:, None].expand(ROWS, TARGETS).clone()
    whole, gaps = (fit_ridge(*split(mask)) for mask in (None, observed))
    batch = split()[1].batch(torch.arange(len(split()[1])))
    errors = [float((ridge(batch) - batch.future).square().mean()) for ridge in (whole, gaps)]
    assert errors[1] < 1.2 * errors[0]
    assert whole.known is not None
    assert gaps.known is not None
    assert float((whole.known - gaps.known).norm() / whole.known.norm()) < 0.15


@pytest.mark.parametrize("starts", [True, False])
def test_the_linear_path_starts_with_the_known_weights(starts: bool) -> None:
    train, validation = split()
    maps = fit_maps(train, validation, starts=starts, period=1, confidence=0.9, batch_size=64)
    assert (maps.start is not None) is starts
    if maps.start is not None:
        assert maps.start.known is maps.baseline.known is not None


def test_each_penalty_with_known_inputs_is_reported() -> None:
    done: list[None] = []
    fit_ridge(*split(), lambda: done.append(None))
    assert len(done) == len(PENALTIES)
