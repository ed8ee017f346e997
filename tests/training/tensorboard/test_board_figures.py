import numpy as np
import pytest

from forecast.training.tensorboard.figures import COLORS, ForecastPanels, draw_step_errors

RNG = np.random.default_rng(0)
PAST, TRUTH, NAIVE = RNG.normal(size=(3, 20)), RNG.normal(size=(3, 10)), RNG.normal(size=(3, 10))
ORANGE = (255, 127, 14)


def panels(naive: np.ndarray | None = NAIVE) -> ForecastPanels:
    return ForecastPanels(PAST, TRUTH, naive, ["$load_1 from 2016-07-01"] * 3)


def orange(pixels: np.ndarray) -> int:
    return int((np.abs(pixels.astype(int) - ORANGE).sum(-1) < 40).sum())


@pytest.mark.slow
def test_redrawing_gives_the_same_picture_as_a_new_drawing() -> None:
    reused = panels()
    forecasts = [RNG.uniform(-1, 1, size=(3, 10)) for _ in range(3)]
    forecasts[0][0] = [-1, 1] * 5  # all three have the axis limits of the first
    drawn = [reused.pixels(forecast) for forecast in forecasts]
    for forecast, pixels in zip(forecasts, drawn, strict=True):
        assert pixels.dtype == np.uint8
        assert pixels.shape[2] == 3
        np.testing.assert_array_equal(panels().pixels(forecast), pixels)
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.slow
def test_a_forecast_beyond_the_axis_widens_it() -> None:
    drawing = panels()
    near, far = TRUTH * 0.5, TRUTH + 100.0
    before = drawing.pixels(near)
    after = drawing.pixels(far)
    assert orange(after) > 0.3 * orange(before)
    np.testing.assert_array_equal(after, panels().pixels(far))


def test_a_picture_needs_no_season_and_allows_gaps() -> None:
    holes = TRUTH.copy()
    holes[:, 3:6] = np.nan
    pixels = ForecastPanels(PAST, holes, None, ["a"] * 3).pixels(TRUTH)
    assert orange(pixels) > 100


def test_each_row_of_the_step_errors_has_a_line() -> None:
    rows = {name: [{"mse": 1.0 + place, "mae": 1.0}] * 12 for place, name in enumerate(COLORS)}
    whole = draw_step_errors(rows)
    part = draw_step_errors({name: row for name, row in rows.items() if name != "seasonal_naive"})
    assert orange(whole) > 100
    assert orange(part) > 100
    assert not np.array_equal(whole, part)
    np.testing.assert_array_equal(whole, draw_step_errors({**rows, "linear_path": rows["model"]}))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2])
def test_a_short_horizon_is_visible(steps: int) -> None:
    around = {name: [{"mse": mse, "mae": mse}] * steps for name, mse in (("last_value", 1.0), ("linear", 0.0))}
    low, high = (draw_step_errors({"model": [{"mse": mse, "mae": mse}] * steps, **around}) for mse in (0.4, 0.5))
    assert not np.array_equal(low, high)
    truth = TRUTH[:, :steps]
    near, far = (ForecastPanels(PAST, truth, None, ["a"] * 3).pixels(truth * share) for share in (0.9, 0.5))
    assert not np.array_equal(near, far)


def test_pictures_that_open_first_fit_a_card_of_the_first_page() -> None:
    """TensorBoard shrinks pictures above 334 x 215 pixels by dropping pixels, which breaks their text."""
    rows = {name: [{"mse": 1.0, "mae": 1.0}] * 12 for name in COLORS}
    for pixels in (panels().pixels(TRUTH), draw_step_errors(rows)):
        height, width, _ = pixels.shape
        assert (width, height) == (334, 208)


def test_the_model_is_visible_below_a_baseline_with_the_same_errors() -> None:
    rows = {name: [{"mse": 1.0, "mae": 1.0}] * 12 for name in ("model", "linear")}
    legend = orange(draw_step_errors({"model": [{"mse": 9.0, "mae": 9.0}], "linear": rows["linear"]}))
    assert orange(draw_step_errors(rows)) > legend + 50
