"""Long tables: several series in one table, with a column that identifies the series of each row."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from forecast.tables.flaws import Flaw, list_word
from forecast.tables.repair import DOUBLED_WORD

DOUBLED = 0.2
"""Smallest share of rows with a duplicate time in a long table."""

UNIQUE = 0.99
"""Smallest share of rows with a unique pair of time and series: a series may have a few duplicate times."""

COVERED = 0.5
"""Smallest share of times with a row between the first and last row of a series, over all series."""

_LOOKED_AT = 10
"""Number of series that are checked to see whether a column holds measurements."""

MOST_SERIES = 100
"""Largest number of values of a column that may tell apart the series of a few doubled times."""

PAIRED = 8
"""Number of columns that are tried in pairs."""


@dataclass(frozen=True)
class Panel:
    """The series of a long table: the one or two identifying `columns`, and the number of series.

    `rows_per_time` is the mean number of rows at a time; `advice` says in a message how to convert the table.
    """

    columns: tuple[str, ...]
    count: int
    rows_per_time: float
    advice: str

    def __str__(self) -> str:
        names = " and ".join(map(repr, self.columns))
        subject = f"column {names} identifies" if len(self.columns) == 1 else f"columns {names} identify"
        return (
            f"is a long table: {subject} {self.count:,} series, with {self.rows_per_time:.3g} rows per time on average"
        )


@dataclass(frozen=True)
class _Ids:
    """Columns that may identify series; `codes` (N,) is the series number of each row, below `count`."""

    columns: tuple[str, ...]
    codes: np.ndarray
    count: int


def find_panel(
    table: pd.DataFrame, times: pd.DatetimeIndex, time_column: str, targets: Sequence[str], *, joined: bool = False
) -> Panel | None:
    """Return the series of a long table, None if the table is not long.

    In a long table many times have several rows, and one or two columns identify the series of each row: no series has
    a time twice, and each series has rows at most of the times from its first to its last. `table` holds raw cells in
    any order of `times` (N,), which come from `time_column`; the advice names one of `targets`. With `joined`, the file
    has the time in several columns, and the advice has no pivot of it.
    """
    if times.is_unique:
        return None
    distinct, place, counts = np.unique(times.asi8, return_inverse=True, return_counts=True)
    if counts[counts > 1].sum() < DOUBLED * len(table):
        return None
    for ids in _candidates(table, time_column):
        if _identifies_series(ids, place, len(distinct)):
            advice = _advice(table, times, place, ids, time_column, targets, joined)
            return Panel(ids.columns, ids.count, len(table) / len(distinct), advice)
    return None


def name_several_series(flaws: list[Flaw], table: pd.DataFrame, times: pd.DatetimeIndex, names: Sequence[str]) -> None:
    """Replace all flaws by one that names a column which tells series apart, if a flaw is of a few doubled times.

    The column, as of the numbers of meters, is one of `names` and holds text or whole numbers, which follow one another
    in time. `table` (N rows) has raw cells in any order of `times` (N,). The option that merges the rows of a time
    stays the second choice.
    """
    names = [name for name in names if _holds_names(table[name])]
    doubled = np.asarray(times.duplicated(keep=False))
    for flaw in tuple(flaws):
        if flaw.word != DOUBLED_WORD or not doubled.any():
            continue
        apart = table.loc[doubled, names].groupby(times[doubled]).nunique() > 1
        for name in names:
            values = table[name].to_numpy()[~doubled][np.argsort(times[~doubled])]
            changes = int(pd.Series(values).ne(pd.Series(values).shift()).sum()) - 1
            if apart[name].all() and changes < table[name].nunique() <= MOST_SERIES:
                cure = f"keep one series, since the rows of a time differ in {name!r}, or {flaw.cure}"
                flaws[:] = [flaw.but(cure=cure, word=None)]
                return


def _holds_names(column: pd.Series) -> bool:
    """Return whether a column holds text or whole numbers, each of them in two rows on average."""
    cells = column.dropna()
    if pd.api.types.is_float_dtype(column.dtype) and not (cells % 1 == 0).all():
        return False
    return 2 <= cells.nunique() <= len(cells) / 2


def _candidates(table: pd.DataFrame, time_column: str) -> Iterator[_Ids]:
    """Yield candidates: columns of names first, then of fractions, then pairs of columns."""
    names = [name for name in table.columns if name != time_column]
    names.sort(key=lambda name: pd.api.types.is_float_dtype(table[name].dtype))
    singles = []
    for name in names:
        codes, values = pd.factorize(table[name])
        if 2 <= len(values) <= len(table) / 2 and (codes < 0).mean() <= 1 - UNIQUE:
            # rows without a name go to the first series
            singles.append(_Ids((name,), np.maximum(codes, 0).astype(np.int64), len(values)))
            yield singles[-1]
    for one, other in combinations(singles[:PAIRED], 2):
        together, codes = np.unique(one.codes * other.count + other.codes, return_inverse=True)
        if 2 * len(together) <= len(table):
            yield _Ids((*one.columns, *other.columns), codes, len(together))


def _identifies_series(ids: _Ids, place: np.ndarray, num_times: int) -> bool:
    """Return whether each series has no time twice, and most times between its first and its last."""
    rows = len(place)
    first, last = np.full(ids.count, num_times), np.full(ids.count, -1)
    np.minimum.at(first, ids.codes, place)
    np.maximum.at(last, ids.codes, place)
    spans = int(np.maximum(last - first + 1, 0).sum())
    if rows < COVERED * spans:
        return False
    return len(np.unique(ids.codes * num_times + place)) >= UNIQUE * rows


def _advice(
    table: pd.DataFrame,
    times: pd.DatetimeIndex,
    place: np.ndarray,
    ids: _Ids,
    time_column: str,
    targets: Sequence[str],
    in_parts: bool,
) -> str:
    if _is_hour_of_day(table, times, ids):
        word = list_word("data.time_columns", (time_column, *ids.columns))
        return f"the hour is in a separate column: train with {shlex.quote(word)}"
    value = _value_column(table, place, ids, time_column, targets)
    index, series = repr(time_column), repr(ids.columns[0])
    made = "table"
    if len(ids.columns) > 1:
        joined = " + '_' + ".join(f"table[{name!r}].astype(str)" for name in ids.columns)
        made, series = f"table.assign(series={joined})", "'series'"
    doubled = len(np.unique(ids.codes * (place.max() + 1) + place)) < len(place)
    pivot = f"index={index}, columns={series}, values={value!r}"
    pivot = f"pivot_table({pivot}, aggfunc='mean')" if doubled else f"pivot({pivot})"
    others = [name for name in table.columns if name not in (time_column, *ids.columns, value)]
    likewise = f" (and {repr(others[0]) if len(others) == 1 else 'the other columns'} likewise)" if others else ""
    words = [list_word("data.id_columns", ids.columns)]
    if any(pd.api.types.is_numeric_dtype(table[name].dtype) for name in others):  # which would be targets too
        words.append(list_word("data.targets", [value]))
    kept = " & ".join(f"(table[{name!r}] == {_plain(table[name].iloc[0])!r})" for name in ids.columns)
    if in_parts:
        return f"train on all of them with {shlex.join(words)}, or keep the rows of one series in the file"
    return (
        f"train on all of them with {shlex.join(words)}, or make one column per series, in pandas: "
        f"{made}.{pivot}.to_csv('wide.csv'){likewise}, "
        f"or keep one series: table[{kept.removeprefix('(').removesuffix(')') if len(ids.columns) == 1 else kept}]"
    )


def _is_hour_of_day(table: pd.DataFrame, times: pd.DatetimeIndex, ids: _Ids) -> bool:
    """Return whether the series are the hours of dates without a time of day."""
    column = table[ids.columns[0]]
    if len(ids.columns) > 1 or not pd.api.types.is_integer_dtype(column.dtype) or column.nunique() != 24:
        return False
    return column.min() in (0, 1) and column.max() - column.min() == 23 and bool((times == times.normalize()).all())


def _value_column(table: pd.DataFrame, place: np.ndarray, ids: _Ids, time_column: str, targets: Sequence[str]) -> str:
    """Return the numeric column that varies with both series and time and has the most values: a measurement."""
    others = [name for name in table.columns if name not in (time_column, *ids.columns)]
    numeric = [name for name in others if pd.api.types.is_numeric_dtype(table[name].dtype)]
    wanted = [name for name in numeric if name in targets] or numeric
    some = ids.codes < _LOOKED_AT
    distinct: dict[str, int] = {}
    for name in wanted:
        codes, values = pd.factorize(table[name][some])
        keys = (ids.codes[some], place[some])
        if all(len(np.unique(key * len(values) + codes)) > len(np.unique(key)) for key in keys):
            distinct[str(name)] = len(values)
    if distinct:
        return max(distinct, key=distinct.__getitem__)
    return str((wanted or others or ids.columns)[0])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
