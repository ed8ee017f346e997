"""The reading of a table, with the options that a training of it needs, and facts about its columns."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.data.calendar import season_name, seasonal_period
from forecast.data.settings import DataSettings
from forecast.data.sources import Reader, load_source
from forecast.tables.files import Upload
from forecast.tables.files import read_table as read_raw
from forecast.tables.flaws import value_word
from forecast.tables.sentinels import find_sentinels
from forecast.tables.series import Series
from forecast.tables.times.frequency import fixed_step, frequency_offset

MOST_WORDS = 6
"""Most refusals whose words are followed, one after the other."""

_NEAR = 0.05
"""Share of the variance by which a longer season must explain more to be the one."""

_DAY = 86_400 * 10**9
_SHOWN = 12
"""Most columns with a line of their own."""


@dataclass(frozen=True)
class Understanding:
    """A table as it is read.

    Attributes
    ----------
    series
        The series, repaired by the `words`.
    words
        Options that a training needs, as `data.missing=mask`.
    problems
        The refusals that they answer.
    """

    series: Series
    words: tuple[str, ...]
    problems: tuple[str, ...]


def understand(path: Path | Upload, words: Sequence[str] = ()) -> Understanding:
    """Read a file, or a table that was sent, as a training with these options does.

    Options by which a refusal says that the table can be accepted as it is are added, one refusal after the other.
    Raise InputError if a user must decide something, or correct the file.
    """
    raw = cache(lambda layout: read_raw(path, layout))  # once for all attempts
    found: list[str] = []
    problems: list[str] = []
    while True:
        try:
            return Understanding(
                _read(path, [*words, *found], lambda _, layout: raw(layout)), tuple(found), tuple(problems)
            )
        except InputError as error:
            new = [word for word in error.words if word not in found]
            if not new or len(problems) == MOST_WORDS:
                raise
            problems.append(str(error))
            found = [word for word in found if _key(word) not in map(_key, new)] + new


def read_table(path: str | os.PathLike[str], **options: Any) -> pd.DataFrame:
    """Read a file as a training reads it.

    Parameters
    ----------
    path
        A file of text, Parquet, or another format that a training reads.
    options
        Options of the `data` group, such as `decimal=","`, `time_columns=["Date", "Time"]` or `id_columns=["store"]`.

    Returns
    -------
    DataFrame
        The columns, with the times as its index; an empty cell or an absent row is NaN, and the columns that identify
        the series of a long table are in front. `attrs["notes"]` has a line for each thing that was found.

    Raises
    ------
    InputError
        If the table cannot be read without a decision, or a correction of the file.
    """
    seen = understand(Path(path), words_of(options))
    frame = table_of(seen.series)
    frame.attrs = {"notes": list(seen.series.notes)}
    return frame


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Return options of the `data` group as words of a command line."""
    return [f"data.{name}={_as_word(value)}" for name, value in options.items()]


