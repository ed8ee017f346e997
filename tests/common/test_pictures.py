from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from forecast.common.pictures import SHEET, Lines, best_median_worst, draw_forecast, draw_sheet, mean_errors, plot_line

HOURS = pd.date_range("2016-07-01", periods=16, freq="h")


def drawn(path: Path, past: list[float], *forecast: float) -> np.ndarray:
    """Return the pixels of a forecast after twelve hours, of which three are drawn a step."""
    table, steps = pd.DataFrame({"load": past}, index=HOURS[:12]), HOURS[12 : 12 + len(forecast)]
    draw_forecast(path, table, pd.DataFrame({"load": forecast}, index=steps))
    return np.asarray(Image.open(path))


def test_a_forecast_of_one_step_is_visible(tmp_path: Path) -> None:
    past = [0.0, 10.0] * 6
    assert not np.array_equal(drawn(tmp_path / "low.png", past, 2.0), drawn(tmp_path / "high.png", past, 8.0))


def test_a_value_between_two_gaps_is_visible(tmp_path: Path) -> None:
    low, high = ([0.0, 10.0] * 4 + [np.nan, value, np.nan, 5.0] for value in (2.0, 8.0))
    steps = (5.0, 5.0, 5.0, 5.0)
    assert not np.array_equal(drawn(tmp_path / "low.png", low, *steps), drawn(tmp_path / "high.png", high, *steps))


def test_a_picture_of_many_series_says_which_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def noted(self: Text, text: str) -> None:
        texts.append(str(text))
        original(self, text)

    original = Text.set_text
    monkeypatch.setattr(Text, "set_text", noted)
    table = pd.DataFrame({f"t{number}": np.arange(16.0) for number in range(9)}, index=HOURS)
    draw_forecast(tmp_path / "a.png", table.iloc[:12], table.iloc[12:], title="mine")
    assert "mine\nthe first 7 of 9 targets; not drawn: t7, t8" in texts


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "alone"),
    [
        ([1.0], [True]),
        ([NAN], [False]),
        ([1.0, 2.0], [False, False]),
        ([1.0, NAN, 2.0, 3.0, NAN, 4.0], [True, False, False, False, False, True]),
        ([], []),
    ],
)
def test_a_value_without_a_finite_neighbour_is_a_point(values: list[float], alone: list[bool]) -> None:
    (line,) = plot_line(Figure().subplots(), range(len(values)), np.array(values))
    assert np.asarray(line.get_markevery()).tolist() == alone
    assert (line.get_marker() == ".") == any(alone)


def test_a_sheet_of_one_series_fills_its_width_and_one_of_four_has_three_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    lines = Lines("S17", pd.Series(1.0, HOURS[:12]), pd.Series(2.0, HOURS[12:]))
    for count in (1, 4):
        draw_sheet(tmp_path / "sheet.png", [lines] * count, "shops")
    one, four = ([panel.get_position().width for panel in figure.axes] for figure in figures)
    assert one == [pytest.approx(0.94)]
    assert len(four) == 6
    assert max(four) < 0.32


@pytest.mark.parametrize("step", ["5min", "15min", "h", "D", "W", "MS", "YS"])
def test_a_sheet_finds_dates_for_its_axes_at_any_step(step: str, tmp_path: Path) -> None:
    times = pd.date_range("2016-07-01", periods=64, freq=step)
    values = pd.Series(np.arange(64.0), index=times)
    lines = [Lines(str(count), values.iloc[:count], values.iloc[count : count + count // 3]) for count in (9, 36, 48)]
    draw_sheet(tmp_path / "sheet.png", lines, "three series")  # matplotlib warns where it finds none
    assert (tmp_path / "sheet.png").stat().st_size > 0


def test_a_sheet_has_the_best_the_median_and_the_worst_series() -> None:
    errors = np.array([5.0, 1, 9, 3, np.nan, 7, 2, 8, 4, 6, 0])
    assert best_median_worst(errors) == [10, 1, 6, 8, 0, 9, 5, 7, 2]
    assert sorted(best_median_worst(errors[:SHEET])) == list(range(SHEET))
    assert sorted(best_median_worst(errors[:10])) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_errors_are_means_of_the_steps_with_a_truth() -> None:
    truth = np.array([[1.0, np.nan, 3.0], [np.nan] * 3])
    np.testing.assert_array_equal(mean_errors(np.zeros((2, 3)), truth), [2.0, np.nan])
