"""Rows on longer steps and on the nearest step: what a bucket has, what is left out, and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.data.settings import DataSettings
from forecast.predict.input import read_input
from forecast.tables.repair import Policies
from forecast.tables.times.buckets import Resampling
from tests.support.contracts import contract_of
from tests.support.reading import read_known, series_from_frame
from tests.support.small import compose


def quarters(rows: int = 96, start: str = "2024-01-01") -> pd.DataFrame:
    """Return a table with a row every 15 minutes."""
    times = pd.date_range(start, periods=rows, freq="15min", name="date")
    rain = np.arange(rows) // 4 % 5 * 1.0
    return pd.DataFrame(
        {"load": np.arange(rows) ** 2 % 97.0, "rain": rain, "temp": np.arange(rows) % 4 * 1.0}, index=times
    )


def test_a_bucket_has_the_mean_sum_or_last_of_its_own_rows_and_the_time_of_its_start() -> None:
    table = quarters()
    resampling = Resampling("1h", {"rain": "sum", "temp": "last"})
    series = series_from_frame(table, resampling=resampling)
    expected = table.resample("h").agg({"load": "mean", "rain": "sum", "temp": "last"})
    pd.testing.assert_frame_equal(series.frame, expected.set_axis(expected.index.as_unit("ns")), check_freq=False)
    assert series.frequency == "h"
    assert series.notes == ("96 rows became 24 buckets of 1h (data.resample)",)
    changed = table.copy()
    changed.iloc[8:] = 1e9  # the rows from 02:00 on
    after = series_from_frame(changed, resampling=resampling)
    assert after.frame.iloc[:2].equals(series.frame.iloc[:2])


@pytest.mark.parametrize(
    ("resample", "rule", "frequency"),
    [("1h", "h", "h"), ("90min", "90min", "90min"), ("1D", "D", "D"), ("W-WED", "7D", "W-WED"), ("MS", "MS", "MS")],
)
def test_the_buckets_of_each_step_are_those_of_pandas(resample: str, rule: str, frequency: str) -> None:
    start = "2024-01-03" if "W" in resample else "2024-01-01"  # a Wednesday
    table = quarters(96 * 91, start).iloc[: 96 * 91]
    series = series_from_frame(table, resampling=Resampling(resample))
    expected = table.resample(rule, label="left", closed="left").mean()
    assert series.frequency == frequency
    assert series.frame.index.equals(expected.index[: len(series.frame)].as_unit("ns"))
    assert np.allclose(series.frame, expected.iloc[: len(series.frame)])
    assert len(expected) - len(series.frame) <= 1


def test_days_follow_the_local_calendar_and_hours_absolute_time() -> None:
    times = pd.date_range("2024-10-26", periods=24 * 4 * 3 + 4, freq="15min", tz="Europe/Berlin", name="date")
    table = pd.DataFrame({"load": np.ones(len(times))}, index=times)
    days = series_from_frame(table, resampling=Resampling("1D", {"load": "sum"}))
    assert days.frame["load"].tolist() == [96.0, 100.0, 96.0]  # 27 October has 25 hours
    assert [str(time) for time in days.frame.index[:2]] == ["2024-10-26 00:00:00+02:00", "2024-10-27 00:00:00+02:00"]
    hours = series_from_frame(table, resampling=Resampling("1h"))
    assert len(hours.frame) == 73


def test_incomplete_buckets_at_the_ends_are_left_out_and_said() -> None:
    series = series_from_frame(quarters().iloc[2:-1], resampling=Resampling("1h"))
    assert [str(series.frame.index[place]) for place in (0, -1)] == ["2024-01-01 01:00:00", "2024-01-01 22:00:00"]
    assert series.notes == (
        "88 rows became 22 buckets of 1h (data.resample)",
        "the first bucket, 2024-01-01 00:00:00, was left out: it is not complete",
        "the last bucket, 2024-01-01 23:00:00, was left out: it is not complete",
    )


def test_a_day_that_ends_when_all_do_is_complete() -> None:
    days = pd.date_range("2024-01-01", periods=20, freq="D")
    times = pd.DatetimeIndex([day + pd.Timedelta(hour, "h") for day in days for hour in range(9, 17)], name="date")
    table = pd.DataFrame({"load": np.arange(len(times)) ** 2 % 97.0}, index=times)
    assert series_from_frame(table, resampling=Resampling("1D")).frame.index.equals(days.as_unit("ns"))
    cut = series_from_frame(table.iloc[:-3], resampling=Resampling("1D"))
    assert len(cut.frame) == 19


def test_a_bucket_without_rows_is_a_missing_row_and_one_with_few_is_counted() -> None:
    table = quarters().drop(index=quarters().index[[9, *range(20, 24)]])
    with pytest.raises(InputError, match="the row for 2024-01-01 05:00:00 is missing") as caught:
        series_from_frame(table, resampling=Resampling("1h"))
    assert "data.frequency" not in str(caught.value)
    series = series_from_frame(table, resampling=Resampling("1h"), policies=Policies(missing="mask"))
    assert series.observed is not None
    assert np.flatnonzero(~series.observed[:, 0]).tolist() == [5]
    assert "1 bucket of 1h with fewer rows than most" in series.notes


def test_empty_cells_do_not_count_and_labels_keep_the_last() -> None:
    table = quarters()
    table.iloc[1, 0] = np.nan
    table.iloc[4:8, 0] = np.nan
    table["sky"] = np.where(np.arange(96) % 4 == 3, "rain", "sun")
    policies = Policies(missing="ffill")
    series = series_from_frame(table, covariates=["sky"], known=["sky"], resampling=Resampling("1h"), policies=policies)
    assert series.frame["load"].iloc[0] == (0 + 4 + 9) / 3
    assert series.observed is not None
    assert not series.observed[1, 0]
    assert series.labels["sky"][int(series.frame["sky"].iloc[0])] == "rain"


def test_known_covariates_of_the_future_are_put_into_the_same_buckets() -> None:
    table = quarters()
    table.loc[table.index[78:], ["load", "rain"]] = np.nan  # the target ends at 19:15
    resampling = Resampling("1h", {"temp": "sum"})
    series = series_from_frame(table, covariates=["temp"], known=["temp"], resampling=resampling)
    assert str(series.frame.index[-1]) == "2024-01-01 18:00:00"
    (ahead,) = series.ahead
    assert str(ahead.frame.index[0]) == "2024-01-01 19:00:00"
    assert ahead.frame["temp"].tolist() == [6.0] * 5
    known = read_known(
        quarters()[["temp"]].reset_index(), "k", covariates=["temp"], known=["temp"], resampling=resampling
    )
    assert known.frame["temp"].tolist() == [6.0] * 24


def long(series: pd.DataFrame, name: str) -> pd.DataFrame:
    return series.reset_index().assign(id=name)


def test_each_series_of_a_panel_has_its_own_buckets() -> None:
    table = pd.concat([long(quarters(), "b"), long(quarters(50, "2024-01-01 01:30") * 2, "a")])
    series = series_from_frame(table, ids=["id"], resampling=Resampling("1h", {"rain": "sum"}))
    assert series.ids is not None
    assert (series.frequency, series.ids.lengths.tolist()) == ("h", [12, 24])
    assert series.frame["rain"].iloc[12:].tolist() == quarters()["rain"].resample("h").sum().tolist()
    assert str(series.frame.index[0]) == "2024-01-01 02:00:00"
    assert series.frame["load"].iloc[12:].tolist() == quarters()["load"].resample("h").mean().tolist()
    assert "144 rows became 36 buckets of 1h (data.resample)" in series.notes


def test_predict_puts_its_input_into_the_buckets_of_training() -> None:
    resampling = Resampling("1h", {"load": "sum"})
    contract = contract_of(context_length=12, resampling=resampling)
    again = DataContract.from_dict(contract.to_dict(), 12, 1)
    assert again.reading.resampling == resampling
    series = read_input(again, quarters().iloc[:-2], "the input")
    assert series.frame["load"].tolist() == quarters()["load"].resample("h").sum().tolist()[:-1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"resample": "hourly"}, r"data\.frequency 'hourly' is not a time step"),
        ({"resample": "ME"}, r"data\.resample=ME: names no start of a bucket: use one such as 15min"),
        ({"resample": "B"}, r"data\.resample=B: names no start"),
        ({"snap": "MS"}, r"data\.snap=MS: is not a step of fixed length"),
        ({"resample": "1h", "snap": "5min"}, r"data\.resample and data\.snap are both set"),
        ({"aggregate": {"load": "sum"}}, r"data\.aggregate: needs data\.resample"),
        (
            {"resample": "1h", "aggregate": {"load": "median"}},
            r"data\.aggregate\.load=median: choose mean, sum or last",
        ),
        ({"resample": "1h", "frequency": "h"}, r"data\.frequency=h: data\.resample sets the step"),
        ({"resample": 5}, r"data\.resample=5: must be str or null"),
    ],
)
def test_an_unusable_option_is_refused(values: dict[str, Any], message: str) -> None:
    data = compose("data=csv", "data.path=x.csv")["data"]
    with pytest.raises(InputError, match=message):
        DataSettings.parse({**data, **values})


# --- a clock that drifts


def drifting(each: float, rows: int = 200, step: str = "5min") -> pd.DataFrame:
    """Return a table whose rows come later and later, by so many seconds each."""
    times = pd.date_range("2024-01-01", periods=rows, freq=step) + pd.to_timedelta(np.arange(rows) * each, unit="s")
    return pd.DataFrame({"load": np.arange(rows) ** 2 % 97.0}, index=times.rename("date").round("s"))


def test_snapped_times_are_the_nearest_steps_in_any_order() -> None:
    table = drifting(0.5)
    series = series_from_frame(table.iloc[::-1], resampling=Resampling(snap="5min"))
    assert series.frame.index.equals(pd.date_range("2024-01-01", periods=200, freq="5min").as_unit("ns"))
    assert series.frame["load"].tolist() == table["load"].tolist()
    assert "198 times moved by at most 100 s (data.snap=5min)" in series.notes


def test_a_drift_of_more_than_half_a_step_is_refused() -> None:
    for each in (2.0, -2.0):
        with pytest.raises(InputError, match=r"row \d+: .* is more than half a step of 5min from its place"):
            series_from_frame(drifting(each), resampling=Resampling(snap="5min"))


def test_a_gap_is_no_drift_and_stays_a_gap() -> None:
    table = drifting(0.1).drop(index=drifting(0.1).index[[50, 51]])
    with pytest.raises(InputError, match=r"the row for 2024-01-01 04:10:00 is missing \(2 missing"):
        series_from_frame(table, resampling=Resampling(snap="5min"))


def test_rows_before_known_ones_of_the_future_are_snapped_too() -> None:
    table = drifting(0.5).assign(air=1.0 * (np.arange(200) % 7))
    table.iloc[190:, 0] = np.nan
    series = series_from_frame(
        table, covariates=["air"], known=["air"], resampling=Resampling(snap="5min"), frequency="5min"
    )
    exact = pd.date_range("2024-01-01", periods=200, freq="5min").as_unit("ns")
    assert series.frame.index.equals(exact[:190])
    assert series.ahead[0].frame.index.equals(exact[190:])


def test_predict_snaps_its_input_as_training_did() -> None:
    contract = contract_of(context_length=12, frequency="5min", resampling=Resampling(snap="5min"))
    again = DataContract.from_dict(contract.to_dict(), 12, 1)
    series = read_input(again, drifting(0.5).iloc[:30], "the input")
    assert series.frame.index.equals(pd.date_range("2024-01-01", periods=30, freq="5min").as_unit("ns"))