def _as_word(value: Any) -> str:
    """Return a value of Python in Hydra's grammar."""
    if isinstance(value, str):
        return value_word("", value).removeprefix("=")
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_as_word(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Iterable):
        return "[" + ",".join(map(_as_word, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _key(word: str) -> str:
    return word.partition("=")[0]


def _read(path: Path | Upload, words: Sequence[str], read: Reader) -> Series:
    """Return the series of `data=csv data.path=…` with more options; `read` returns its raw table."""
    settings = _settings(tuple(word if word.startswith("data.") else f"data.{word}" for word in words))
    if isinstance(path, Upload):
        return load_source(settings, sent=path, read=read).series
    return load_source(replace(settings, path=str(path)), read=read).series


@lru_cache(maxsize=64)
def _settings(words: tuple[str, ...]) -> DataSettings:
    """Return the `data` group of options; Hydra takes time."""
    data = compose_words(["data.path=table", "data.name=table", *words], name="data/csv")
    return DataSettings.parse(plain_values(data)["data"])


@dataclass(frozen=True)
class Column:
    """Facts about a column: its name, least, mean and largest value, empty cells, and remarks."""

    name: str
    least: float
    mean: float
    largest: float
    empty: int
    remarks: tuple[str, ...]


def columns_of(series: Series) -> list[Column]:
    """Return the facts of the columns of numbers, in their order."""
    return [_column(series, name) for name in series.frame.columns[:_SHOWN] if name not in series.labels]


def _column(series: Series, name: str) -> Column:
    values = series.frame[name].to_numpy(np.float64)
    observed = series.observed_of([name])
    seen = values[np.isfinite(values)] if observed is None else values[observed[:, 0] & np.isfinite(values)]
    if not len(seen):
        return Column(name, np.nan, np.nan, np.nan, len(values), ("no value",))
    remarks = []
    if seen.min() == seen.max():
        remarks.append("constant")
    elif seen.min() == 0:
        remarks.append("never below 0")
    if seen.min() != seen.max() and (seen % 1 == 0).all():
        remarks.append("whole numbers")
    for number, count in find_sentinels(seen).items():
        word = f"data.missing_values=[{number:.12g}] data.missing=mask"
        remarks.append(f"{number:.12g} in {counted(count, 'cell')}: if it means missing, train with {word}")
    return Column(name, seen.min(), seen.mean(), seen.max(), series.num_rows - len(seen), tuple(remarks))


def season_of(series: Series, columns: Sequence[str]) -> str:
    """Return how much the value one season before explains, for the season and the column of which it explains most."""
    found = {column: _seasons(series, column) for column in columns}
    found = {column: shares for column, shares in found.items() if shares}
    if not found or max(max(shares.values()) for shares in found.values()) < _NEAR:
        return "no season was found"
    column = max(found, key=lambda name: max(found[name].values()))
    shares = found[column]
    most = max(shares.values())
    best = min(period for period, share in shares.items() if share >= most - _NEAR)  # a week holds seven days
    what = f"the value {counted(best, 'row')} before, {season_name(best, series.frequency)}"
    return f"{what}, explains {100 * shares[best]:.0f} % of {column!r}"


def _seasons(series: Series, column: str) -> dict[int, float]:
    """Return the share that each season explains of a column, in the longest series of a panel."""
    values = series.measured[column].to_numpy(np.float64)
    if series.ids is not None:
        longest = int(np.argmax(series.ids.lengths))
        values = values[series.ids.first_rows[longest] : series.ids.offsets[longest + 1]]
    return {period: _explained(values, period) for period in _periods(series.frequency) if 3 * period <= len(values)}


def _periods(frequency: str) -> list[int]:
    """Return the seasons of a step, in rows: a day, a week and a year, as far as they are longer than it."""
    usual = seasonal_period(frequency)
    step = fixed_step(frequency_offset(frequency))
    longer = [] if step is None else [7 * _DAY // step, round(365.2425 * _DAY / step)]
    return sorted({period for period in (usual, *longer) if period > 1})


def _explained(values: np.ndarray, period: int) -> float:
    """Return the squared correlation (0 to 1) of values (N,) with those `period` before; 0 for a negative one."""
    now, before = values[period:], values[:-period]
    both = np.isfinite(now) & np.isfinite(before)
    if both.sum() < 3 or np.ptp(now[both]) == 0 or np.ptp(before[both]) == 0:
        return 0.0
    return max(0.0, float(np.corrcoef(now[both], before[both])[0, 1])) ** 2


def table_of(series: Series) -> pd.DataFrame:
    """Return the series as a table, labels as text, gaps as empty cells, and the ids of a panel in front."""
    frame = series.measured.copy()
    for name, labels in series.labels.items():
        codes = np.nan_to_num(frame[name].to_numpy(np.float64), nan=-1.0).astype(np.int64)
        frame[name] = np.array([*labels, None], dtype=object)[codes]
    if series.ids is None:
        return frame
    kept = np.flatnonzero(np.arange(len(frame)) >= series.ids.first_rows[series.ids.of_rows])  # without the padding
    frame, ids = frame.iloc[kept], series.ids.frame(series.ids.of_rows[kept])
    for place, name in enumerate(ids.columns):
        frame.insert(place, name, ids[name].to_numpy())
    return frame
