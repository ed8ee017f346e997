from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.published import contest
from benchmarks.published.contest import Entry, quantiles_of
from benchmarks.published.tasks import Task
from tests.support.small import CONTEXT, QUICK, SMALL, hourly

TASK = Task("small", (), horizon=24, windows=1, season=24, naive_mase=1.0, read=pd.DataFrame, known=("known",))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word for word in QUICK if not word.startswith("horizon=")]
    monkeypatch.setitem(contest.RECIPES, "quick", (*SMALL["patch_informer"], *words))


def table() -> pd.DataFrame:
    frame = hourly(500 + CONTEXT).set_index("date")
    frame.columns = ["first series", "second", "known"]
    return frame


def test_a_window_is_forecast_from_its_past_and_what_is_known_ahead(tmp_path: Path) -> None:
    rows = table()
    entry = Entry(TASK, rows, "quick", tmp_path)
    entry.train()
    (quantiles,) = entry.forecast()
    minutes = entry.minutes
    assert sorted(minutes) == ["train", "window_0"]
    assert min(minutes.values()) > 0
    assert quantiles.shape == (24, 2, 9)
    assert (np.diff(quantiles, axis=2) >= 0).all()
    assert len(pd.read_csv(tmp_path / "past.csv")) == len(rows) - 24
    entry.train()  # the same command again continues, here with nothing to do
    np.testing.assert_array_equal(entry.forecast()[0], quantiles)
    assert entry.minutes == minutes

    def changed(column: str, value: float) -> np.ndarray:
        (tmp_path / "window_0.csv").unlink()
        other = rows.copy()
        other.loc[rows.index[-24:], column] = value
        return Entry(TASK, other, "quick", tmp_path).forecast()[0]

    np.testing.assert_array_equal(changed("second", 1e9), quantiles)  # the future is not in the input
    assert (changed("known", 5.0) != quantiles).any()  # what is known ahead is


def test_the_levels_of_a_file_are_in_rising_order() -> None:
    columns = {f"a_lower_{level}": [50 - level] for level in (20, 40, 60, 80)}
    columns |= {f"a_upper_{level}": [50 + level] for level in (20, 40, 60, 80)} | {"a": [50]}
    (quantiles,) = quantiles_of(pd.DataFrame(columns), ["a"])[0]
    assert quantiles.tolist() == [-30, -10, 10, 30, 50, 70, 90, 110, 130]
