"""The study of seasons: generated loads, and the table of its record."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import seasons
from benchmarks.seasons import SPREADS, generated, tables


@pytest.mark.parametrize(("name", "larger"), [("load_summer", 7), ("load_winter", 1)])
def test_a_generated_load_has_its_largest_noise_in_the_season_of_its_name(name: str, larger: int) -> None:
    months = np.arange(12)
    spread = SPREADS[name](2 * np.pi * (months + 0.5) / 12)
    assert int(spread.argmax()) + 1 in (larger, larger % 12 + 1, (larger - 2) % 12 + 1)


def test_a_generated_load_is_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seasons, "YEAR", 48)
    pd.testing.assert_frame_equal(generated("load_flat"), generated("load_flat"))
    assert len(generated("load_flat")) == 480


def test_the_table_has_the_test_splits_of_the_ridge_and_of_trained_models() -> None:
    row = {"power": 0.5, "plain_coverage": 0.8, "plain_lowest": 0.6, "plain_highest": 0.9, "default_coverage": 0.81}
    row |= {"default_lowest": 0.7, "default_highest": 0.85, "change_of_winkler": -0.012, "mixing_weight": 0.25}
    rows = pd.DataFrame([{"data": "etth1", "part": part, **row} for part in ("before", "test", "trained")])
    lines = [line for line in tables(rows).splitlines() if "etth1" in line]
    scores = "0.5 | 80.0 % | 60 to 90 % | 81.0 % | 70 to 85 % | -1.2 % |"
    assert lines == [f"| `etth1` | ridge | {scores}", f"| `etth1` | trained, weight 25 % | {scores}"]
