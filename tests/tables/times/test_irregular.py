"""The refusal of irregular times names an option, and that option reads the table right."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.predict.input import without_training_options
from forecast.tables.series import Series
from tests.support.reading import series_from_frame
from tests.support.small import compose


def table_at(times: pd.DatetimeIndex) -> pd.DataFrame:
    return pd.DataFrame({"load": np.arange(len(times)) ** 2 % 97.0}, index=times.rename("date"))


def written(table: pd.DataFrame, folder: Path) -> Path:
    path = folder / "my.csv"
    table.to_csv(path)
    return path


def read(path: Path, *words: str) -> Series:
    return load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"])).series


def refusal(path: Path, *words: str) -> str:
    with pytest.raises(InputError) as caught:
        read(path, *words)
    text = str(caught.value)
    assert "\n" not in text
    return text


def words_of(text: str) -> list[str]:
    """Return the options that a message names."""
    return [word for word in shlex.split(re.sub(r"[,:](?= |$)", "", text)) if word.startswith("data.")]


def changed(coarse: str, fine: str, before: int, after: int) -> pd.DatetimeIndex:
    first = pd.date_range("2021-05-01", periods=before, freq=coarse)
    return first.append(pd.date_range(first[-1], periods=after + 1, freq=fine)[1:])


@pytest.mark.parametrize(
    ("times", "step_before", "step_after", "longer"),
    [
        (changed("h", "15min", 100, 200), "1h", "15min", "1h"),
        (changed("15min", "h", 200, 100), "15min", "1h", "1h"),
        (changed("30min", "10min", 120, 60), "30min", "10min", "30min"),
        (changed("D", "h", 90, 720), "1D", "1h", "1D"),
        (changed("MS", "D", 40, 300), "MS", "1D", "MS"),
        (changed("QS", "MS", 20, 60), "QS", "MS", "QS"),
    ],
)
def test_a_step_that_changes_is_named_with_both_ways_out(
    times: pd.DatetimeIndex, step_before: str, step_after: str, longer: str, tmp_path: Path
) -> None:
    path = written(table_at(times), tmp_path)
    text = refusal(path)
    newer = re.search(r"data\.last_rows=(\d+)", text)
    assert newer is not None
    count = int(newer[1])
    start = times[len(times) - count]
    assert f"row {len(times) - count + 2}: the step changes from {step_before} to {step_after} at {start}" in text
    assert text.endswith(f"data.last_rows={count}, or at one step with data.resample={longer}")
    fine = read(path, f"data.last_rows={count}")
    assert fine.frame.index.equals(times[-count:].as_unit("ns"))
    coarse = read(path, f"data.resample={longer}")
    means = table_at(times).resample({"1D": "D", "1h": "h"}.get(longer, longer)).mean()
    assert np.allclose(coarse.frame["load"], means["load"].iloc[: len(coarse.frame)])
    assert len(means) - len(coarse.frame) <= 1


def test_the_newer_rows_are_counted_with_their_doubled_times(tmp_path: Path) -> None:
    table = table_at(changed("h", "15min", 100, 200))
    path = written(pd.concat([table, table.iloc[[-1]]]), tmp_path)
    text = refusal(path, "data.duplicates=mean")
    count = int(re.findall(r"last_rows=(\d+)", text)[0])
    assert read(path, "data.duplicates=mean", f"data.last_rows={count}").frequency == "15min"


def test_gaps_and_a_few_shorter_steps_are_no_change_of_the_step() -> None:
    hours = pd.date_range("2024-01-01", periods=300, freq="h")
    with pytest.raises(InputError, match="is missing"):
        series_from_frame(table_at(hours.delete(range(40, 50))))
    with pytest.raises(InputError, match="off the grid"):
        series_from_frame(table_at(hours.append(hours[[30, 31]] + pd.Timedelta(15, "min")).sort_values()))


@pytest.mark.parametrize(
    ("step", "each"), [("5min", 0.05), ("10min", 0.3), ("1h", 0.4), ("15min", -0.2), ("1min", 0.02)]
)
def test_a_clock_that_drifts_is_named_with_the_step_to_snap_to(step: str, each: float, tmp_path: Path) -> None:
    exact = pd.date_range("2024-03-01 01:00", periods=200, freq=step)
    late = exact + pd.to_timedelta(np.round(np.arange(200) * each), unit="s")
    path = written(table_at(late), tmp_path)
    text = refusal(path)
    assert words_of(text) == [f"data.snap={step}"]
    assert read(path, *words_of(text)).frame.index.equals(exact.as_unit("ns"))


def test_a_drift_of_more_than_half_a_step_leads_to_longer_steps(tmp_path: Path) -> None:
    late = pd.date_range("2024-03-01", periods=2000, freq="301s")
    text = refusal(written(table_at(late), tmp_path), "data.frequency=5min")
    assert "snap" not in text
    drifting = late + pd.to_timedelta(np.random.default_rng(0).integers(0, 9, 2000), unit="s")
    path = written(table_at(drifting), tmp_path)
    text = refusal(path)
    assert words_of(text) == ["data.resample=10min"]
    series = read(path, *words_of(text))
    assert series.frequency == "10min"


def test_irregular_times_lead_to_steps_that_nearly_all_have_rows(tmp_path: Path) -> None:
    seconds = np.random.default_rng(0).integers(60, 3000, 800).cumsum()
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s")
    path = written(table_at(times), tmp_path)
    words = words_of(refusal(path))
    assert words == ["data.resample=1h"]
    series = read(path, *words)
    assert series.frame["load"].iloc[3] == table_at(times).resample("h").mean()["load"].iloc[4]


def test_a_wrong_frequency_leads_to_the_right_one(tmp_path: Path) -> None:
    thirtieth = pd.date_range("2001-01-01", periods=60, freq="MS")
    thirtieth = thirtieth + pd.to_timedelta(np.minimum(30, thirtieth.days_in_month) - 1, unit="D")
    path = written(table_at(thirtieth), tmp_path)
    text = refusal(path, "data.frequency=ME")
    assert words_of(text) == ["data.frequency=month-30"]
    assert read(path, "data.frequency=month-30").frame.index.equals(thirtieth.as_unit("ns"))
    hours = written(table_at(pd.date_range("2024-01-01", periods=50, freq="h")), tmp_path)
    assert words_of(refusal(hours, "data.frequency=2h")) == ["data.frequency=h"]


def test_no_advice_invents_more_than_a_tenth_of_the_rows(tmp_path: Path) -> None:
    times = pd.date_range("2024-01-01", periods=200, freq="h")
    for share, has_line in ((0.08, True), (0.2, False)):
        keep = np.random.default_rng(3).random(200) > share
        keep[[0, -1]] = True
        assert ("interpolate" in refusal(written(table_at(times[keep]), tmp_path))) == has_line
        empty = table_at(times).where(keep[:, None])
        assert ("interpolate" in refusal(written(empty, tmp_path))) == has_line


def test_a_forecast_is_not_sent_to_options_of_a_training() -> None:
    for times in (changed("h", "15min", 100, 200), pd.date_range("2024-03-01", periods=90, freq="61s").round("5s")):
        with pytest.raises(InputError) as caught, without_training_options():
            series_from_frame(table_at(times))
        assert "data." not in str(caught.value)


def test_days_of_a_panel_at_changing_hours_count_as_days() -> None:
    days = pd.date_range("2024-01-01", periods=40, freq="D")
    draw = np.random.default_rng(0)
    parts = [
        table_at(days + pd.to_timedelta(draw.integers(300, 600, 40), unit="min")).reset_index().assign(id=name)
        for name in "ab"
    ]
    series = series_from_frame(pd.concat(parts), ids=["id"])
    assert series.frequency == "D"
    assert series.frame.index.equals(days.append(days).as_unit("ns"))


def test_a_calendar_of_people_is_the_step_of_a_panel() -> None:
    starts = pd.date_range("2010-01-01", periods=30, freq="MS")
    times = pd.DatetimeIndex([start + pd.Timedelta(day, "D") for start in starts for day in (0, 10, 20)])
    parts = [table_at(times[place:]).reset_index().assign(id=name) for place, name in enumerate("abc")]
    series = series_from_frame(pd.concat(parts), ids=["id"])
    assert series.frequency == "month-1-11-21"
    assert series.ids is not None
    assert series.ids.lengths.tolist() == [90, 89, 88]
