import hashlib
import io
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from forecast.common.errors import InputError, NotFiniteError
from forecast.data.calendar import calendar_features
from forecast.data.clock import UNKNOWN, Clock
from forecast.data.repair import Policies
from forecast.data.scaler import Scaler
from forecast.data.series import Series
from forecast.predict.__main__ import main as predict
from forecast.predict.forecaster import Forecaster, load
from forecast.predict.transplant import main as transplant
from forecast.runs.run import Run
from forecast.training import command_line
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, HORIZON, ROOT, SMALL, changed, hourly, quick, rewrite, seal, snapshot, write

PARTS = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def forecast(run: Path, source: Path, output: Path) -> int:
    return predict(["--run", str(run), "--input", str(source), "--output", str(output)])


def dated(path: Path) -> pd.DataFrame:
    """Read a forecast back, the times as index."""
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
    else:  # every digit counts, and pandas before version 3 leaves the last ones to chance
        table = pd.read_csv(path, index_col=0, dtype=object).astype(np.float64)
    return table.set_index(pd.DatetimeIndex(table.index).as_unit("ns"))


# --- what is forecast


@pytest.fixture(scope="module")
def zoned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Return a run on hours of Berlin written with their offsets, of which there are two, and the table."""
    table = hourly()
    local = pd.date_range("2023-03-10", periods=len(table), freq="h", tz="Europe/Berlin")
    table["date"] = list(map(str, local))
    folder = tmp_path_factory.mktemp("zoned")
    source = write(folder / "all.csv", table)
    run, _ = train(quick(folder / "outputs", "data=csv", f"data.path={source}", "optimizer.lr=0.01"))
    return run.path, table


@pytest.mark.parametrize("as_written", [True, False], ids=["offset", "zone"])
def test_the_same_instants_are_forecast_alike_in_whatever_zone_a_file_has_them(
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


def test_days_of_a_feed_in_utc_keep_the_dates_of_training_over_a_change_of_the_clock() -> None:
    """On 27 October 2024 a day of Berlin has 25 hours: 22:00 the day before is its midnight, 23:00 the next one's."""
    forecaster = Forecaster(
        model=lambda *_: torch.zeros(1, 14, 1, dtype=torch.float64),
        scaler=Scaler(np.zeros(1), np.ones(1), ["load"]),
        targets=["load"],
        past_covariates=[],
        time_column="date",
        frequency="D",
        shown=None,
        clock=Clock("Europe/Berlin", "D"),
        cycles=["day_of_week"],
        policies=Policies(),
        context_length=7,
        horizon=14,
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
    assert repr(keys[-1]) in error
    assert "train it again" in error


def test_times_without_a_zone_are_refused_where_training_had_one_and_the_other_way_round(
    zoned: tuple[Path, pd.DataFrame], tiny_run: TinyRun
) -> None:
    run, table = zoned
    with pytest.raises(InputError, match="its times have no zone, those of training are UTC: give them an offset"):
        load(run).predict(table.assign(date=hourly()["date"]))
    aware = pd.DatetimeIndex(tiny_run.table["date"]).tz_localize("UTC")
    with pytest.raises(InputError, match="its times have a zone, those of training have none"):
        load(tiny_run.path).predict(tiny_run.table.assign(date=aware))
    old = replace(load(tiny_run.path), clock=Clock(UNKNOWN, "h"))  # a run that did not write it down
    assert len(old.predict(tiny_run.table.assign(date=aware))) == HORIZON


def test_the_forecast_continues_the_input_in_steps_of_its_frequency(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    text = (tmp_path / "next.csv").read_text()
    assert text.startswith("date,load,oil\n")
    last = tiny_run.table["date"].iloc[-1]
    wanted = pd.date_range(last + pd.Timedelta(hours=1), periods=HORIZON, freq="h")
    assert dated(tmp_path / "next.csv").index.equals(wanted.rename("date"))


def test_a_picture_lies_beside_the_forecast_and_nothing_else(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next.csv", "next.png"]
    assert (tmp_path / "next.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_forecast_is_in_original_units(tiny_run: TinyRun) -> None:
    found = load(tiny_run.path).predict(tiny_run.table)
    assert list(found.columns) == ["load", "oil"]
    assert bool(found["load"].between(850, 1150).all())
    assert bool(found["oil"].between(-5.2, -4.8).all())


def test_the_day_in_the_data_is_in_the_forecast_in_phase(tiny_run: TinyRun) -> None:
    found = load(tiny_run.path).predict(tiny_run.table)
    wave = np.sin(2 * np.pi * (np.arange(HORIZON) + len(tiny_run.table)) / 24)
    assert np.corrcoef(wave, found["load"])[0, 1] > 0.9


def test_another_unit_of_the_data_is_another_unit_of_the_forecast(tiny_run: TinyRun, tmp_path: Path) -> None:
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
def test_dates_go_on_at_every_frequency(frequency: str, start: str, first: str | None, tmp_path: Path) -> None:
    dates = pd.date_range(start, periods=400, freq=frequency)
    source = write(tmp_path / "rows.csv", hourly(400).assign(date=dates))
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    wanted = pd.date_range(start, periods=400 + HORIZON, freq=frequency)[400:]
    found = load(run.path).predict(pd.read_csv(source))
    assert list(found.index) == list(wanted)
    if first is not None:
        assert found.index[0] - dates[-1] == pd.Timedelta(first)


def test_a_few_rows_that_might_be_of_another_step_are_of_trainings(tmp_path: Path) -> None:
    dates = pd.bdate_range("2016-07-04", periods=400)
    source = write(tmp_path / "rows.csv", hourly(400).assign(date=dates))
    words = ["context_length=5", "model.patch_length=5", "training.max_steps=1"]
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", *words))
    week = hourly(5).assign(date=pd.bdate_range("2018-01-01", periods=5))  # Monday to Friday: a daily step as well
    assert load(run.path).predict(week).index[0] == pd.Timestamp("2018-01-08")


# --- files with gaps and doubled times

LAST_GAP = [*range(660, 664), 690]


def holed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with rows absent, one row twice, and a cell empty in the last two days."""
    copy = table.copy()
    copy.loc[680, "oil"] = np.nan
    return pd.concat([copy.drop(index=[*range(100, 110), *LAST_GAP]), copy.loc[[670]]])


@pytest.fixture(scope="module", params=["ffill", "interpolate", "mask"])
def repaired(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """Train on a file with gaps under each policy."""
    folder = tmp_path_factory.mktemp("repaired")
    table = holed(hourly())
    source = write(folder / "hours.csv", table)
    words = ["data=csv", f"data.path={source}", "data.past_covariates=[air]", "data.duplicates=mean"]
    words += [f"data.missing={request.param}", "model.linear_path=zero", "training.max_steps=12"]
    config = quick(folder / "outputs", *words)
    run, result = train(config)
    return TinyRun(run.path, source, table, config, result)


def test_a_run_on_a_file_with_gaps_says_what_was_changed_and_left_out(repaired: TinyRun) -> None:
    missing = repaired.config["data"]["missing"]
    data = repaired.result["data"]
    assert data["rows"] == 700
    assert data["policies"] == {"duplicates": "mean", "missing": missing}
    left_out = {"train": 10, "validation": 0, "test": 5} if missing == "interpolate" else dict.fromkeys(PARTS, 0)
    assert data["windows_left_out"] == left_out
    whole = {"train": 430, "validation": 60, "test": 129}
    assert data["windows"] == {part: whole[part] - left_out[part] for part in PARTS}
    assert data["notes"][1:3] == [
        "1 times had more than one row: 2 rows became 1 by their mean",
        f"15 absent rows and 1 rows with empty cells were filled by {missing} (46 of 2100 values)",
    ]
    assert len(data["notes"]) == (4 if missing == "interpolate" else 3)
    for part in PARTS[1:]:
        assert np.isfinite(repaired.result[part]["scaled"]["mse"])
    errors = pd.read_parquet(repaired.path / "errors.parquet")
    assert len(errors) == data["windows"]["validation"] + data["windows"]["test"]


def test_the_runs_own_policies_repair_what_is_forecast_from(
    repaired: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(repaired.path, repaired.source, tmp_path / "next.csv") == 0
    out = capsys.readouterr().out
    assert f"were filled by {repaired.config['data']['missing']} (46 of 2100 values)" in out
    assert "2 rows became 1 by their mean" in out
    assert "ends in a gap" not in out
    assert dated(tmp_path / "next.csv").index[0] == pd.Timestamp(hourly()["date"].iloc[-1]) + pd.Timedelta(hours=1)


def test_the_context_is_what_the_policy_makes_of_it(repaired: TinyRun) -> None:
    """The same table without its holes: forward filled, or by lines, or filled in any way where it is masked."""
    missing, forecaster = repaired.config["data"]["missing"], load(repaired.path)
    series = forecaster.read(repaired.source)
    found = forecaster.predict(repaired.table)
    whole = pd.concat([repaired.table.drop_duplicates("date"), hourly().loc[[*range(100, 110), *LAST_GAP]]])
    whole = whole.set_index("date").sort_index()
    seen = hourly().set_index("date").assign(load=True, oil=True, air=True).astype(bool)
    seen.iloc[[*range(100, 110), *LAST_GAP]] = False
    seen.iloc[680, 1] = False
    holes = whole.where(seen)
    filled = holes.interpolate(method="time") if missing == "interpolate" else holes.ffill()
    assert not forecaster.predict(hourly()).equals(found)
    if missing == "mask":
        unmasked = forecaster.predict(filled)
        assert not unmasked.equals(found)
        other = series.frame.where(seen.to_numpy(), 1e3)  # what stands under the mask does not matter
        same = forecaster.predict(replace(series, frame=other))
        np.testing.assert_allclose(same, found, rtol=1e-4)
    else:
        np.testing.assert_allclose(forecaster.predict(filled), found, rtol=1e-6)


def test_the_last_test_window_with_gaps_is_forecast_as_the_run_itself_did(repaired: TinyRun, tmp_path: Path) -> None:
    origin = hourly()["date"].iloc[-HORIZON]
    source = write(tmp_path / "before.csv", repaired.table[repaired.table["date"] < origin])
    assert forecast(repaired.path, source, tmp_path / "again.csv") == 0
    again, stored = dated(tmp_path / "again.csv"), dated(repaired.path / "forecast.csv")
    assert again.index.equals(stored.index)
    assert float(((again - stored) / hourly()[["load", "oil"]].std()).abs().max().max()) < 1e-5


def test_an_input_that_ends_in_a_gap_is_forecast_from_its_last_values_and_a_note_says_so(
    repaired: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = hourly()
    table.loc[697:, "oil"] = table.loc[699:, "air"] = np.nan
    source = write(tmp_path / "open.csv", table)
    assert forecast(repaired.path, source, tmp_path / "next.csv") == 0
    masked = repaired.config["data"]["missing"] == "mask"
    taken = "the encoder-decoder takes the window's mean there, a target's linear path the value before them"
    told = taken if masked else "the value before them is held"
    (note,) = [line for line in capsys.readouterr().out.splitlines() if "ends in a gap" in line]
    assert (
        note
        == f"{source}: ends in a gap: 'oil' has no value in the last 3 rows, nor do 1 more columns in the last: {told}"
    )
    held = load(repaired.path).predict(table.ffill())
    found = dated(tmp_path / "next.csv")
    assert found.index.equals(held.index)
    if repaired.config["data"]["missing"] != "mask":
        pd.testing.assert_frame_equal(found, held, check_freq=False, check_exact=True)


def test_a_context_of_gaps_alone_gives_a_finite_forecast_or_is_refused(repaired: TinyRun) -> None:
    table = hourly()
    table.loc[700 - CONTEXT :, ["load", "air"]] = np.nan
    if repaired.config["data"]["missing"] == "mask":  # of which the model would know nothing at all
        with pytest.raises(InputError, match=f"'load' has no value in the last {CONTEXT} rows"):
            load(repaired.path).predict(table)
        return
    assert np.isfinite(load(repaired.path).predict(table).to_numpy()).all()


@pytest.mark.parametrize("step", ["D", "30min", "2h", "3h"])
def test_another_frequency_is_no_gap(
    step: str, repaired: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = hourly(200).assign(date=pd.date_range("2016-07-01", periods=200, freq=step))
    assert forecast(repaired.path, write(tmp_path / "other.csv", rows), tmp_path / "next.csv") == 2
    assert f"its frequency is {step}, the model was trained at h" in capsys.readouterr().err


def test_more_gaps_than_steps_side_by_side_are_of_trainings_frequency(repaired: TinyRun) -> None:
    places = np.cumsum(np.tile([1, 2, 3, 1, 2], 40))  # no step is that of most rows
    table = hourly(500).iloc[places[places < 130]]
    assert load(repaired.path).predict(table).index[0] == table["date"].iloc[-1] + pd.Timedelta(hours=1)


# --- the same again


def test_the_same_run_and_input_give_the_same_bytes(tiny_run: TinyRun, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        assert forecast(tiny_run.path, tiny_run.source, tmp_path / name) == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_parquet_holds_the_same_forecast_as_csv(tiny_run: TinyRun, tmp_path: Path) -> None:
    for name in ("next.csv", "next.parquet"):
        assert forecast(tiny_run.path, tiny_run.source, tmp_path / name) == 0
    csv, parquet = dated(tmp_path / "next.csv"), dated(tmp_path / "next.parquet")
    pd.testing.assert_frame_equal(csv, parquet, check_freq=False, check_exact=True)


def test_parquet_input_gives_the_forecast_of_the_csv(tiny_run: TinyRun, tmp_path: Path) -> None:
    source = tmp_path / "hours.parquet"
    tiny_run.table.to_parquet(source)
    for given, name in ((tiny_run.source, "csv.csv"), (source, "parquet.csv")):
        assert forecast(tiny_run.path, given, tmp_path / name) == 0
    assert (tmp_path / "csv.csv").read_bytes() == (tmp_path / "parquet.csv").read_bytes()


def test_the_last_test_window_is_forecast_as_the_run_itself_did(tiny_run: TinyRun, tmp_path: Path) -> None:
    source = write(tmp_path / "before.csv", tiny_run.table.iloc[:-HORIZON])
    assert forecast(tiny_run.path, source, tmp_path / "again.csv") == 0
    again, stored = dated(tmp_path / "again.csv"), dated(tiny_run.path / "forecast.csv")
    assert list(stored.index) == list(tiny_run.table["date"].iloc[-HORIZON:])
    scale = tiny_run.table[["load", "oil"]].std()
    assert again.index.equals(stored.index)
    assert float(((again - stored) / scale).abs().max().max()) < 1e-5


def test_python_gives_what_the_command_writes(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    by_column = load(tiny_run.path).predict(tiny_run.table)
    by_index = load(tiny_run.path).predict(tiny_run.table.set_index("date"))
    for found in (by_column, by_index):
        pd.testing.assert_frame_equal(found, dated(tmp_path / "next.csv"), check_freq=False, check_exact=True)


def test_the_frame_that_is_given_stays_as_it_is(tiny_run: TinyRun) -> None:
    table = tiny_run.table.sample(frac=1, random_state=1)
    copy = table.copy()
    load(tiny_run.path).predict(table)
    pd.testing.assert_frame_equal(table, copy)


def test_order_of_columns_and_extra_columns_do_not_matter(tiny_run: TinyRun) -> None:
    forecaster, table = load(tiny_run.path), tiny_run.table
    wanted = forecaster.predict(table)
    turned = table[["air", "oil", "date", "load"]].assign(remark="none", empty=np.nan)
    pd.testing.assert_frame_equal(forecaster.predict(turned), wanted, check_exact=True)


def test_rows_before_the_context_do_not_matter_and_those_in_it_do(tiny_run: TinyRun) -> None:
    forecaster, table = load(tiny_run.path), tiny_run.table
    wanted = forecaster.predict(table)
    assert forecaster.predict(table.iloc[-CONTEXT:]).equals(wanted)
    for name in ("load", "oil", "air"):
        other = table.copy()
        other.loc[len(table) - CONTEXT, name] *= 1.5
        assert not forecaster.predict(other).equals(wanted), name


def test_latest_is_the_newest_finished_run(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for age, name in ((0, "old"), (50, "new"), (100, "unfinished")):
        folder = tmp_path / "outputs" / "csv" / name
        shutil.copytree(tiny_run.path, folder)
        os.utime(folder / "config.json", (10**9 + age, 10**9 + age))
    (tmp_path / "outputs" / "csv" / "unfinished" / "manifest.json").unlink()
    (tmp_path / "outputs" / "csv" / "old" / "model.safetensors").write_bytes(b"")  # would be refused
    monkeypatch.chdir(tmp_path)
    assert predict(["--input", str(tiny_run.source)]) == 0
    assert (tmp_path / "forecast.csv").is_file()
    assert "run: outputs/csv/new, of the finished ones the one that was begun last\n" in capsys.readouterr().out
    assert load("latest").path == Path("outputs/csv/new")


def test_latest_goes_by_the_beginning_of_a_run_and_not_by_its_end(tiny_run: TinyRun, tmp_path: Path) -> None:
    """A short run that began before a long one, and ended after it, is not the newest."""
    long, short = "2026-03-01_10-05-00_aaaaaa", "2026-03-01_10-00-00_bbbbbb"
    for age, name in ((0, long), (50, short)):
        folder = Path(shutil.copytree(tiny_run.path, tmp_path / "csv" / name))
        for file in ("manifest.json", "config.json"):
            os.utime(folder / file, (10**9 + age, 10**9 + age))
    assert Run.open("latest", tmp_path).path.name == long


def test_columns_that_the_newest_run_does_not_know_are_told_beside_its_own_file(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "outputs" / "csv" / "new")
    source = write(tmp_path / "shops.csv", hourly().rename(columns={"load": "0", "oil": "1"}))
    monkeypatch.chdir(tmp_path)
    assert predict(["--input", str(source)]) == 2
    line = expect_one_line_of(capsys.readouterr().err)
    for words in ("shops.csv has no column 'load'", "was trained on hours.csv (columns load, oil, air)", "--run"):
        assert words in line
    assert forecast(tmp_path / "outputs" / "csv" / "new", source, tmp_path / "next.csv") == 2
    assert "hours.csv" not in capsys.readouterr().err  # that run was named


def expect_one_line_of(error: str) -> str:
    (line,) = error.splitlines()
    return line


# --- paths as people have them

ODD = "my file [1] a=b, Öl's $x^ {5}.csv"


def test_predict_takes_paths_as_they_are(tiny_run: TinyRun, tmp_path: Path) -> None:
    folder = tmp_path / "run [2] größe=3"
    shutil.copytree(tiny_run.path, folder)
    source = write(tmp_path / ODD, tiny_run.table)
    output = tmp_path / f"out {ODD}"
    assert forecast(folder, source, output) == 0
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "plain.csv") == 0
    assert output.read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert output.with_suffix(".png").is_file()


def test_column_names_are_text_in_the_picture(tmp_path: Path) -> None:
    table = hourly(400)[["date", "load"]].rename(columns={"load": "$_$ a^{b [%]"})
    source = write(tmp_path / "prices.csv", table)
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    assert forecast(run.path, source, tmp_path / "next.csv") == 0
    assert list(dated(tmp_path / "next.csv").columns) == ["$_$ a^{b [%]"]


def test_train_takes_a_path_in_the_quotes_that_its_error_line_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "my file [1] a=b, Öl.csv"
    write(tmp_path / name, hourly())
    monkeypatch.chdir(tmp_path)
    words = [*quick_words(), "data=csv", "data.targets=[oil]"]

    def ended(path: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["train.py", *words, path])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
        return caught.value.code

    assert ended(f"data.path={name}") == 2
    assert "'data.path=\"my file [1].csv\"'" in capsys.readouterr().err
    assert ended(f'data.path="{name}"') == 0
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["data"]["path"] == name


def quick_words() -> list[str]:
    from tests.support.small import QUICK

    return [*SMALL["patch_informer"], *QUICK, "training.max_steps=1"]


# --- what opening a run does and does not do


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["import forecast", "import forecast.predict", "forecast.load({run!r}).predict(frame)"]
)
def test_forecasting_imports_no_lightning(code: str, tiny_run: TinyRun) -> None:
    script = "import sys, forecast\n"
    if "load" in code:
        script += f"import pandas as pd\nframe = pd.read_csv({str(tiny_run.source)!r})\n"
    script += code.format(run=str(tiny_run.path)) + "\n"
    script += "print(sorted({name.split('.')[0] for name in sys.modules} & {'lightning', 'hydra', 'sklearn', 'torch'}))"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    assert ended.stdout.strip() == ("['torch']" if "load" in code else "[]")


FORECASTS_WITHOUT = {
    *("lightning", "hydra", "omegaconf", "sklearn", "scipy", "tensorboard", "rich", "sympy"),
    *("onnx", "onnxruntime", "onnxscript", "torch._dynamo", "torch._inductor"),
}
"""What `predict` must not import: each costs a person who waits for a forecast time, and none is needed for one."""


@pytest.mark.slow
def test_a_forecast_imports_nothing_that_only_training_or_export_needs(tiny_run: TinyRun, tmp_path: Path) -> None:
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(tmp_path / "next.csv")]
    script = (
        "import sys\nfrom forecast.predict.__main__ import main\nbefore = set(sys.modules)\n"
        f"code = main({words!r})\n"
        f"print(code, sorted({FORECASTS_WITHOUT!r} & set(sys.modules)), sorted({{'torch', 'pandas'}} & before))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert ended.stdout.splitlines()[-1] == "0 [] []", ended.stderr


def test_the_forecast_is_written_before_what_draws_it_is_imported(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = []
    monkeypatch.setattr(
        "forecast.common.picture.draw_forecast", lambda *_, **__: there.append((tmp_path / "f.csv").is_file())
    )
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "f.csv") == 0
    assert there == [True]


class Hostile:
    """Unpickled, it makes a file: the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.canary,))


def hostile_zip(canary: Path) -> bytes:
    """Return a checkpoint as torch writes it, whose pickle is hostile."""
    file = io.BytesIO()
    torch.save({"state_dict": Hostile(canary)}, file)
    return file.getvalue()


@pytest.fixture
def copied(tiny_run: TinyRun, tmp_path: Path) -> Path:
    """Return a copy of the run that may be spoilt."""
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


def edit(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest in place."""
    path = run / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    rewrite(path, content)


def expect_one_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_the_canary_is_alive(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Hostile(canary)))
    assert canary.exists()


def test_pickles_beside_the_weights_are_never_opened(copied: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("model.pkl", "model.pt", "config.pkl", "scaler.pkl", "checkpoints/model.pkl"):
        (copied / name).write_bytes(pickle.dumps(Hostile(canary)))
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "model.ckpt"):
        (copied / name).write_bytes(hostile_zip(canary))
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 0
    assert not canary.exists()


@pytest.mark.parametrize("known", [False, True], ids=["hash differs", "hash forged"])
@pytest.mark.parametrize("kind", ["pickle", "checkpoint", "zip", "empty", "cut", "noise"])
def test_weights_that_are_something_else_are_refused_unopened(
    kind: str, known: bool, copied: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary, weights = tmp_path / "canary", copied / "model.safetensors"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Hostile(canary)))
    contents = {
        "pickle": pickle.dumps(Hostile(canary)),
        "checkpoint": hostile_zip(canary),
        "zip": archive.getvalue(),
        "empty": b"",
        "cut": weights.read_bytes()[:-100],
        "noise": b"\xff" * 1000,
    }
    weights.write_bytes(contents[kind])
    if known:
        digest = hashlib.sha256(contents[kind]).hexdigest()
        edit(copied, lambda manifest: manifest["files"]["model.safetensors"].update(sha256=digest))
    before = snapshot(tmp_path)
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    assert "run" in expect_one_line(capsys)
    assert snapshot(tmp_path) == before
    assert not canary.exists()


def put(*keys: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of one value of the manifest; `...` takes the key out."""

    def change(manifest: dict[str, Any]) -> None:
        node = manifest
        for key in keys[:-1]:
            node = node[key]
        if value is ...:
            del node[keys[-1]]
        else:
            node[keys[-1]] = value

    return change


EDITS: list[tuple[tuple[str, ...], Any]] = [
    (("format",), 3), (("format",), ...), (("architecture",), ...), (("architecture",), 5), (("data",), ...),
    (("data",), []), (("scaler",), ...), (("files",), ...), (("files",), []),
    (("files", "model.safetensors"), "x"), (("files", "model.safetensors", "sha256"), None),
    (("architecture", "preset"), "os.system"), (("architecture", "preset"), ["x"]), (("architecture", "preset"), None),
    (("architecture", "options"), 5), (("architecture", "options"), {}), (("architecture", "options", "d_model"), "x"),
    (("architecture", "options", "d_model"), 0), (("architecture", "options", "d_model"), 16),
    (("architecture", "options", "d_model"), 10**12), (("architecture", "options", "d_model"), 10**30),
    (("architecture", "options", "num_heads"), 0), (("architecture", "options", "patch_length"), 0),
    (("architecture", "options", "linear_path"), False), (("architecture", "options", "foo"), 1),
    (("architecture", "mechanisms"), {}), (("architecture", "mechanisms"), 5),
    (("architecture", "mechanisms", "encoder"), None), (("architecture", "mechanisms", "encoder"), {}),
    (("architecture", "mechanisms", "encoder", "name"), "os.system"),
    (("architecture", "mechanisms", "encoder", "name"), "../../x"),
    (("architecture", "mechanisms", "encoder", "name"), 5),
    (("architecture", "mechanisms", "encoder", "_target_"), "os.system"),
    (("architecture", "mechanisms", "encoder", "num_heads"), 5),
    (("architecture", "sizes"), {}), (("architecture", "sizes", "horizon"), "x"),
    (("architecture", "sizes", "horizon"), 13), (("architecture", "sizes", "horizon"), 0),
    (("architecture", "sizes", "context_length"), -1), (("architecture", "sizes", "context_length"), 48.5),
    (("architecture", "sizes", "num_targets"), 1), (("architecture", "sizes", "num_known"), True),
    (("data", "targets"), ...), (("data", "targets"), "load"), (("data", "targets"), [1, 2]),
    (("data", "targets"), ["load"]), (("data", "targets"), ["oil", "load"]), (("data", "targets"), None),
    (("data", "past_covariates"), {}), (("data", "past_covariates"), []), (("data", "time_column"), 5),
    (("data", "time_column"), None), (("data", "frequency"), 5), (("data", "frequency"), "os.system"),
    (("data", "frequency"), None), (("data", "cycles"), ["os.system"]), (("data", "cycles"), []),
    (("data", "missing"), "bfill"), (("data", "missing"), []), (("data", "duplicates"), None),
    (("data", "duplicates"), 5), (("data", "cycles"), [[]]), (("data", "cycles"), 5),
    (("scaler", "mean"), "x"), (("scaler", "mean"), []),
    (("scaler", "mean"), [None, 0.0, 0.0]), (("scaler", "scale"), [1.0]), (("scaler", "scale"), {}),
    (("scaler", "scale"), [0.0, 0.0, 0.0]), (("scaler", "columns"), ["a", "b", "c"]), (("scaler", "columns"), 5),
    (("scaler", "mean"), [[0.0], [0.0], [0.0]]), (("scaler", "mean"), ["a", "b", "c"]),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "value"), EDITS, ids=lambda part: str(part).replace("architecture", "arch")[:60])
def test_a_manifest_changed_by_hand_is_one_line(
    keys: tuple[str, ...], value: Any, copied: Path, tiny_run: TinyRun, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    edit(copied, put(*keys, value=value))
    before = snapshot(tmp_path)
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    expect_one_line(capsys)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "[" * 100_000, '{"format": 1}', "\udcff"])
def test_a_manifest_that_is_none_is_one_line(
    text: str, copied: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    expect_one_line(capsys)
    assert not (tmp_path / "next.csv").exists()


def test_a_run_that_was_moved_forecasts_the_same(copied: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.rmtree(copied / "checkpoints")
    for folder, name in ((copied, "moved.csv"), (tiny_run.path, "here.csv")):
        assert forecast(folder, tiny_run.source, tmp_path / name) == 0
    assert (tmp_path / "moved.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_forecasting_leaves_the_run_folder_as_it_is(tiny_run: TinyRun, tmp_path: Path) -> None:
    before = snapshot(tiny_run.path)
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    assert snapshot(tiny_run.path) == before


# --- rows for what is known ahead, and long tables


AHEAD = 96


@pytest.mark.parametrize("missing", ["error", "ffill", "interpolate", "mask"])
def test_the_forecast_begins_behind_the_last_target_and_not_behind_the_last_row(
    missing: str, tiny_run: TinyRun
) -> None:
    forecaster = replace(load(tiny_run.path), policies=Policies(missing=missing))
    known = tiny_run.table.copy()
    known.loc[len(known) - AHEAD :, ["load", "oil"]] = np.nan
    wanted = forecaster.predict(tiny_run.table.iloc[:-AHEAD])
    pd.testing.assert_frame_equal(forecaster.predict(known), wanted, check_exact=True)
    assert wanted.index[0] == tiny_run.table["date"].iloc[-AHEAD]


def test_the_rows_without_a_target_are_counted_in_one_line(
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


def test_training_leaves_out_rows_without_a_target_at_the_end_and_says_so(tiny_run: TinyRun, tmp_path: Path) -> None:
    from forecast.data.sources import load_source

    known = tiny_run.table.copy()
    known.loc[len(known) - AHEAD :, ["load", "oil"]] = np.nan
    path = write(tmp_path / "known.csv", known)
    series = load_source({**tiny_run.config["data"], "path": str(path)}).series
    assert len(series.frame) == len(known) - AHEAD
    assert series.observed is None
    assert series.notes[0].startswith(f"the last {AHEAD} rows have no target value, from ")


@pytest.mark.parametrize("names", [["A", "B"], [3, 4]])
@pytest.mark.parametrize("policy", ["error", "mean"])
def test_a_long_table_is_refused_by_a_run_of_one_series(names: list[Any], policy: str, tiny_run: TinyRun) -> None:
    forecaster = replace(load(tiny_run.path), policies=Policies(duplicates=policy))
    long = pd.concat([tiny_run.table.assign(meter=name) for name in names])
    with pytest.raises(InputError, match="the frame is a long table: column 'meter' tells 2 series apart") as caught:
        forecaster.predict(long)
    assert "data.duplicates" not in str(caught.value)
    if policy == "mean":  # as a run that was trained so
        assert len(replace(forecaster, merges_series=True).predict(long)) == HORIZON


def test_a_run_that_made_one_series_of_several_forecasts_from_such_a_table(tmp_path: Path, undrawn: None) -> None:
    long = pd.concat([hourly(500)[["date", "load"]].assign(meter=name) for name in ("A", "B")])
    source = write(tmp_path / "long.csv", long)
    words = ["data=csv", f"data.path={source}", "data.targets=[load]", "data.duplicates=mean", "training.max_steps=1"]
    run, result = train(quick(tmp_path / "outputs", *words))
    assert any("2 series, told apart by 'meter', were made one" in note for note in result["data"]["notes"])
    assert forecast(run.path, source, tmp_path / "next.csv") == 0


# --- no forecast that is not finite


def spoilt(run: Path, to: Path, value: float = math.nan) -> Path:
    """Return a copy of a run whose weights hold such a value, with the hash of those weights."""
    copy = Path(shutil.copytree(run, to))
    weights = load_file(copy / "model.safetensors")
    for tensor in weights.values():
        tensor.view(-1)[0] = value
    save_file(weights, copy / "model.safetensors")
    seal(copy)
    return copy


def test_weights_that_are_not_finite_write_no_forecast_alone_averaged_or_transplanted(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = spoilt(tiny_run.path, tmp_path / "run"), tmp_path / "next.csv"
    ways = [["--run", str(run)], ["--run", str(run), "--run", str(tiny_run.path)]]
    for way in (*ways, ["--run", str(run), "--attention", "linear"]):
        assert predict([*way, "--input", str(tiny_run.source), "--output", str(output)]) in (2, 3)
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert not output.exists()


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_scores_that_are_no_numbers_are_not_written(
    value: float, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = spoilt(tiny_run.path, tmp_path / "run", value), tmp_path / "scores.json"
    words = ["--run", str(run), "--data", str(tiny_run.source), "--attention", "mean", "--quiet"]
    assert transplant([*words, "--output", str(output)]) == 3
    assert " are not finite: the weights of the run are damaged" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_of_any_form_that_gives_no_number_gives_no_forecast(value: float, tiny_run: TinyRun) -> None:
    """A run, an exported file and a transplanted one differ in their `model` alone."""
    forecaster = load(tiny_run.path)
    made = torch.zeros(1, HORIZON, 2, dtype=torch.float64)
    made[0, 3, 1] = value
    time = tiny_run.table["date"].iloc[-1] + pd.Timedelta(hours=4)
    with pytest.raises(NotFiniteError, match=rf"^the forecast of 'oil' for {time} is {value} \(1 of 24 values"):
        replace(forecaster, model=lambda *_: made).predict(tiny_run.table)


@pytest.mark.parametrize("column", ["load", "oil", "air"])
def test_python_too_refuses_what_is_out_of_the_range_of_training(column: str, tiny_run: TinyRun) -> None:
    table = tiny_run.table.copy()
    table.loc[690, column] = 1e30
    time = table["date"].iloc[690]
    with pytest.raises(
        InputError, match=rf"^the frame, column '{column}', {time}: 1e\+30 is .* deviations of the training"
    ):
        load(tiny_run.path).predict(table)


# --- what predict takes from Python


def test_a_series_is_taken_by_a_model_of_one_column_and_refused_in_a_line_by_others(tiny_run: TinyRun) -> None:
    several = load(tiny_run.path)
    series = tiny_run.table.set_index("date")["load"]
    for given, kind in ((series, "a Series 'load'"), (series.to_numpy(), "a ndarray"), ([1.0], "a list")):
        with pytest.raises(
            InputError, match=f"^predict takes a DataFrame with the columns 'load', 'oil', 'air': this is {kind}"
        ):
            several.predict(given)  # type: ignore[arg-type]
    scaler = Scaler(several.scaler.mean[:1], several.scaler.scale[:1], ["load"])
    one = replace(
        several, model=lambda *_: torch.ones(1, HORIZON, 1), scaler=scaler, targets=["load"], past_covariates=[]
    )
    assert list(one.predict(series)) == list(one.predict(series.rename(None))) == ["load"]
    with pytest.raises(InputError, match="a Series 'oil'"):
        one.predict(series.rename("oil"))


def test_a_number_that_stands_for_a_missing_value_is_one_in_the_input_too(tiny_run: TinyRun) -> None:
    policies = Policies(missing="ffill", missing_values=(-9999,))
    forecaster = replace(load(tiny_run.path), policies=policies)
    table = tiny_run.table.copy()
    place = (table.index[-3], forecaster.targets[0])
    table.loc[place] = np.nan
    expected = forecaster.predict(table)
    table.loc[place] = -9999
    pd.testing.assert_frame_equal(forecaster.predict(table), expected)
