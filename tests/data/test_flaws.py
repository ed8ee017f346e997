"""One line names all flaws of a file and the options that accept them."""

import re
import shlex
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.flaws import list_word
from forecast.data.series import read_series
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from tests.data.test_series import hourly, shared
from tests.support.small import compose, write


def words_of(path: Path, *words: str) -> list[str]:
    """Return the options that the refusal names, as a shell reads them."""
    with pytest.raises(InputError) as caught:
        load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"]))
    text = str(caught.value)
    assert "\n" not in text
    return shlex.split(text.rpartition("train with ")[2])


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
        r"at one row per hour\): correct the file, or train with data.missing=mask data.duplicates=mean$"
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


def test_flaws_without_an_option_are_named_together_with_the_others(tmp_path: Path) -> None:
    table = hourly().astype({"load": object}).drop(index=5)
    table.loc[3, "load"] = "12 kW"
    with pytest.raises(InputError, match=r"'12 kW' is not a number.*correct 1 of them in the file, then train with"):
        read_series(write(tmp_path / "my.csv", table))


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
