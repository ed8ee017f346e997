"""Rows after the last target value hold inputs known in advance: the series ends before them."""

import numpy as np
import pandas as pd
import pytest

from forecast.tables.repair import MISSING, Policies
from forecast.tables.series import Series
from tests.support.reading import series_from_frame

AHEAD = 5


def table(rows: int = 60) -> pd.DataFrame:
    when = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame({"when": when, "load": np.arange(rows) + 0.5, "oil": np.arange(rows) * 2.0, "air": 20.0})


def read(given: pd.DataFrame, missing: str = "error") -> Series:
    return series_from_frame(
        given, columns=["load", "oil", "air"], covariates=["air"], policies=Policies(missing=missing)
    )


def same(one: Series, other: Series) -> None:
    pd.testing.assert_frame_equal(one.frame, other.frame, check_exact=True)
    assert (one.frequency, one.observed is None) == (other.frequency, other.observed is None)


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("empty", [np.nan, "", "  "])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "newest first"])
def test_rows_behind_the_last_target_are_as_if_they_were_not_there(missing: str, empty: object, order: int) -> None:
    whole = table()
    given = whole.astype({"load": object, "oil": object})
    given.loc[len(given) - AHEAD :, ["load", "oil"]] = empty
    given = given.iloc[::order]
    series = read(given, missing)
    same(series, read(whole.iloc[:-AHEAD], missing))
    first = whole["when"].iloc[-AHEAD]
    wanted = f"the last 5 rows have no target value, from {first} on: the forecast begins after the last value"
    assert wanted in series.notes


def test_dates_behind_the_last_target_decide_nothing() -> None:
    """Their offset and their step would make another series of it."""
    whole = table()
    written = whole.assign(when=[f"{when:%Y-%m-%d %H:%M:%S}+01:00" for when in whole["when"]])
    last = pd.DataFrame({"when": ["2024-04-02 00:00:00+02:00", "2024-04-09 00:00:00+02:00"], "air": [1.0, 2.0]})
    same(read(pd.concat([written, last])), read(written))


@pytest.mark.parametrize("missing", ["ffill", "mask"])
def test_a_gap_of_some_targets_alone_stays_a_gap(missing: str) -> None:
    given = table()
    given.loc[len(given) - AHEAD :, "load"] = np.nan
    series = read(given, missing)
    assert len(series.frame) == len(given)
    assert series.observed is not None
    assert series.observed[-AHEAD:].tolist() == [[False, True, True]] * AHEAD


def test_an_inner_gap_and_a_table_without_targets_are_treated_as_before() -> None:
    given = table()
    given.loc[20:25, ["load", "oil"]] = np.nan
    assert len(read(given, "ffill").frame) == len(given)
    with pytest.raises(ValueError, match="'load': has no value in any row"):
        read(given.assign(load=np.nan, oil=np.nan), "ffill")


def test_rows_ahead_show_which_number_is_the_day() -> None:
    when = [f"{day:02d}.07.2016" for day in range(1, 21)]
    given = pd.DataFrame({"when": when, "load": [*np.arange(12.0), *[np.nan] * 8], "air": 20.0})
    series = series_from_frame(given, columns=["load", "air"], covariates=["air"], known=["air"])
    assert series.frame.index[0] == pd.Timestamp("2016-07-01")
    assert len(series.frame) == 12
