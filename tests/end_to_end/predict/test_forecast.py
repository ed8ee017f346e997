"""Forecasts from files and frames of many kinds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.calendar import calendar_features
from forecast.data.scaler import Scaler
from forecast.data.settings import DataSettings
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import load
from forecast.predict.forecaster import Forecaster
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.series import Series
from forecast.tables.times.clock import UNKNOWN, Clock
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.contracts import contract_of, no_facts, with_contract
from tests.support.forecasts import dated, edit, expect_one_line, forecast, put
from tests.support.kept import kept_run
from tests.support.pictures import drawing
from tests.support.small import CONTEXT, HORIZON, changed, hourly, quick, write

# --- times, units and frequencies


@pytest.fixture(scope="module")
def zoned() -> tuple[Path, pd.DataFrame]:
    """Return a run on hourly data of Berlin with its two UTC offsets, and the table."""
    table = hourly()
    local = pd.date_range("2023-03-10", periods=len(table), freq="h", tz="Europe/Berlin")
    table["date"] = list(map(str, local))

    def make(folder: Path) -> None:
        source = write(folder / "all.csv", table)
        train(quick(folder / "outputs", "data=csv", f"data.path={source}", "optimizer.lr=0.01"))

    return kept_run("zoned", make)[0].path, table


@pytest.mark.parametrize("as_written", [True, False], ids=["offset", "zone"])
def test_the_forecast_does_not_depend_on_the_time_zone_of_the_file(
    zoned: tuple[Path, pd.DataFrame], tmp_path: Path, as_written: bool
) -> None:
    run, table = zoned
    forecaster, tail = load(run), table.tail(2 * CONTEXT).copy()
    assert tail["date"].str.endswith("+02:00").all()
    if not as_written:
        tail["date"] = pd.to_datetime(tail["date"]).dt.tz_convert("Asia/Tokyo")
    whole, part = forecaster.predict(table), forecaster.predict(tail)
    np.testing.assert_array_equal(whole, part)
    assert (part.index == whole.index).all()  # the same instants, shown by the clock of the file
    assert str(part.index.tz) == ("UTC+02:00" if as_written else "Asia/Tokyo")


def test_daily_data_in_utc_keep_their_dates_over_a_clock_change() -> None:
    """On 27 October 2024 a day in Berlin has 25 hours, from 22:00 UTC to 23:00 UTC."""
    forecaster = Forecaster(
        model=lambda *_: torch.zeros(1, 14, 1, dtype=torch.float64),
        contract=contract_of(
            context_length=7,
            horizon=14,
            frequency="D",
            clock=Clock("Europe/Berlin", "D"),
            cycles=["day_of_week"],
        ),
        facts=no_facts(),
    )
    days = pd.date_range("2024-10-10", periods=25, freq="D", tz="Europe/Berlin")
    feed = pd.DataFrame({"load": np.arange(11.0)}, index=days[:11].tz_convert("UTC"))
    context, dates = forecaster.context(Series(feed, "D"))
    assert dates.equals(days[11:].tz_convert("UTC"))
    known = np.concatenate([context.past_known[0], context.future_known[0]])
    np.testing.assert_array_equal(known, calendar_features(days.tz_localize(None)[4:], ["day_of_week"]))


@pytest.mark.parametrize("keys", [("data", "time_zone"), ("data", "missing"), ("architecture", "options", "level")])
def test_a_run_that_lacks_a_field_is_refused_with_the_cure(
    keys: tuple[str, ...], copied: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copied, put(*keys, value=...))
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    error = expect_one_line(capsys)
    assert keys[-1] in error
    assert "train it again" in error


def test_times_must_have_a_zone_exactly_if_training_had_one(
    zoned: tuple[Path, pd.DataFrame], tiny_run: TinyRun
) -> None:
    run, table = zoned
    with pytest.raises(InputError, match="its times have no time zone, the training data has UTC: add an offset"):
        load(run).predict(table.assign(date=hourly()["date"]))
    aware = pd.DatetimeIndex(tiny_run.table["date"]).tz_localize("UTC")
    with pytest.raises(InputError, match="its times have a time zone, the training data has none"):
        load(tiny_run.path).predict(tiny_run.table.assign(date=aware))
    old = with_contract(load(tiny_run.path), clock=Clock(UNKNOWN, "h"))  # a run without a recorded zone
    assert len(old.predict(tiny_run.table.assign(date=aware))) == HORIZON


def test_the_forecast_continues_the_input_in_steps_of_its_frequency(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    text = (tmp_path / "next.csv").read_text()
    assert text.startswith("date,load,oil,load_naive,oil_naive\n")
    last = tiny_run.table["date"].iloc[-1]
    wanted = pd.date_range(last + pd.Timedelta(hours=1), periods=HORIZON, freq="h")
    assert dated(tmp_path / "next.csv").index.equals(wanted.rename("date"))


def test_predict_writes_the_forecast_its_picture_and_its_description_only(tiny_run: TinyRun, tmp_path: Path) -> None:
    with drawing("draw_forecast"):
        assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next.csv", "next.json", "next.png"]
    assert (tmp_path / "next.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_forecast_is_in_original_units(tiny_run: TinyRun) -> None:
    forecasts = load(tiny_run.path).predict(tiny_run.table)
    assert list(forecasts.columns) == ["load", "oil"]
    assert bool(forecasts["load"].between(850, 1150).all())
    assert bool(forecasts["oil"].between(-5.2, -4.8).all())


def test_the_forecast_continues_the_daily_cycle_in_phase(tiny_run: TinyRun) -> None:
    forecasts = load(tiny_run.path).predict(tiny_run.table)
    wave = np.sin(2 * np.pi * (np.arange(HORIZON) + len(tiny_run.table)) / 24)
    assert np.corrcoef(wave, forecasts["load"])[0, 1] > 0.9


def test_the_forecast_scales_with_the_unit_of_the_data(tiny_run: TinyRun, tmp_path: Path) -> None:
    table = tiny_run.table.assign(load=tiny_run.table["load"] * 1000 + 7e6)
    source = write(tmp_path / "watts.csv", table)
    config = changed({**tiny_run.config, "output_dir": str(tmp_path / "outputs")}, data__path=str(source))
    run, _ = train(config)
    here, there = load(tiny_run.path).predict(tiny_run.table), load(run.path).predict(table)
    np.testing.assert_allclose(there["load"], here["load"] * 1000 + 7e6, rtol=1e-4)
    np.testing.assert_allclose(there["oil"], here["oil"], rtol=1e-4)


@pytest.mark.parametrize(
    ("frequency", "start", "first"),
    [
        ("15min", "2016-07-01", "15min"),
        ("D", "2016-07-01", "1D"),
        ("MS", "1960-01-01", None),
        ("B", "2016-07-01", None),
    ],
)
def test_the_dates_continue_at_every_frequency(frequency: str, start: str, first: str | None, tmp_path: Path) -> None:
    dates = pd.date_range(start, periods=400, freq=frequency)
    source = write(tmp_path / "rows.csv", hourly(400).assign(date=dates))
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    wanted = pd.date_range(start, periods=400 + HORIZON, freq=frequency)[400:]
    forecasts = load(run.path).predict(pd.read_csv(source))
    assert list(forecasts.index) == list(wanted)
    if first is not None:
        assert forecasts.index[0] - dates[-1] == pd.Timedelta(first)


def test_a_few_rows_of_ambiguous_frequency_have_that_of_training(tmp_path: Path) -> None:
    dates = pd.bdate_range("2016-07-04", periods=400)
    source = write(tmp_path / "rows.csv", hourly(400).assign(date=dates))
    words = ["context_length=5", "model.patch_length=5", "training.max_steps=1"]
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", *words))
    week = hourly(5).assign(date=pd.bdate_range("2018-01-01", periods=5))  # Monday to Friday: a daily step as well
    assert load(run.path).predict(week).index[0] == pd.Timestamp("2018-01-08")


# --- rows without a target, and long tables


AHEAD = 96


@pytest.mark.parametrize("missing", ["error", "ffill", "interpolate", "mask"])
def test_the_forecast_begins_after_the_last_row_with_a_target(missing: str, tiny_run: TinyRun) -> None:
    forecaster = with_contract(load(tiny_run.path), policies=Policies(missing=missing))
    known = tiny_run.table.copy()
    known.loc[len(known) - AHEAD :, ["load", "oil"]] = np.nan
    wanted = forecaster.predict(tiny_run.table.iloc[:-AHEAD])
    pd.testing.assert_frame_equal(forecaster.predict(known), wanted, check_exact=True)
    assert wanted.index[0] == tiny_run.table["date"].iloc[-AHEAD]


def test_one_line_counts_the_rows_without_a_target(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tiny_run.table.copy()
    known.loc[len(known) - AHEAD :, ["load", "oil"]] = np.nan
    given, cut = write(tmp_path / "known.csv", known), write(tmp_path / "cut.csv", tiny_run.table.iloc[:-AHEAD])
    for source in (given, cut):
        assert forecast(tiny_run.path, source, source.with_suffix(".parquet")) == 0
    pd.testing.assert_frame_equal(dated(tmp_path / "known.parquet"), dated(tmp_path / "cut.parquet"), check_exact=True)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "no target value" in line]
    first = tiny_run.table["date"].iloc[-AHEAD]
    assert line.startswith(f"{given}: the last {AHEAD} rows have no target value, from {first} on")


def test_training_excludes_final_rows_without_a_target_with_a_note(tiny_run: TinyRun, tmp_path: Path) -> None:
    from forecast.data.sources import load_source

    known = tiny_run.table.copy()
    known.loc[len(known) - AHEAD :, ["load", "oil"]] = np.nan
    path = write(tmp_path / "known.csv", known)
    series = load_source(DataSettings.parse({**tiny_run.config["data"], "path": str(path)})).series
    assert len(series.frame) == len(known) - AHEAD
    assert series.observed is None
    assert series.notes[0].startswith(f"the last {AHEAD} rows have no target value, from ")


@pytest.mark.parametrize("names", [["A", "B"], [3, 4]])
@pytest.mark.parametrize("policy", ["error", "mean"])
def test_a_long_table_is_refused_by_a_run_of_one_series(names: list[Any], policy: str, tiny_run: TinyRun) -> None:
    forecaster = with_contract(load(tiny_run.path), policies=Policies(duplicates=policy))
    long = pd.concat([tiny_run.table.assign(meter=name) for name in names])
    with pytest.raises(InputError, match="the frame is a long table: column 'meter' identifies 2 series") as caught:
        forecaster.predict(long)
    assert "data.duplicates" not in str(caught.value)
    if policy == "mean":  # as a run that was trained so
        assert len(with_contract(forecaster, merges_series=True).predict(long)) == HORIZON


def test_a_run_that_merged_several_series_forecasts_from_a_long_table(tmp_path: Path) -> None:
    long = pd.concat([hourly(500)[["date", "load"]].assign(meter=name) for name in ("A", "B")])
    source = write(tmp_path / "long.csv", long)
    words = ["data=csv", f"data.path={source}", "data.targets=[load]", "data.duplicates=mean", "training.max_steps=1"]
    run, result = train(quick(tmp_path / "outputs", *words))
    assert any("2 series, identified by 'meter', were merged into one" in note for note in result["data"]["notes"])
    assert forecast(run.path, source, tmp_path / "next.csv") == 0


def test_a_forecast_is_written_without_digits_that_it_does_not_have(tiny_run: TinyRun, tmp_path: Path) -> None:
    """With deviations of 74 and 0.07 the columns have four and seven decimals, in the run folder too."""
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(tmp_path / "next.csv")]
    assert predict([*words, "--levels", "80"]) == 0
    decimals = load(tiny_run.path).decimals
    assert decimals == {"load": 4, "oil": 7}
    for path in (tmp_path / "next.csv", tiny_run.path / "forecast.csv"):
        table = pd.read_csv(path, index_col=0, dtype=str)
        for column in table:
            places = table[column].str.partition(".")[2].str.len()
            assert places.max() == decimals[column.partition("_")[0]]


# --- input from Python


def test_only_a_model_of_one_column_accepts_a_series(tiny_run: TinyRun) -> None:
    several = load(tiny_run.path)
    series = tiny_run.table.set_index("date")["load"]
    for given, kind in ((series, "a Series 'load'"), (series.to_numpy(), "a ndarray"), ([1.0], "a list")):
        with pytest.raises(
            InputError, match=f"^predict takes a DataFrame with the columns 'load', 'oil', 'air': this is {kind}"
        ):
            several.predict(given)  # type: ignore[arg-type]
    scaler = several.contract.scaler
    contract = replace(
        several.contract, roles=Roles(["load"]), scaler=Scaler(scaler.mean[:1], scaler.scale[:1], ["load"])
    )
    one = Forecaster(lambda *_: torch.ones(1, HORIZON, 1), contract, no_facts())
    assert list(one.predict(series)) == list(one.predict(series.rename(None))) == ["load"]
    with pytest.raises(InputError, match="a Series 'oil'"):
        one.predict(series.rename("oil"))


def test_a_missing_value_marker_also_counts_in_the_input(tiny_run: TinyRun) -> None:
    policies = Policies(missing="ffill", missing_values=(-9999,))
    forecaster = with_contract(load(tiny_run.path), policies=policies)
    table = tiny_run.table.copy()
    place = (table.index[-3], forecaster.targets[0])
    table.loc[place] = np.nan
    expected = forecaster.predict(table)
    table.loc[place] = -9999
    pd.testing.assert_frame_equal(forecaster.predict(table), expected)
