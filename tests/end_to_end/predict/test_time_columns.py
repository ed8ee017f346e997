"""Forecasts of files with dates and hours in two columns, as in training."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.export.__main__ import main as export
from forecast.predict.ensemble import load
from forecast.tables.times.time_format import PLAIN, TimeFormat
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.forecasts import dated, edit, expect_one_line, forecast, put
from tests.support.small import CONTEXT, HORIZON, hourly, quick, write

EARLIER = 60
"""Rows before the first that is used."""

LEARNING = ["model.linear_path=zero", "training.max_steps=2"]


def in_two_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with American dates, hours from 1 to 24, and blanks around a name."""
    days, hours = table["date"].dt.strftime("%m/%d/%y"), table["date"].dt.hour + 1
    return pd.DataFrame({"Date": days, "Hour": hours, " load": table["load"], "air ": table["air"]})


@pytest.fixture(scope="module")
def split_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """Train on the last 700 hours of a file with dates and hours."""
    folder = tmp_path_factory.mktemp("split")
    table = hourly(700 + EARLIER)
    given = in_two_columns(table)
    given.loc[: EARLIER - 1, " load"] = np.nan
    source = write(folder / "hours.csv", given)
    words = ["data=csv", f"data.path={source}", "data.targets=[load]", "data.past_covariates=[air]", *LEARNING]
    words += ["data.time_columns=[Date,Hour]", "data.date_format=%m/%d/%y", "data.last_rows=700"]
    config = quick(folder / "outputs", *words)
    run, result = train(config)
    return TinyRun(run.path, source, table, config, result)


