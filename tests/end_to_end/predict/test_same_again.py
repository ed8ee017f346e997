"""The same run and rows give the same forecast for all formats and file names."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import load
from forecast.runs.run import Run
from forecast.training import command_line
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.forecasts import dated, forecast
from tests.support.pictures import drawing
from tests.support.small import CONTEXT, HORIZON, SMALL, hourly, quick, write

# --- reproducibility


def test_the_same_run_and_input_give_the_same_bytes(tiny_run: TinyRun, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        assert forecast(tiny_run.path, tiny_run.source, tmp_path / name) == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_parquet_has_the_same_forecast_as_csv(tiny_run: TinyRun, tmp_path: Path) -> None:
    for name in ("next.csv", "next.parquet"):
        assert forecast(tiny_run.path, tiny_run.source, tmp_path / name) == 0
    csv, parquet = dated(tmp_path / "next.csv"), dated(tmp_path / "next.parquet")
    pd.testing.assert_frame_equal(csv, parquet, check_freq=False, check_exact=True)


def test_parquet_input_gives_the_same_forecast_as_csv(tiny_run: TinyRun, tmp_path: Path) -> None:
    source = tmp_path / "hours.parquet"
    tiny_run.table.to_parquet(source)
    for given, name in ((tiny_run.source, "csv.csv"), (source, "parquet.csv")):
        assert forecast(tiny_run.path, given, tmp_path / name) == 0
    assert (tmp_path / "csv.csv").read_bytes() == (tmp_path / "parquet.csv").read_bytes()


def test_predict_repeats_the_forecast_of_the_last_test_window(tiny_run: TinyRun, tmp_path: Path) -> None:
    source = write(tmp_path / "before.csv", tiny_run.table.iloc[:-HORIZON])
    assert forecast(tiny_run.path, source, tmp_path / "again.csv") == 0
    again, stored = dated(tmp_path / "again.csv"), dated(tiny_run.path / "forecast.csv")
    assert list(stored.index) == list(tiny_run.table["date"].iloc[-HORIZON:])
    scale = tiny_run.table[["load", "oil"]].std()
    assert again.index.equals(stored.index)
    assert float(((again - stored) / scale).abs().max().max()) < 1e-5


def test_python_and_the_command_give_the_same_forecast(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    by_column = load(tiny_run.path).predict(tiny_run.table)
    by_index = load(tiny_run.path).predict(tiny_run.table.set_index("date"))
    for result in (by_column, by_index):
        pd.testing.assert_frame_equal(result, dated(tmp_path / "next.csv"), check_freq=False, check_exact=True)


def test_predict_does_not_change_its_input_frame(tiny_run: TinyRun) -> None:
    table = tiny_run.table.sample(frac=1, random_state=1)
    copy = table.copy()
    load(tiny_run.path).predict(table)
    pd.testing.assert_frame_equal(table, copy)


def test_order_of_columns_and_extra_columns_do_not_matter(tiny_run: TinyRun) -> None:
    forecaster, table = load(tiny_run.path), tiny_run.table
    wanted = forecaster.predict(table)
    reordered = table[["air", "oil", "date", "load"]].assign(remark="none", empty=np.nan)
    pd.testing.assert_frame_equal(forecaster.predict(reordered), wanted, check_exact=True)


def test_only_the_rows_of_the_context_matter(tiny_run: TinyRun) -> None:
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
    assert "run: outputs/csv/new (the newest finished run)\n" in capsys.readouterr().out
    assert load("latest").path == Path("outputs/csv/new")


def test_latest_is_the_run_that_started_last(tiny_run: TinyRun, tmp_path: Path) -> None:
    """A short run that began before a long one, and ended after it, is not the newest."""
    long, short = "2026-03-01_10-05-00_aaaaaa", "2026-03-01_10-00-00_bbbbbb"
    for age, name in ((0, long), (50, short)):
        folder = Path(shutil.copytree(tiny_run.path, tmp_path / "csv" / name))
        for file in ("manifest.json", "config.json"):
            os.utime(folder / file, (10**9 + age, 10**9 + age))
    assert Run.open("latest", tmp_path).path.name == long


def test_a_column_missing_for_the_newest_run_names_the_file_of_that_run(
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


# --- unusual paths


ODD = "my file [1] a=b, Öl's $x^ {5}.csv"


def test_predict_accepts_unusual_paths(tiny_run: TinyRun, tmp_path: Path) -> None:
    folder = tmp_path / "run [2] größe=3"
    shutil.copytree(tiny_run.path, folder)
    source = write(tmp_path / ODD, tiny_run.table)
    output = tmp_path / f"out {ODD}"
    with drawing("draw_forecast"):
        assert forecast(folder, source, output) == 0
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "plain.csv") == 0
    assert output.read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert output.with_suffix(".png").stat().st_size > 0


def test_column_names_are_text_in_the_picture(tmp_path: Path) -> None:
    table = hourly(400)[["date", "load"]].rename(columns={"load": "$_$ a^{b [%]"})
    source = write(tmp_path / "prices.csv", table)
    run, _ = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    with drawing("draw_forecast"):
        assert forecast(run.path, source, tmp_path / "next.csv") == 0
    assert list(dated(tmp_path / "next.csv").columns) == ["$_$ a^{b [%]"]


def test_train_accepts_a_path_quoted_as_in_its_error_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "my file [1] a=b, Öl.csv"
    write(tmp_path / name, hourly())
    monkeypatch.chdir(tmp_path)
    words = [*quick_words(), "data=csv", "data.targets=[oil]"]

    def exit_code(path: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["train.py", *words, path])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
        return caught.value.code

    assert exit_code(f"data.path={name}") == 2
    assert "'data.path=\"my file [1].csv\"'" in capsys.readouterr().err
    assert exit_code(f'data.path="{name}"') == 0
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["data"]["path"] == name


def quick_words() -> list[str]:
    from tests.support.small import QUICK

    return [*SMALL["patch_informer"], *QUICK, "training.max_steps=1"]
