"""Adaptive intervals: they follow the errors of earlier forecasts, and only those whose truth is known."""

import pytest
import torch

from forecast.evaluation.adaptive import DECAY, LEAST, MOST, SPAN, Adaptive, Forms, RowErrors, stretched
from forecast.evaluation.holdout import NOT_SELECTED, HeldOut, Residuals
from forecast.evaluation.intervals import Calibration, interval_levels

HORIZON, SERIES = 4, 2
TYPICAL = torch.tensor([[1.0, 2.0]] * HORIZON) * torch.arange(1, HORIZON + 1)[:, None]


def errors_of(residuals: torch.Tensor, spread: float = 1.0) -> RowErrors:
    """Return the errors of forecasts whose first targets are the rows 0, 1, 2 and so on."""
    errors = RowErrors(TYPICAL)
    errors.add(torch.arange(len(residuals)), residuals, torch.full((len(residuals), 1, SERIES), spread))
    return errors


def noise(count: int, seed: int = 0) -> torch.Tensor:
    return TYPICAL * torch.randn(count, HORIZON, SERIES, generator=torch.Generator().manual_seed(seed))


def test_the_size_is_the_weighted_mean_over_rows_of_the_mean_error_of_all_forecasts_of_a_row() -> None:
    residuals, at = noise(60), 41
    weights, sizes = [], []
    for row in range(max(0, at - SPAN * HORIZON), at):
        own = [
            (residuals[row - step, step].abs() / 0.5 / TYPICAL[step]).clamp(max=MOST)
            for step in range(HORIZON)
            if row >= step
        ]
        sizes.append(torch.stack(own).mean(0))
        weights.append(torch.tensor(-(at - 1 - row) / (DECAY * HORIZON)).exp())
    expected = sum(weight * size for weight, size in zip(weights, sizes, strict=True)) / sum(weights)
    size, known = errors_of(residuals, spread=0.5).before(torch.tensor([at]))
    torch.testing.assert_close(size[0, 0], expected)
    assert bool(known.all())


def test_a_batch_of_origins_has_the_sizes_of_each_alone() -> None:
    errors = errors_of(noise(80))
    together = errors.before(torch.arange(10, 80))[0]
    alone = torch.cat([errors.before(torch.tensor([at]))[0] for at in range(10, 80)])
    torch.testing.assert_close(together, alone)


def test_forecasts_added_in_parts_have_the_same_sizes_and_only_the_latest_rows_are_held() -> None:
    residuals, origins = noise(400), torch.arange(400)
    errors, found = RowErrors(TYPICAL), []
    for part in origins.split(16):
        errors.add(part, residuals[part], torch.ones(len(part), 1, SERIES))
        found.append(errors.before(part)[0])
        assert len(errors.total) <= SPAN * HORIZON + 16 + HORIZON
    assert torch.equal(torch.cat(found), errors_of(residuals).before(origins)[0])
    with pytest.raises(AssertionError, match="forgotten"):
        errors.before(torch.tensor([100]))


def test_truth_from_the_origin_on_changes_nothing() -> None:
    residuals, at = noise(60), 41
    poisoned = residuals.clone()
    for window in range(60):
        for step in range(HORIZON):
            if window + step >= at:
                poisoned[window, step] = 1e6
    known, later = (errors_of(part).before(torch.tensor([at]))[0] for part in (residuals, poisoned))
    assert torch.equal(known, later)
    poisoned[at - 1, 0] = 1e6
    assert not torch.equal(errors_of(poisoned).before(torch.tensor([at]))[0], known)


def test_missing_targets_and_rows_beyond_the_span_change_nothing() -> None:
    residuals, at = noise(60), 50
    poisoned = residuals.clone()
    poisoned[: at - (SPAN + 1) * HORIZON + 1] = 1e6
    assert torch.equal(*(errors_of(part).before(torch.tensor([at]))[0] for part in (residuals, poisoned)))
    residuals[45, 1, 0] = torch.nan
    assert bool(errors_of(residuals).before(torch.tensor([at]))[0].isfinite().all())


def test_the_size_is_unknown_and_one_with_fewer_rows_than_a_horizon() -> None:
    size, known = errors_of(noise(60)).before(torch.tensor([HORIZON - 1, HORIZON]))
    assert known[:, 0, 0].tolist() == [False, True]
    assert size[0].tolist() == [[1.0, 1.0]]