@pytest.fixture(scope="module")
def plain_run(split_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on the same hours with one column of times."""
    folder = tmp_path_factory.mktemp("plain")
    source = write(folder / "hours.csv", split_run.table.tail(700)[["date", "load", "air"]])
    words = ["data=csv", f"data.path={source}", "data.targets=[load]", "data.past_covariates=[air]", *LEARNING]
    run, _ = train(quick(folder / "outputs", *words))
    return run.path


def test_the_manifest_and_the_result_say_how_the_times_were_read(split_run: TinyRun, plain_run: Path) -> None:
    data = json.loads((split_run.path / "manifest.json").read_text())["data"]
    facts = {"time_columns": ["Date", "Hour"], "date_format": "%m/%d/%y", "first_hour": 1}
    assert (data["time_column"], {key: data[key] for key in facts}) == ("Date", facts)
    assert load(split_run.path).contract.reading.time_format == TimeFormat(("Date", "Hour"), "%m/%d/%y", 1)
    assert not set(facts) & set(json.loads((plain_run / "manifest.json").read_text())["data"])
    assert load(plain_run).contract.reading.time_format == PLAIN
    begin = split_run.table["date"][EARLIER]
    assert split_run.result["data"]["rows"] == 700
    assert split_run.result["data"]["notes"] == [
        f"the first 60 rows were left out: data.last_rows=700 begins at {begin}",
        "column names without their blanks: 'load', 'air'",
        "times were made of 'Date' and 'Hour' (hours 1 to 24: hour 1 begins at 00:00)",
    ]


def test_a_new_file_of_the_same_shape_is_forecast_like_one_column_of_times(
    split_run: TinyRun, plain_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = hourly(800, seed=3).tail(90)
    assert forecast(split_run.path, write(tmp_path / "new.csv", in_two_columns(later)), tmp_path / "next.csv") == 0
    assert "new.csv: times were made of 'Date' and 'Hour' (hours 1 to 24" in capsys.readouterr().out
    forecasts = dated(tmp_path / "next.csv")
    assert forecasts.index[0] == later["date"].iloc[-1] + pd.Timedelta(hours=1)
    expected = load(plain_run).predict(later)
    np.testing.assert_array_equal(forecasts.index, expected.index)
    np.testing.assert_array_equal(forecasts.to_numpy(), expected.to_numpy())


FRAMES: dict[str, Any] = {
    "two columns": in_two_columns,
    "datetimes and hours": lambda table: in_two_columns(table).assign(Date=table["date"].dt.normalize()),
    "one column of the name of the dates": lambda table: table.rename(columns={"date": "Date"}),
    "text in one column": lambda table: table.rename(columns={"date": "Date"}).astype({"Date": str}),
    "one column of another name": lambda table: table,
    "an index": lambda table: table.set_index("date"),
    "an index of the name of the dates": lambda table: table.set_index("date").rename_axis("Date"),
    "an index without a name": lambda table: table.set_index("date").rename_axis(None),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_may_have_its_times_in_one_column_or_in_its_index(name: str, split_run: TinyRun) -> None:
    forecaster = load(split_run.path)
    forecasts = forecaster.predict(FRAMES[name](split_run.table))
    pd.testing.assert_frame_equal(forecasts, forecaster.predict(in_two_columns(split_run.table)), check_exact=True)
    assert forecasts.index[0] == split_run.table["date"].iloc[-1] + pd.Timedelta(hours=1)
    assert forecasts.index.name == "Date"


def test_a_few_rows_without_hour_24_are_numbered_as_in_training(split_run: TinyRun) -> None:
    rows = split_run.table[split_run.table["date"].dt.hour.between(0, 22)].tail(2 * CONTEXT)
    forecaster = load(split_run.path)
    with pytest.raises(InputError, match=r"the row for .* 23:00:00 is missing"):
        forecaster.predict(in_two_columns(rows))
    table = in_two_columns(split_run.table)
    with pytest.raises(InputError, match=r"column 'Hour', row 14: '0' is not an hour .* from 1 to 24, as in training$"):
        forecaster.predict(table.assign(Hour=table["Hour"] - 1).iloc[12:])


def test_dates_of_another_format_are_refused_by_row(
    split_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = in_two_columns(split_run.table).assign(Date=split_run.table["date"].dt.strftime("%Y-%m-%d"))
    assert forecast(split_run.path, write(tmp_path / "new.csv", table), tmp_path / "next.csv") == 2
    assert "column 'Date', row 2: '2016-07-01' does not match data.date_format=%m/%d/%y" in expect_one_line(capsys)


def test_a_few_dates_have_the_order_of_day_and_month_of_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = hourly(900)
    written = table.assign(date=table["date"].dt.strftime("%d/%m/%Y %H:%M"))
    source = write(tmp_path / "hours.csv", written.head(700)[["date", "load"]])
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "data.targets=[load]", *LEARNING))
    early = table["date"].between("2016-08-02", "2016-08-06 23:00")
    assert early.sum() == 120 > CONTEXT
    assert forecast(run.path, write(tmp_path / "new.csv", written[early]), tmp_path / "next.csv") == 0
    assert "new.csv: dates were read as day/month/year, as in training" in capsys.readouterr().out
    assert dated(tmp_path / "next.csv").index[0] == pd.Timestamp("2016-08-07")
    expected = load(run.path).predict(table[early])
    np.testing.assert_array_equal(dated(tmp_path / "next.csv").to_numpy(), expected.to_numpy())


@pytest.mark.exhaustive
def test_an_exported_model_reads_the_same_file(split_run: TinyRun, tmp_path: Path) -> None:
    assert export(["--run", str(split_run.path), "--output", str(tmp_path / "model.pt2")]) == 0
    exported = load(tmp_path / "model.pt2")
    assert exported.contract.reading.time_format == TimeFormat(("Date", "Hour"), "%m/%d/%y", 1)
    table = in_two_columns(split_run.table)
    np.testing.assert_allclose(exported.predict(table), load(split_run.path).predict(table), rtol=1e-4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("time_columns", value) for value in ("Date", ["Date"], ["Date", "Date"], ["Date", "Hour\x1b"], 5, {})),
        *(("date_format", value) for value in (5, "", "%Q", "%m/%d", ["%Y"], "%Y\n")),
        *(("first_hour", value) for value in (2, True, "1", 1.0, [1])),
        *(("day_first", value) for value in (1, "true", [True])),
    ],
)
def test_a_damaged_manifest_is_refused_in_one_line(key: str, value: Any, split_run: TinyRun, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(split_run.path, tmp_path / "run"))
    edit(copied, put("data", key, value=value))
    with pytest.raises(InputError, match=r"manifest\.json") as caught:
        load(copied)
    assert "\n" not in str(caught.value)


def test_a_manifest_without_the_keys_reads_one_column_of_times(split_run: TinyRun, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(split_run.path, tmp_path / "run"))
    for key in ("time_columns", "date_format", "first_hour"):
        edit(copied, put("data", key, value=...))
    forecaster = load(copied)
    assert forecaster.contract.reading.time_format == PLAIN
    assert len(forecaster.predict(split_run.table)) == HORIZON
