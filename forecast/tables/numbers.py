"""Cells of a table as numbers, and the rows after the last target value."""

import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from forecast.common.text import counted
from forecast.tables.flaws import Flaw, list_word
from forecast.tables.marks import Mark, as_numbers, find_marks, marks_word, shown_marks
from forecast.tables.times.frequency import ways_to_fill

LARGEST_NUMBER = float(np.finfo(np.float32).max)
"""Largest number that a model reads."""

_ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
"""A comma of which nothing says whether it marks decimals or thousands."""

_NAMED = 12
"""Most targets that the message on one column names."""

_GAPS_WORD = "data.missing=mask"
_AS_TRAINED = "write numbers with a decimal point and without unit, or true and false, as in training"


def to_numbers(
    table: pd.DataFrame,
    rows: np.ndarray,
    source: str,
    *,
    empty_allowed: bool = False,
    needed: Sequence[str] = (),
    covariates: Sequence[str] = (),
    numeric: Sequence[str] = (),
    may_be_empty: Sequence[str] = (),
    marks: Sequence[Mark] = (),
) -> tuple[np.ndarray, list[Flaw]]:
    """Return the values of the table, shape (N, C), float64, and one flaw per flawed column.

    Empty cells are NaN, and so is a whole column with non-numeric cells. `rows` are spreadsheet row numbers for
    messages. With `empty_allowed`, an empty cell is not a flaw; in the columns `may_be_empty` it never is.
    `data.targets` can leave out a column without numbers, unless the user requested it (`needed`). `data.categorical`
    can make labels of the cells of `covariates`, but not of `numeric`, in which a trained model reads numbers. The
    option for texts that may mean missing names those of all columns, and the `marks` that are set.
    """
    values = np.full(table.shape, np.nan, dtype=np.float64, order="F")  # the layout of pandas, which avoids a copy
    flaws, useless = [], []
    marked: list[tuple[Flaw, Mapping[str, int]]] = []
    for place, name in enumerate(table.columns):
        where, column = f", column {name!r}", table[name]
        numbers = None if pd.api.types.is_numeric_dtype(column.dtype) else as_numbers(column)
        try:
            values[:, place] = _parse(column, numbers, rows, source, where)
        except Flaw as other:
            if name in numeric:
                other = other.but(cure=_AS_TRAINED)
            elif numbers is not None and other.where != where and (found := find_marks(column, numbers)):
                marked.append((other, found))
            elif name in covariates:
                first, _, _ = other.cure.partition(", or leave")
                cure = f"{first}, or name it in data.categorical if its cells are labels"
                other = other.but(cure=cure, word=list_word("data.categorical", [name]))
            flaws.append(other)
            if name not in needed and (numbers is None or other.where == where or np.isnan(numbers).all()):
                useless.append((name, other))
            continue
        flaw = _flaw_of(values[:, place], rows, source, where, empty_allowed or name in may_be_empty)
        if flaw is not None:
            flaws.append(flaw)
            if name not in needed and np.isnan(values[:, place]).all():
                useless.append((name, flaw))
    _name_marks(marked, marks, empty_allowed)
    left_out = {name for name, _ in useless}
    if useful := [str(name) for name in table.columns if name not in left_out and name not in covariates]:
        for _, flaw in useless:
            flaw.word = list_word("data.targets", useful)
            if len(useful) <= _NAMED:
                flaw.args = (f"{flaw}: train with {shlex.quote(flaw.word)}",)
    return values, flaws


def _name_marks(marked: Sequence[tuple[Flaw, Mapping[str, int]]], marks: Sequence[Mark], empty_allowed: bool) -> None:
    """Name the option that reads marks as empty cells in the flaw of each column that holds some."""
    word = marks_word([*marks, *(mark for _, found in marked for mark in found)])
    more = () if empty_allowed else (_GAPS_WORD,)
    options = " ".join(map(shlex.quote, (word, *more)))
    for flaw, found in marked:
        count = sum(found.values())
        flaw.word, flaw.more, flaw.count, flaw.unit = word, more, count, "marked cell"
        named = f"{shown_marks(list(found))} in {counted(count, 'cell')}"
        flaw.cure = f"write numbers for {named} or leave them empty, or train with {options}"
        flaw.args = (f"{flaw.source}{flaw.where}: {flaw.problem}: {flaw.cure}",)


