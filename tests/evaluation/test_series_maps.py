"""A map of each series: its look-back, its own fit, and the shared ridge where that is better."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from forecast.data.windows import Windows
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.linear_start import choose_start
from forecast.evaluation.ridge import LinearMap, fit_ridge
from forecast.evaluation.series_maps import NAME, fit_series
from forecast.model.linear_path import extended
from tests.support.examples import split_windows


def two_laws() -> tuple[Windows, Windows]:
    """Return windows that follow the step before last, the second series with the other sign."""
    train, validation = split_windows()
    random = torch.Generator().manual_seed(0)
    noise = 0.3 * torch.randn(train.values.shape[0], 2, generator=random)
    for windows in (train, validation):
        for row in range(2, len(windows.values)):
            windows.values[row, 0] = 0.9 * windows.values[row - 2, 0] + noise[row, 0]
            windows.values[row, 1] = -0.9 * windows.values[row - 2, 1] + noise[row, 1]
    return train, validation


def errors(linear_map: LinearMap, windows: Windows) -> list[float]:
    return evaluate(linear_map, windows, 64).sums.squared.sum(0).tolist()


def test_series_with_other_laws_get_maps_of_their_own() -> None:
    train, validation = two_laws()
    shared = fit_ridge(train, validation)
    own = fit_series(train, validation, shared)
    assert own.weight.shape == (2, 8, 3)
    both = zip(errors(own, validation), errors(shared, validation), strict=True)
    assert all(mine < 0.9 * theirs for mine, theirs in both)
    for place in range(2):  # each is the best of the ridges of this series
        part, scored = train.of_series(place), validation.of_series(place)
        best = min(
            errors(fit_ridge(part.newest(length), scored.newest(length)), scored.newest(length))[0]
            for length in (8, 4, 2)
        )
        assert errors(own, validation)[place] == pytest.approx(best, rel=1e-4)
    chosen = choose_start(shared, train, validation, period=1, confidence=0.9, each_series=True).map
    assert chosen.name == NAME
    assert choose_start(shared, train, validation, period=1, confidence=0.9).map.name != NAME


def test_a_series_keeps_the_shared_map_where_its_own_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = two_laws()
    shared = fit_ridge(train, validation)
    monkeypatch.setattr("forecast.evaluation.series_maps.DIVISORS", ())
    np.testing.assert_array_equal(fit_series(train, validation, shared).weight, shared.weight.expand(2, -1, -1))


def test_extended_weights_forecast_like_the_newest_steps() -> None:
    batch = split_windows()[0].batch(torch.arange(5))
    short = LinearMap(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)), "short")
    torch.testing.assert_close(LinearMap(extended(short.weight, 8), "long")(batch), short(batch), atol=1e-4, rtol=1e-4)


def test_windows_of_one_series_and_of_the_newest_steps() -> None:
    windows = split_windows()[0]
    observed = torch.rand(windows.values.shape, generator=torch.Generator().manual_seed(2)) > 0.1
    windows = replace(windows, observed=observed)
    whole, part = windows.batch(torch.tensor([3, 9])), windows.of_series(1).newest(5).batch(torch.tensor([3, 9]))
    torch.testing.assert_close(part.past, whole.past[:, 3:, 1:2])
    torch.testing.assert_close(part.future, whole.future[..., 1:])
    torch.testing.assert_close(part.past_known, whole.past_known[:, 3:])
    assert part.future_observed is not None
    assert whole.future_observed is not None
    torch.testing.assert_close(part.future_observed, whole.future_observed[..., 1:])
    assert part.origin.tolist() == whole.origin.tolist()
