"""`forecast data`: what is understood of a table, with words that train on it."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import forecast
from forecast.common.errors import InputError
from forecast.overview import understanding
from forecast.overview.command import main
from forecast.overview.picture import _drawn
from forecast.overview.understanding import season_of, understand
from forecast.tables.series import series_from_frame
from tests.support.small import hourly


@pytest.fixture
def german(tmp_path: Path) -> Path:
    """Write a semicolon table with decimal commas, a title, an empty cell and a total."""
    lines = ["Bericht 2022;;", "", "Datum;Verbrauch;Temperatur"]
    for hour in range(96):
        cell = "" if hour == 5 else f"1.2{hour:02d},5"
        lines.append(f"{13 + hour // 24:02d}.01.2022 {hour % 24:02d}:00;{cell};{hour % 7},0")
    path = tmp_path / "german.csv"
    path.write_text("\n".join([*lines, "Summe;99.999,0;"]) + "\n")
    return path


def test_the_words_that_are_printed_train_on_the_table(
    german: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tidy, read, times = tmp_path / "tidy.parquet", understanding.read_raw, list[Path]()
    monkeypatch.setattr(understanding, "read_raw", lambda path, layout: (times.append(path), read(path, layout))[1])
    assert main([str(german), "--picture", str(tmp_path / "my.png"), "--write", str(tidy)]) == 0
    assert times == [german]  # although a refusal is followed

    printed = capsys.readouterr().out
    (command,) = [line for line in printed.splitlines() if line.startswith("train with: ")]
    words = shlex.split(command.removeprefix("train with: "))
    assert words[:3] == ["python", "train.py", "data=csv"]
    assert understand(german, words[4:]).problems == ()
    assert "data.missing=mask" in words
    for found in ("semicolons", 'decimal mark ","', "data.header_row=3", "data.skip_footer=1", "1 empty"):
        assert found in printed
    assert "\n  season: " in printed
    table = pd.read_parquet(tidy)
    assert list(table) == ["Datum", "Verbrauch", "Temperatur"]
    assert table["Verbrauch"].iloc[4:7].tolist()[::2] == [1204.5, 1206.5]
    assert np.isnan(table["Verbrauch"].iloc[5])
    picture = np.asarray(Image.open(tmp_path / "my.png").convert("L"))
    assert (picture[:24] < 128).any()  # its title


def test_python_reads_the_same_table(german: Path) -> None:
    frame = forecast.read_table(german, last_rows=50)

    assert frame.index.name == "Datum"
    assert frame.iloc[-1].tolist() == [1295.5, 4.0]
    assert len(frame) == 50
    assert "cells are separated by semicolons" in frame.attrs["notes"]
    with pytest.raises(InputError, match=r"data\.decimal='x'"):
        forecast.read_table(german, decimal="x")


def test_a_long_table_keeps_its_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shops.csv"
    days = pd.date_range("2022-01-01", periods=40)
    parts = [
        pd.DataFrame({"shop": shop, "date": days[:rows], "sales": 1.0 * rows}) for shop, rows in (("a", 40), ("b", 30))
    ]
    pd.concat(parts).to_csv(path, index=False)

    frame = forecast.read_table(path, id_columns=["shop"])

    assert list(frame) == ["shop", "sales"]
    assert frame.groupby("shop").size().to_dict() == {"a": 40, "b": 30}
    assert frame.groupby("shop")["sales"].mean().to_dict() == {"a": 40.0, "b": 30.0}
    monkeypatch.chdir(tmp_path)
    assert main([str(path), "id_columns=[shop]"]) == 0
    assert f"{path}: 2 series, 70 rows, one every day" in capsys.readouterr().out


def test_a_table_that_needs_a_decision_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.csv"
    path.write_text("date;load\n" + "".join(f"2022-01-{day:02d};1.{day + 100}\n" for day in range(1, 30)))

    assert main([str(path)]) == 2

    assert 'data.decimal="."' in (error := capsys.readouterr().err)
    assert len(error.splitlines()) == 1


def test_a_refusal_for_several_things_names_the_command(tmp_path: Path) -> None:
    path = tmp_path / "my table.csv"
    frame = hourly(60).drop(index=[7]).astype({"load": object, "oil": object})
    frame.loc[20, "load"] = None
    frame.to_csv(path, index=False)

    assert understand(path).words == ("data.missing=mask",)
    frame.loc[30, "oil"] = "12 kW"
    frame.to_csv(path, index=False)
    with pytest.raises(InputError, match=r"3 problems: .*; to see the whole table: forecast data '.*/my table\.csv'$"):
        understand(path)


def test_the_season_that_explains_most_is_named() -> None:
    days = series_from_frame(hourly(24 * 30).assign(load=np.sin(2 * np.pi * np.arange(720) / 24)))

    assert season_of(days, ["oil", "load"]) == "the value 24 rows before, 24 h, explains 100 % of 'load'"


def test_a_long_line_keeps_its_extremes() -> None:
    values = np.zeros(100_003)
    values[41_234], values[77_777], values[100_001] = 9, -9, 5

    drawn = values[_drawn(values)]

    assert len(drawn) < 3000
    assert {9, -9, 5} <= set(drawn)