def _flaw_of(numbers: np.ndarray, rows: np.ndarray, source: str, where: str, empty_allowed: bool) -> Flaw | None:
    """Return the first flaw of a column's numbers."""
    if not empty_allowed and len(numbers) and np.isnan(numbers).all():
        cure = "leave it out of data.targets or the covariates"
        return Flaw(source, f"{where}, row {rows[0]}", f"no value ({len(numbers)} empty in total)", cure)
    size, empty = np.abs(numbers), int(np.isnan(numbers).sum())
    present = len(numbers) - empty
    for bad, problem, cure, word in (
        (np.isinf(numbers), "an infinite value ({count} in total)", "correct it in the file", None),
        (size > LARGEST_NUMBER, "{value:g} is too large for float32 ({count} such values)", "use a larger unit", None),
        (
            np.isnan(numbers) & (not empty_allowed),
            "no value ({count} empty in total)",
            f"fill it in the file (only end rows may be deleted), or train with {ways_to_fill(empty, present)}",
            _GAPS_WORD,
        ),
    ):
        if bad.any():
            first, count = int(np.argmax(bad)), int(bad.sum())
            text = problem.format(count=count, value=numbers[first])
            return Flaw(source, f"{where}, row {rows[first]}", text, cure, word, count=count, unit="empty cell")
    return None


def _parse(column: pd.Series, numbers: np.ndarray | None, rows: np.ndarray, source: str, where: str) -> np.ndarray:
    """Return the numbers of one column, NaN where a cell is empty; `numbers` (N,) are those of a column of text."""
    kind = pd.api.types
    if kind.is_bool_dtype(column.dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        raise Flaw(source, where, "holds true and false, not numbers", "write 1 and 0, or leave it out of data.targets")
    if kind.is_complex_dtype(column.dtype) or column.dtype.kind in "mM":
        raise Flaw(source, where, f"holds {column.dtype}, not numbers", "leave it out of data.targets")
    if numbers is None:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    unread = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    for place in unread:
        text = str(column.iloc[place])
        if text.strip():
            raise Flaw(source, f"{where}, row {rows[place]}", f"{text[:40]!r} is not a number", _cure_of(text))
    return numbers


def _cure_of(text: str) -> str:
    """Return what to do about a cell that is no number."""
    left_out = "or leave its column out of data.targets"
    if _ONE_GROUP.fullmatch(text.strip()):
        return (
            f'set data.decimal="," if it is {text.strip().replace(",", ".")}, or data.thousands="," if it is '
            f"{text.strip().replace(',', '')}, {left_out}"
        )
    return f"write it with a decimal point and without unit or thousands separator, {left_out}"


def rows_ahead(table: pd.DataFrame, times: pd.DatetimeIndex, targets: Sequence[str]) -> np.ndarray:
    """Return a mask (N,) of the rows after the last time with a value of any target; all False without values.

    `table` holds raw cells in any order of `times`.
    """
    none = np.zeros(len(table), dtype=bool)
    if times.asi8[-1] == times.asi8.max() and has_value(table.iloc[-1:], targets)[0]:
        return none  # the usual case
    measured = has_value(table, targets)
    return np.asarray(times.asi8 > times.asi8[measured].max()) if measured.any() else none


def has_value(table: pd.DataFrame, targets: Sequence[str]) -> np.ndarray:
    """Return a mask (N,) of the rows with a non-empty cell of a target."""
    present = np.zeros(len(table), dtype=bool)
    for name in targets:
        column = table[name]
        filled = column.notna().to_numpy()
        if not pd.api.types.is_numeric_dtype(column.dtype):
            filled = filled & (column.astype(str).str.strip() != "").to_numpy()
        present |= filled
    return present
