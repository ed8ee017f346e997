from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from forecast.picture import draw_forecast

HOURS = pd.date_range("2016-07-01", periods=16, freq="h")


def drawn(path: Path, past: list[float], *forecast: float) -> np.ndarray:
    """Give the pixels of a forecast after twelve hours, of which three are drawn a step."""
    table, steps = pd.DataFrame({"load": past}, index=HOURS[:12]), HOURS[12 : 12 + len(forecast)]
    draw_forecast(path, table, pd.DataFrame({"load": forecast}, index=steps))
    return np.asarray(Image.open(path))


def test_a_forecast_of_one_step_is_seen(tmp_path: Path) -> None:
    past = [0.0, 10.0] * 6
    assert not np.array_equal(drawn(tmp_path / "low.png", past, 2.0), drawn(tmp_path / "high.png", past, 8.0))


def test_a_value_between_two_gaps_is_seen(tmp_path: Path) -> None:
    low, high = ([0.0, 10.0] * 4 + [np.nan, value, np.nan, 5.0] for value in (2.0, 8.0))
    steps = (5.0, 5.0, 5.0, 5.0)
    assert not np.array_equal(drawn(tmp_path / "low.png", low, *steps), drawn(tmp_path / "high.png", high, *steps))
