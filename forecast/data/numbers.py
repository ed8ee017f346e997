"""Cells in, numbers out: float64 values of which every one is finite and fits float32."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from forecast.data.flaws import Flaw, list_word

_LARGEST = float(np.finfo(np.float32).max)


_GAPS_WORD = "data.missing=mask"


def to_numbers(
    table: pd.DataFrame, rows: np.ndarray, source: str, *, empty_allowed: bool = False, needed: Sequence[str] = ()
) -> tuple[np.ndarray, list[Flaw]]:
    """Return the values of the table, shape (N, C), float64, and a flaw for each column that has one.

    NaN stands where a cell is empty, and in the whole of a column that holds something else than numbers.

    Parameters
    ----------
    table
        Cells as they were read.
    rows
        Row number of each as a spreadsheet shows it, for the messages.
    source
        What the messages call the table.
    empty_allowed
        Whether an empty cell is no flaw.
    needed
        Columns that the user named: of the others those without any number can be left out by `data.targets`.
    """
    values = np.full(table.shape, np.nan, dtype=np.float64, order="F")  # as pandas keeps it, which need not copy it
    flaws, useless = [], []
    for place, name in enumerate(table.columns):
        where = f", column {name!r}"
        try:
            values[:, place] = _parse(table[name], rows, source, where)
        except Flaw as other:
            flaws.append(other)
            if name not in needed and (other.where == where or not _has_number(table[name])):
                useless.append((name, other))
            continue
        found = _flaw_of(values[:, place], rows, source, where, empty_allowed)
        if found is not None:
            flaws.append(found)
            if name not in needed and np.isnan(values[:, place]).all():
                useless.append((name, found))
    left_out = {name for name, _ in useless}
    if useful := [str(name) for name in table.columns if name not in left_out]:
        for _, flaw in useless:
            flaw.word = list_word("data.targets", useful)
    return values, flaws


def _flaw_of(numbers: np.ndarray, rows: np.ndarray, source: str, where: str, empty_allowed: bool) -> Flaw | None:
    """Return the first thing that is wrong with the numbers of a column."""
    size = np.abs(numbers)
    for bad, problem, cure, word in (
        (np.isinf(numbers), "an infinite value ({count} in all)", "correct it in the file", None),
        (size > _LARGEST, "{value:g} is beyond float32 ({count} such in all)", "use a larger unit", None),
        (
            np.isnan(numbers) & (not empty_allowed),
            "no value ({count} empty in all)",
            "fill it in the file (rows can only go at its ends), or train with data.missing=ffill, interpolate or mask",
            _GAPS_WORD,
        ),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            text = problem.format(count=int(bad.sum()), value=numbers[first])
            return Flaw(source, f"{where}, row {rows[first]}", text, cure, word)
    return None


def _has_number(column: pd.Series) -> bool:
    numbers = pd.to_numeric(column, errors="coerce")
    return bool(numbers.notna().any())


def _parse(column: pd.Series, rows: np.ndarray, source: str, where: str) -> np.ndarray:
    """Return the numbers of one column, NaN where a cell is empty.

    Raises
    ------
    Flaw
        If a cell holds something else.
    """
    kind = pd.api.types
    if kind.is_bool_dtype(column.dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        raise Flaw(source, where, "holds true and false", "write 1 and 0, or leave it out of data.targets")
    if kind.is_complex_dtype(column.dtype) or column.dtype.kind in "mM":
        raise Flaw(source, where, f"holds {column.dtype}, not numbers", "leave it out of data.targets")
    if kind.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    unread = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    for place in unread:
        text = str(column.iloc[place])
        if text.strip():
            raise Flaw(
                source,
                f"{where}, row {rows[place]}",
                f"{text[:40]!r} is no number",
                "write it with a decimal point and without unit or thousands mark, or leave its column out of "
                "data.targets",
            )
    return numbers
