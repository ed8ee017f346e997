"""The frequency of an input table."""

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.repair import Policies
from forecast.predict.input import Expected


def table(frequency: str, rows: int = 40) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=rows, freq=frequency)
    return pd.DataFrame({"load": np.arange(float(rows))}, index=index)


def expected(frequency: str, shown: str | None, missing: str = "ffill") -> Expected:
    return Expected(["load"], [], "date", frequency, Policies("error", missing), 20, shown)


@pytest.mark.parametrize(
    ("trained", "shown", "step", "rows"),
    [("D", "B", "B", 54), ("D", None, "B", 54), ("h", "2h", "2h", 79), ("h", "2h", "h", 40)],
)
def test_rows_at_the_step_of_training_rows_are_accepted(trained: str, shown: str | None, step: str, rows: int) -> None:
    series = expected(trained, shown).check(table(step), "mine")
    assert (series.frequency, len(series.frame)) == (trained, rows)


@pytest.mark.parametrize(
    ("trained", "shown", "step", "missing"),
    [("h", None, "2h", "ffill"), ("h", "2h", "4h", "ffill"), ("D", None, "B", "error"), ("D", "B", "W-MON", "ffill")],
)
def test_rows_at_another_step_are_refused(trained: str, shown: str | None, step: str, missing: str) -> None:
    with pytest.raises(InputError, match=rf"^mine: its frequency is {step}, the model was trained at {trained}"):
        expected(trained, shown, missing).check(table(step), "mine")
