"""One line names all flaws of a file and the options that accept them."""

import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.data.split import too_few_rows
from forecast.tables.flaws import Choice, list_word
from tests.support.reading import read_series
from tests.support.small import compose, write
from tests.support.written import judge
from tests.support.written.judge import read
from tests.tables.test_series import hourly, shared


def words_of(path: Path, *words: str) -> list[str]:
    """Return the options that the refusal names, as a shell reads them."""
    with pytest.raises(InputError) as caught:
        load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"]))
    text = str(caught.value)
    assert "\n" not in text
    return shlex.split(text.rpartition("train with ")[2].partition("; to see the whole table")[0])


def accepted(path: Path, *words: str) -> int:
    source = load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"]))
    assert np.isfinite(source.series.frame.to_numpy()).all()
    return len(source.series.frame)


def test_duplicate_times_empty_cells_and_absent_rows_are_named_together(tmp_path: Path) -> None:
    table = hourly()
    table.loc[30, "oil"] = np.nan
    table = pd.concat([table.drop(index=[10, 11]), table.iloc[[4]]])
    path = write(tmp_path / "my.csv", table)
    pattern = (
        r"my.csv has 3 problems: column 'oil', row 30: no value \(1 empty in total\); rows 6 and 48: both are at "
        r"2016-07-01 04:00:00 \(1 duplicate times in total\); row 11: after .* \(2 missing in total, "
        r"at one row per hour\): correct the file, or accept them \(data.missing fills 1 empty cell and 2 absent rows "
        r"and never scores them; .*; data.duplicates merges 1 doubled row into the mean, .* of a time\): train "
        r"with data.missing=mask data.duplicates=mean$"
    )
    with pytest.raises(InputError, match=pattern):
        read_series(path)
    assert words_of(path) == ["data.missing=mask", "data.duplicates=mean"]
    assert accepted(path, *words_of(path)) == 48


def test_columns_without_numbers_and_a_second_date_are_named_with_the_rest(tmp_path: Path) -> None:
    table = hourly().assign(**{"read on": hourly()["date"].str[:10], "public holiday": "no", 'oil "hot", °C': 1.0})
    table = table.assign(weekend=np.arange(48) % 2 == 0, nothing=np.nan).drop(index=7)
    path = write(tmp_path / "my.csv", table)
    words = words_of(path)
    assert words[0] == "data.time_column=date"
    assert accepted(path, *words) == 48
    targets = compose("data=csv", f"data.path={path}", *words)["data"]["targets"]
    assert targets == ["load", "oil", 'oil "hot", °C']


CHOICES = {
    "dates and marks": ["date;load", "01/02/2021;1", "02/02/2021;?", "03/02/2021;3", "04/02/2021;?", "05/02/2021;9"],
    "two columns and a gap": [
        "Day,Time,load",
        *(f"3/{1 + hour // 24}/2021,{hour % 24}:00,{hour}" for hour in range(48)),
    ],
    "numbers, dates and marks": [
        "date;load;oil",
        *(f"{day:02d}/02/2021;1.{day}00;{'?' * (day % 2)}" for day in range(1, 9)),
    ],
    "zones and marks": [
        "date;load",
        *(f"2021-06-01 {hour:02d}:00 CEST;{'-' if hour == 5 else hour}" for hour in range(24)),
    ],
    "short years and text": ["date,load,sky", *(f"{day}/3/21,{day},blue" for day in range(1, 9)), "9/3/21,1,grey"],
}
del CHOICES["two columns and a gap"][9]


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_and_the_options_after_it_are_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    path.write_text("\n".join(CHOICES[name]) + "\n")
    with pytest.raises(Choice) as caught:
        read(path, {})

    words = judge.words_of(str(caught.value))
    assert len(str(caught.value).splitlines()) == 1
    assert len(words) > 1
    chosen = {key for option in caught.value.options for key in option}
    rest = {key: value for key, value in words.items() if key not in chosen}
    assert any(_is_read(path, {**rest, **option}) for option in caught.value.options)


def _is_read(path: Path, words: Mapping[str, str]) -> bool:
    try:
        return len(read(path, words).frame) > 0
    except InputError:
        return False


def test_a_choice_that_no_option_makes_regular_names_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    path.write_text("date,load\n01/02/2021,1\n02/02/2021,7 kW\n03/02/2021,8\n04/02/2021,9\n")
    with pytest.raises(Choice, match=r"or set data\.date_format=%d/%m/%Y or data\.date_format=%m/%d/%Y$"):
        read(path, {})


def test_flaws_without_an_option_are_named_together_with_the_others(tmp_path: Path) -> None:
    table = hourly().astype({"load": object}).drop(index=5)
    table.loc[3, "load"] = "12 kW"
    line = r"'12 kW' is not a number.*correct 1 of them in the file, then accept them.*train with"
    with pytest.raises(InputError, match=line):
        read_series(write(tmp_path / "my.csv", table))


def test_too_few_rows_are_named_with_the_other_flaws(tmp_path: Path) -> None:
    """Rows that a repair would add count: of the 48 hours, the two absent ones are no reason for a refusal."""
    settings = DataSettings.parse(
        compose("data=csv", f"data.path={write(tmp_path / 'my.csv', hourly().drop(index=[10, 11]))}")["data"]
    )

    def refusal(context_length: int) -> str:
        with pytest.raises(InputError) as caught:
            load_source(settings, lambda rows: too_few_rows(rows, settings.split, context_length, 2))
        return str(caught.value)

    assert refusal(31).startswith(f"{tmp_path}/my.csv, row 11: after ")
    assert refusal(32) == (
        "context_length 32 + horizon 2: the train split needs at least 34 rows and has 33: lower context_length or "
        f"horizon, or use more data; also, {refusal(31)}"
    )


def test_all_absent_columns_are_named_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", hourly())
    with pytest.raises(InputError, match=r"has no columns 'lod' \(did you mean 'load'\?\), 'wind', only date, load"):
        read_series(path, columns=["lod", "oil", "wind"])
    with pytest.raises(InputError, match=r"has no column 'wind', only .*: correct data.past_covariates"):
        read_series(path, covariates=["oil", "wind"])


@pytest.mark.parametrize("name", ["PJME_hourly.csv", "weather.csv.gz", "traffic_volume.csv", "vic_electricity.csv"])
def test_one_line_is_enough_for_real_files(name: str) -> None:
    path = shared(name)
    assert accepted(path, *words_of(path)) > 40_000


@pytest.mark.parametrize(
    "name", ["load", "a b", 'a"b', "a\\", 'a\\"b', "a,b]", "null", "True", "12", "1e5", "${x}", "'", "ä=b", "a\\\\"]
)
def test_a_name_of_any_characters_survives_the_option(name: str) -> None:
    word = list_word("data.targets", [name, "other"])
    assert list(map(str, compose("data=csv", "data.path=x.csv", word)["data"]["targets"])) == [name, "other"]
    assert re.search(r"^data\.targets=\[.*,other\]$", word)


def test_a_name_of_many_backslashes_takes_a_moment() -> None:
    began = time.process_time()
    list_word("data.targets", ["\\" * 100_000 + "x"])
    assert time.process_time() - began < 1
