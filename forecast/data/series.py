"""Table in, series out: sorted, regular, finite float64 columns with their frequency, or one clear line."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data.duplicates import one_row_a_time
from forecast.data.frequency import resolve_frequency, shown_frequency
from forecast.data.missing import whole_table
from forecast.data.numbers import to_numbers
from forecast.data.policies import STRICT, Policies
from forecast.data.table import check_names, read_table
from forecast.data.timestamps import find_time_column, holds_times, parse_times
from forecast.errors import InputError


@dataclass(frozen=True)
class Series:
    """A regular multivariate series.

    Attributes
    ----------
    frame
        float64 columns over a sorted, regular DatetimeIndex whose name is the time column.
    frequency
        Step from row to row, a pandas alias such as 'h', '15min', 'D', 'MS'.
    notes
        One line for each thing that was done to the input.
    observed
        Shape (N, C), False where a value was filled; None where none was.
    policies
        What was to be done with doubled and missing rows.
    shown
        The step that the rows themselves keep, where it is not `frequency`; None where they keep none either.
    """

    frame: pd.DataFrame
    frequency: str
    notes: tuple[str, ...] = ()
    observed: np.ndarray | None = None
    policies: Policies = STRICT
    shown: str | None = None

    @property
    def measured(self) -> pd.DataFrame:
        """The frame with NaN where a value was filled."""
        return self.frame if self.observed is None else self.frame.where(self.observed)

    def observed_of(self, columns: Sequence[str], rows: slice | None = None) -> np.ndarray | None:
        """Give the columns of `observed`, in their order; of all rows, or of those of a slice."""
        if self.observed is None:
            return None
        names = list(self.frame.columns)
        part = self.observed if rows is None else self.observed[rows]
        return np.asarray(part[:, [names.index(name) for name in columns]])


def read_series(
    path: str | os.PathLike[str],
    *,
    time_column: str | None = None,
    columns: Sequence[str] | None = None,
    frequency: str | None = None,
    policies: Policies = STRICT,
) -> Series:
    """Series in a .csv, .csv.gz or .parquet file; the arguments are those of `series_from_frame`."""
    return series_from_frame(
        read_table(path),
        source=os.fspath(path),
        time_column=time_column,
        columns=columns,
        frequency=frequency,
        policies=policies,
    )


def series_from_frame(
    frame: pd.DataFrame,
    *,
    source: str = "the frame",
    time_column: str | None = None,
    columns: Sequence[str] | None = None,
    frequency: str | None = None,
    policies: Policies = STRICT,
) -> Series:
    """Series in a frame, checked; the frame stays as it is.

    Parameters
    ----------
    frame
        One row for each time, the times in a column or in a DatetimeIndex.
    source
        What the messages call the frame.
    time_column
        Column of times; None finds it where that is unambiguous.
    columns
        Columns to keep, in this order; None keeps all but the time column.
    frequency
        Step between rows, a pandas alias; None infers it.
    policies
        What is done with doubled and missing rows.

    Raises
    ------
    InputError
        With one line that says what is wrong, in which row and column, and what to do. Rows are numbered as a
        spreadsheet shows them: the header is row 1.
    """
    table, time_column = _with_time_column(frame, source, time_column)
    table, rows, row_notes = _without_empty_rows(table, source)
    table, column_notes = _without_nameless(table) if columns is None else (table, ())
    chosen = _choose(table, time_column, columns, source)
    times, time_notes = parse_times(table[time_column], rows, f"{source}, column {time_column!r}")
    values = to_numbers(table[chosen], rows, source, empty_allowed=policies.fills)
    found, order_notes = one_row_a_time((times, values, rows), policies.duplicates, source, time_column)
    shown = None if frequency is None else shown_frequency(found[0])
    frequency = resolve_frequency(found[0], frequency, source)
    filled = whole_table(found, policies.missing, columns=chosen, frequency=frequency, source=source)
    index = filled.times.rename(time_column)
    result = pd.DataFrame(np.asfortranarray(filled.values), index=index, columns=chosen, copy=False)
    notes = (*row_notes, *column_notes, *time_notes, *order_notes, *filled.notes)
    return Series(result, frequency, notes, filled.observed, policies, None if shown == frequency else shown)


def _with_time_column(frame: pd.DataFrame, source: str, name: str | None) -> tuple[pd.DataFrame, str]:
    """Table with the times in a column, whose name comes second."""
    if isinstance(frame.index, pd.MultiIndex) or isinstance(frame.columns, pd.MultiIndex):
        raise InputError(f"{source} has an index of several levels: give one row for each time, one series a column")
    if frame.empty and not len(frame):
        raise InputError(f"{source} has no rows below its header: add data")
    table = frame.set_axis([str(label) for label in frame.columns], axis=1)
    check_names(list(table.columns), source)
    label = str(frame.index.name) if frame.index.name is not None else "date"
    as_index = name is None or (name == label and name not in table.columns)
    if as_index and label not in table.columns and _index_holds_times(frame.index):
        table.insert(0, label, frame.index)
        return table.reset_index(drop=True), label
    table = table.reset_index(drop=True)
    if table.isna().all(axis=None):
        raise InputError(f"{source} has no rows below its header: add data")
    if name is not None:
        _check_present(name, list(table.columns), source, "data.time_column")
    return table, name if name is not None else find_time_column(table, source)


def _index_holds_times(index: pd.Index) -> bool:
    return not isinstance(index, pd.RangeIndex) and holds_times(pd.Series(index))


def _without_nameless(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Leave out columns without a name that are empty (a comma at each line's end) or count the rows."""
    dropped = []
    for place, name in enumerate(table.columns):
        if name == f"Unnamed: {place}":
            column = table[name].dropna()
            counts = pd.api.types.is_numeric_dtype(column.dtype) and bool((column.diff().iloc[1:] == 1).all())
            if column.empty or (counts and column.iloc[0] in (0, 1)):
                dropped.append(name)
    notes = tuple(
        f"column {table.columns.get_loc(name)} has no name and no values of its own: left out" for name in dropped
    )
    return table.drop(columns=dropped), notes


def _without_empty_rows(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, np.ndarray, tuple[str, ...]]:
    """Table without lines that are blank from end to end, the row number of each that stays, and a note."""
    rows = np.arange(2, len(table) + 2)
    empty = table.isna().all(axis=1).to_numpy()
    if not empty.any():
        return table, rows, ()
    trailing = int(np.argmin(empty[::-1]))  # blank lines at the end are no news
    inside = int(empty.sum()) - trailing
    notes = (f"{inside} blank rows were left out",) if inside else ()
    return table.loc[~empty], rows[~empty], notes


def _choose(table: pd.DataFrame, time_column: str, columns: Sequence[str] | None, source: str) -> list[str]:
    if columns is None:
        chosen = [name for name in table.columns if name != time_column]
        if not chosen:
            raise InputError(f"{source} has no column beside {time_column!r}: add the values to forecast")
        return chosen
    chosen = [str(name) for name in columns]
    for name in chosen:
        _check_present(name, list(table.columns), source, "data.targets or data.past_covariates")
    if time_column in chosen or len(set(chosen)) < len(chosen) or not chosen:
        raise InputError(
            f"{source}: columns {chosen} name none, one twice, or the time column: "
            "correct data.targets or data.past_covariates"
        )
    return chosen


def _check_present(name: str, names: list[str], source: str, key: str) -> None:
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    raise InputError(f"{source} has no column {name!r}{hint}, only {listed}: correct {key}")
