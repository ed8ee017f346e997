"""`forecast score`: an earlier forecast beside what came."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.backtest.later import slope
from forecast.backtest.score import main
from forecast.predict.__main__ import main as predict
from tests.conftest import TinyRun
from tests.support.panels import FUTURE, stores
from tests.support.small import HORIZON, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.fixture(scope="module")
def folder(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with forecasts of the last horizon of a table, in every layout, and the whole table."""
    folder = tmp_path_factory.mktemp("score")
    write(folder / "now.csv", tiny_run.table.iloc[:-HORIZON])
    write(folder / "later.csv", tiny_run.table)
    for name, *words in (("wide.csv",), ("long.csv", "--layout", "long"), ("wide.parquet",)):
        given = ["--input", str(folder / "now.csv"), "--output", str(folder / name), "--levels", "80", *words]
        assert predict(["--run", str(tiny_run.path), *given]) == 0
    return folder


def scored(folder: Path, name: str, *words: str, truth: str = "later.csv") -> int:
    return main(["--forecast", str(folder / name), "--truth", str(folder / truth), *words])


@pytest.mark.parametrize("name", ["wide.csv", "long.csv", "wide.parquet"])
def test_every_layout_has_the_same_scores(
    folder: Path, tiny_run: TinyRun, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scored(folder, name, "--mark", str(tmp_path / "marked.parquet")) == 0

    own = pd.read_csv(folder / "wide.csv", index_col="date", parse_dates=True)
    truth = tiny_run.table.set_index("date").iloc[-HORIZON:]
    sizes = pd.concat([(own[name] - truth[name]).abs() / truth[name].std(ddof=0) for name in ("load", "oil")])
    printed = capsys.readouterr().out
    assert f"{2 * HORIZON} of {2 * HORIZON} values have come, {truth.index[0]} to {truth.index[-1]}" in printed
    assert f"MAE {sizes.mean():.3g}, " in printed
    outside = {
        target: ~truth[target].between(own[f"{target}_lower_80"], own[f"{target}_upper_80"])
        for target in ("load", "oil")
    }
    covered = 100 * (1 - np.mean(list(outside.values())))
    assert f"80 % intervals cover {covered:.1f} % of the values (95 % interval " in printed
    assert "naive forecast: MAE" in printed
    marked = pd.read_parquet(tmp_path / "marked.parquet")
    for target, rows in marked.groupby("series"):
        np.testing.assert_array_equal(rows["outside_80"] != "", outside[str(target)])
        np.testing.assert_allclose(rows["error"], own[target] - truth[target])


def test_a_truth_in_the_long_layout_is_read_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.read_csv(folder / "later.csv")[["date", "load", "oil"]].melt("date", var_name="series")
    write(folder / "melted.csv", table)
    assert scored(folder, "wide.csv") == scored(folder, "wide.csv", truth="melted.csv") == 0
    first, second = capsys.readouterr().out.split(f"{2 * HORIZON} of ")[1:]
    assert first == second


def test_rows_that_have_not_come_are_left_out(
    folder: Path, tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "part.csv", tiny_run.table.iloc[: -HORIZON + 5])
    assert scored(folder, "wide.csv", truth="part.csv") == 0
    assert f"10 of {2 * HORIZON} values have come" in capsys.readouterr().out


def test_times_in_another_zone_are_the_same_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, zone in (("wide.csv", "UTC"), ("later.csv", "Asia/Tokyo")):
        table = pd.read_csv(folder / name, parse_dates=["date"])
        table["date"] = table["date"].dt.tz_localize("UTC").dt.tz_convert(zone)
        table.to_parquet(folder / f"zoned-{name}.parquet")
    assert scored(folder, "zoned-wide.csv.parquet", truth="zoned-later.csv.parquet") == 0
    assert f"{2 * HORIZON} of {2 * HORIZON} values have come" in capsys.readouterr().out
    assert scored(folder, "zoned-wide.csv.parquet") == 2
    assert "have a zone: write both alike" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ("now.csv", "has no value from 2016-07-29 16:00:00 to 2016-07-30 03:00:00, which were forecast"),
        ("other.csv", "has no column 'load', which the forecast has, only date, other: name the table"),
        ("absent.csv", "no such file"),
    ],
)
def test_a_truth_that_is_none_is_refused(
    folder: Path, truth: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "other.csv", pd.DataFrame({"date": pd.date_range("2016-07-29", periods=3, freq="h"), "other": 1.0}))
    assert scored(folder, "wide.csv", truth=truth) == 2
    assert words in capsys.readouterr().err


def test_marks_need_intervals_and_replace_no_input(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = pd.read_csv(folder / "wide.csv")[["date", "load", "oil"]]
    write(folder / "plain.csv", plain)
    assert scored(folder, "plain.csv") == 0
    assert "naive" not in capsys.readouterr().out
    assert scored(folder, "plain.csv", "--mark", str(tmp_path / "marked.csv")) == 2
    assert "has no intervals to mark by" in capsys.readouterr().err
    assert scored(folder, "wide.csv", "--mark", str(folder / "later.csv")) == 2
    assert "would replace an input" in capsys.readouterr().err


def test_every_series_of_a_panel_is_scored_by_its_id(
    panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = stores()
    ends = table["date"].max() - pd.Timedelta(hours=FUTURE + 12)
    now = table.assign(sales=table["sales"].mask(table["date"] > ends))
    model = forecast.load(panel_run.path)
    write(tmp_path / "forecast.csv", model.predict(now, levels=[80]))
    write(tmp_path / "later.csv", table)
    assert scored(tmp_path, "forecast.csv", "--mark", str(tmp_path / "marked.csv")) == 0

    printed = capsys.readouterr().out
    assert "96 of 120 values have come" in printed  # two stores ended two days before
    marked = pd.read_csv(tmp_path / "marked.csv")
    assert marked.groupby("series").size().tolist() == [12] * 10
    truth = marked.assign(time=pd.to_datetime(marked["time"])).set_index(["series", "time"])["truth"].dropna()
    expected = table.set_index(["store", "date"])["sales"].loc[truth.index]
    np.testing.assert_array_equal(truth, expected)


def test_the_slope_says_whether_the_error_grows() -> None:
    noise = np.random.default_rng(0).normal(size=200)
    growing, flat = slope(0.1 * np.arange(200) + noise), slope(noise)
    assert growing is not None
    assert growing[1] < 0.1 < growing[2]
    assert growing[1] > 0
    assert flat is not None
    assert flat[1] < 0 < flat[2]
    assert slope(np.ones(1)) is None
    assert slope(np.ones(4)) is None