def test_an_outlier_or_perfect_forecasts_change_a_size_at_most_tenfold() -> None:
    huge, zero = (
        errors_of(torch.full((60, HORIZON, SERIES), value)).before(torch.tensor([50]))[0] for value in (1e9, 0)
    )
    assert float(huge.max()) == MOST
    assert float(zero.min()) == pytest.approx(LEAST)


def test_trained_quantiles_are_stretched_about_their_median() -> None:
    forecast = torch.tensor([1.0, 3.0, 4.0]).expand(1, HORIZON, SERIES, 3)
    found = stretched(forecast, torch.full((1, 1, SERIES), 2.0))
    assert found[0, 0, 0].tolist() == [-1.0, 3.0, 5.0]
    assert torch.equal(stretched(forecast[..., 0], torch.full((1, 1, SERIES), 2.0)), forecast[..., 0])


@pytest.mark.parametrize("quantiles", [1, 3])
def test_intervals_follow_a_change_of_the_errors_that_calibration_has_not_seen(quantiles: int) -> None:
    """Errors of 1,000 windows are twice as large in each second hundred; a season four times as large follows."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.arange(1500)
    spread_of_rows = torch.where(rows < 1000, 1.0 + (rows // 100 % 2), 4.0)
    truth = spread_of_rows[:, None] * torch.randn(1500, SERIES, generator=generator)
    offsets = torch.tensor([0.0] if quantiles == 1 else [-1.0, 0.0, 1.0])
    values = torch.stack([truth[row : row + HORIZON] for row in range(1490)])[..., None] - offsets
    ones, places = torch.ones(1490, 1, SERIES), torch.arange(1490)
    everything = Residuals(values, ones, places, places, torch.zeros_like(values[..., 0]) > 0)
    trained = () if quantiles == 1 else (0.1, 0.5, 0.9)
    held = HeldOut(everything.within(range(1000)), NOT_SELECTED, 1000, None)
    adapted = held.adapted(1.0)
    assert adapted is not None
    errors = RowErrors(held.residuals.typical)
    errors.add(places, everything.values[..., quantiles // 2], ones)
    size = errors.before(places)[0]
    late = places >= 1100
    coverage = {}
    for name, scale, calibration in (
        ("plain", torch.ones_like(size), held.calibration(trained)),
        ("adaptive", size, adapted.calibration(trained)),
    ):
        own = everything.scaled(scale)
        low, high = calibration.quantiles(-own.values if quantiles > 1 else -own.values[..., 0], own.spread,
                                          interval_levels(80)).unbind(-1)  # fmt: skip
        coverage[name] = float(((low <= 0) & (high >= 0))[late].float().mean())
    assert coverage["plain"] < 0.6
    assert 0.74 <= coverage["adaptive"] <= 0.86


def test_too_few_windows_with_earlier_errors_leave_the_plain_form() -> None:
    def held(count: int) -> HeldOut:
        places = torch.arange(count)
        values = noise(count)[..., None]
        covered = torch.zeros_like(values[..., 0]) > 0
        residuals = Residuals(values, torch.ones(count, 1, SERIES), places, places, covered)
        return HeldOut(residuals, NOT_SELECTED, count, None)

    assert held(40).adapted(0.5) is None
    assert held(100).adapted(0.5) is not None
    assert held(100).adapted(0.0) is None


def test_a_file_keeps_both_forms_and_refuses_numbers_that_do_not_fit() -> None:
    scores = torch.rand(30, HORIZON, SERIES, 1).sort(0).values
    forms = Forms(Calibration(scores), Adaptive(TYPICAL, 0.5, Calibration(2 * scores)))
    tensors = forms.tensors()
    again = Forms.from_tensors(tensors)
    assert again.adaptive is not None
    assert torch.equal(again.default.scores, 2 * scores)
    assert again.adaptive.power == 0.5
    assert Forms.from_tensors(Forms(Calibration(scores)).tensors()).adaptive is None
    wrong = {
        "typical": TYPICAL[1:],
        "power": torch.tensor([0.4], dtype=torch.float64),
        "adaptive_scores": scores.flip(0),
    }
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=r"adaptive form|not sorted"):
            Forms.from_tensors({**tensors, name: value})
    with pytest.raises(ValueError, match="invalid numbers"):
        Forms.from_tensors({**tensors, "typical": TYPICAL * torch.nan})
