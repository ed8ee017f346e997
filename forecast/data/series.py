"""From a table to a series: column roles, times and repairs."""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.data.flaws import Flaw, refuse
from forecast.data.frequency import resolve_frequency, shown_frequency
from forecast.data.labels import decode_labels, encode_covariates, name_empty_cells
from forecast.data.numbers import rows_ahead, to_numbers, trailing_note
from forecast.data.panel import find_panel, name_several_series
from forecast.data.repair import STRICT, Policies, one_row_a_time, whole_table
from forecast.data.table import read_table, rows_at_end, tidy_name, tidy_names, without_counters
from forecast.data.timestamps import PLAIN, TimeFormat, find_time_column, holds_times, join_hours, parse_times


@dataclass(frozen=True)
class Ahead:
    """Known covariates in the rows after the last target value, or in a table of their own.

    `frame` has unique, sorted times. Its columns are float64, or hold labels as text; an empty cell is NaN. `rows` (N,)
    are row numbers as in a spreadsheet, and `source` names the table, both for messages. A table of its own may lack
    columns; `notes` has one line for each change to it.
    """

    frame: pd.DataFrame
    rows: np.ndarray
    source: str
    notes: tuple[str, ...] = ()


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
        One line for each change to the input.
    observed
        Shape (N, C), False where a value was filled; None if no value was.
    policies
        The treatment of duplicate and missing rows.
    shown
        The step of most rows if it differs from `frequency`, else None.
    merged
        Columns that identified the series which were merged into one, else empty.
    labels
        Labels of each categorical column; a cell of it is a place in its labels.
    ahead
        Known covariates after the last target value; the first table with a value counts.
    time_format
        The layout and format of the times, as they were read.
    unread
        Columns of the input that have no role.
    last_rows
        Number of rows to which a table was limited, the last by time; None: no limit.
    """

    frame: pd.DataFrame
    frequency: str
    notes: tuple[str, ...] = ()
    observed: np.ndarray | None = None
    policies: Policies = STRICT
    shown: str | None = None
    merged: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ahead: tuple[Ahead, ...] = ()
    time_format: TimeFormat = PLAIN
    unread: tuple[str, ...] = ()
    last_rows: int | None = None

    @property
    def measured(self) -> pd.DataFrame:
        """The frame with NaN where a value was filled."""
        return self.frame if self.observed is None else self.frame.where(self.observed)

    def observed_of(self, columns: Sequence[str], rows: slice | None = None) -> np.ndarray | None:
        """Return these columns of `observed`, in this order, for all rows or a slice."""
        if self.observed is None:
            return None
        mask = self.observed if rows is None else self.observed[rows]
        return np.asarray(mask[:, self.frame.columns.get_indexer(pd.Index(columns))])


def read_series(
    path: str | os.PathLike[str],
    *,
    time_column: str | None = None,
    columns: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
    known: Sequence[str] = (),
    categorical: Sequence[str] = (),
    frequency: str | None = None,
    policies: Policies = STRICT,
    merges_series: bool = False,
    time_format: TimeFormat = PLAIN,
    last_rows: int | None = None,
    too_few: Callable[[int], str | None] = lambda rows: None,
) -> Series:
    """Return the series in a .csv, .csv.gz or .parquet file; the arguments are those of `series_from_frame`."""
    return series_from_frame(
        read_table(path),
        source=os.fspath(path),
        time_column=time_column,
        columns=columns,
        covariates=covariates,
        known=known,
        categorical=categorical,
        frequency=frequency,
        policies=policies,
        merges_series=merges_series,
        time_format=time_format,
        last_rows=last_rows,
        too_few=too_few,
    )


def series_from_frame(
    frame: pd.DataFrame,
    *,
    source: str = "the frame",
    time_column: str | None = None,
    columns: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
    known: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    frequency: str | None = None,
    policies: Policies = STRICT,
    merges_series: bool = False,
    time_format: TimeFormat = PLAIN,
    last_rows: int | None = None,
    fewer_allowed: bool = False,
    kept_rows: int = 0,
    empty_labels: Sequence[str] | None = None,
    too_few: Callable[[int], str | None] = lambda rows: None,
) -> Series:
    """Return the checked series of a frame, which is not changed.

    Rows after the last target value are no part of the series: their known covariates become `Series.ahead`.

    Parameters
    ----------
    frame
        One row per time, with the times in a column or in a DatetimeIndex.
    source
        Name of the frame in messages.
    time_column
        Column of the times; None: the only column that holds times.
    columns
        Columns to keep, in this order; None keeps all but the time column.
    covariates
        Columns that are not targets, the known ones included.
    known
        Covariates whose values after the last target value are kept.
    categorical
        Covariates whose numbers are labels; those with text are, unless they are `numeric`.
    numeric
        Covariates in which a trained model reads numbers; their text is refused.
    frequency
        Step between rows, a pandas alias; None infers it.
    policies
        Treatment of duplicate and missing rows.
    merges_series
        Whether a long table may become one series by the policy for duplicate times.
    time_format
        Layout and format of the times; its columns take the place of `time_column`.
    last_rows
        Number of rows to keep, the last by time; None keeps all.
    fewer_allowed
        Whether the frame may have fewer rows than `last_rows`.
    kept_rows
        Number of last rows that stay although a column has no value yet; its first value fills them.
    empty_labels
        Columns in which an empty cell is a label; None: all columns with labels.
    too_few
        Function that returns why a number of rows is too small; None: it is not.

    Raises
    ------
    InputError
        One message for too few rows and all flaws that options can accept, with row numbers as in a spreadsheet: the
        header is row 1.
    """
    flaws: list[Flaw] = []
    frame, name_notes = tidy_names(frame, source)
    covariates, known, categorical = (tidy_name(list(names)) for names in (covariates, known, categorical))
    columns = columns and tidy_name(list(columns))
    table, time_column, ambiguous = _with_time_column(frame, source, tidy_name(time_column), time_format)
    flaws += [ambiguous] if ambiguous else []
    table, rows, row_notes = _without_empty_rows(table, source)
    table, column_notes = (table, ()) if columns is not None else without_counters(table, [time_column, *covariates])
    time_format = time_format.acting_on(table[time_column])
    table, time_format, joined_notes = join_hours(table, time_format, rows, source)
    column_notes = (*name_notes, *column_notes, *joined_notes)
    for name in covariates:
        if name == time_column:
            raise InputError(f"{source}: {name!r} is the time column, not a covariate: its calendar is always an input")
    _check_present(covariates, list(table.columns), source, "data.past_covariates or data.known_covariates")
    chosen = _choose(table, time_column, columns, source)
    without_role = [name for name in table.columns if name not in (time_column, *chosen)]
    where = f"{source}, column {time_column!r}"
    times, read_as, time_notes = parse_times(table[time_column], rows, where, time_format)
    targets = [name for name in chosen if name not in covariates]
    table, marked_notes = _without_missing_values(table, chosen, policies)
    how = policies.duplicates if merges_series and policies.duplicates != "error" else None
    merged, panel_notes = _merged_series(table, times, time_column, chosen, targets, source, how)
    others = [name for name in chosen if name in covariates]
    table, labels = encode_covariates(table, others, categorical, rows, source, numeric)
    row_notes = (*row_notes, *_label_notes(labels, categorical))
    beyond: tuple[Ahead, ...] = ()
    ahead = rows_ahead(table, times, targets)
    if ahead.any():  # later steps do not see these rows
        row_notes = (*row_notes, trailing_note(times[ahead], int(ahead.sum())))
        if known:
            content = (table.loc[ahead], times[ahead], rows[ahead])
            beyond = (_known_ahead(content, known, labels, numeric, policies, source),)
        table, rows, times = table.loc[~ahead], rows[~ahead], times[~ahead]
        with suppress(InputError):  # the rows ahead alone may show which number is the day
            times, _, time_notes = parse_times(table[time_column], rows, where, time_format)
    if last_rows is not None:
        kept, cut_notes = rows_at_end(times, last_rows, source, fewer_allowed=fewer_allowed)
        table, rows, times, row_notes = table.loc[kept], rows[kept], times[kept], (*row_notes, *cut_notes)
    values, unread = to_numbers(
        table[chosen],
        rows,
        source,
        empty_allowed=policies.fills,
        needed=columns or covariates,
        covariates=others,
        numeric=numeric,
        may_be_empty=[name for name in labels if labels[name]] if empty_labels is None else empty_labels,
    )
    flaws += unread
    codes = {name: chosen.index(name) for name in labels}
    unique, order_notes = _tolerating(
        flaws,
        lambda how: one_row_a_time((times, values, rows), how, source, time_column, codes=[*codes.values()]),
        policies.duplicates,
        "first",
    )
    labels, numbers, empty_notes = name_empty_cells(unique[1], codes, labels, empty_labels)
    row_notes = (*row_notes, *empty_notes)
    shown = None if frequency is None else shown_frequency(unique[0])
    try:
        step = resolve_frequency(unique[0], frequency, source)
        filled = whole_table(
            unique,
            policies.missing,
            columns=chosen,
            frequency=step,
            source=source,
            codes={place: numbers.get(place, np.nan) for place in codes.values()},
            held=[chosen.index(name) for name in known],  # a line over the end of a horizon knows what comes after it
            kept_rows=kept_rows,
        )
    except Flaw as flaw:
        flaws.append(flaw)
    except InputError:
        if not flaws:
            raise
    name_several_series(flaws, table, times, [*without_role, *(chosen if columns is None else ())])
    present = next((flaw.rows for flaw in flaws if flaw.rows is not None), len(unique[0]))
    refuse(flaws, too_few(present if flaws else len(filled.times)))
    index = filled.times.rename(time_column)
    result = pd.DataFrame(np.asfortranarray(filled.values), index=index, columns=chosen, copy=False)
    notes = (*panel_notes, *row_notes, *column_notes, *time_notes, *marked_notes, *order_notes, *filled.notes)
    shown = None if shown == step else shown
    ignored = tuple(name for name in without_role if name not in merged)
    return Series(
        result, step, notes, filled.observed, policies, shown, merged, labels, beyond, read_as, ignored, last_rows
    )


def _label_notes(labels: Mapping[str, tuple[str, ...]], categorical: Sequence[str]) -> list[str]:
    """Return a note for each column of text that is read as labels without being named."""
    read = [(name, seen) for name, seen in labels.items() if name not in categorical]
    return [f"{name!r} holds text and is read as {counted(len(seen), 'label')}" for name, seen in read]


def read_known(
    frame: pd.DataFrame,
    *,
    source: str,
    time_column: str | None,
    known: Sequence[str],
    categorical: Sequence[str],
    policies: Policies = STRICT,
    time_format: TimeFormat = PLAIN,
) -> Ahead:
    """Return the known covariates of a table that has no targets, such as a weather forecast.

    The table may lack some of the columns `known`. Numbers are labels in the columns `categorical`, and text is refused
    in the others.
    """
    frame, name_notes = tidy_names(frame, source)
    table, time_column, ambiguous = _with_time_column(frame, source, time_column, time_format)
    refuse([ambiguous] if ambiguous else [])
    table, rows, row_notes = _without_empty_rows(table, source)
    present = [name for name in known if name in table.columns]
    if not present:
        _check_present(known[:1], list(table.columns), source, "the names of its columns")
    table, time_format, joined_notes = join_hours(table, time_format.acting_on(table[time_column]), rows, source)
    where = f"{source}, column {time_column!r}"
    times, _, time_notes = parse_times(table[time_column], rows, where, time_format)
    table, marked_notes = _without_missing_values(table, present, policies)
    numeric = [name for name in present if name not in categorical]
    table, labels = encode_covariates(table, present, categorical, rows, source, numeric)
    ahead = _known_ahead((table, times, rows), present, labels, numeric, policies, source)
    notes = (*name_notes, *row_notes, *joined_notes, *time_notes, *marked_notes, *ahead.notes)
    return replace(ahead, notes=notes)


def _known_ahead(
    content: tuple[pd.DataFrame, pd.DatetimeIndex, np.ndarray],
    known: Sequence[str],
    labels: Mapping[str, tuple[str, ...]],
    numeric: Sequence[str],
    policies: Policies,
    source: str,
) -> Ahead:
    """Return the known covariates of rows, one row per time, empty cells as NaN."""
    table, times, rows = content
    columns = list(known)
    values, flaws = to_numbers(
        table[columns], rows, source, empty_allowed=True, needed=columns, covariates=columns, numeric=numeric
    )
    refuse(flaws)
    codes = [columns.index(name) for name in columns if name in labels]
    (times, values, rows), notes = one_row_a_time(
        (times, values, rows), policies.duplicates, source, str(times.name or "date"), codes=codes
    )
    frame = pd.DataFrame(values, index=times, columns=columns)
    return Ahead(decode_labels(frame, labels), rows, source, notes)


def _without_missing_values(
    table: pd.DataFrame, columns: Sequence[str], policies: Policies
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table with `policies.missing_values` as empty cells, and a note if any cell changed."""
    if not policies.missing_values:
        return table, ()
    marks = {name: _equals_one_of(table[name], policies.missing_values) for name in columns}
    if not (count := sum(int(mark.sum()) for mark in marks.values())):
        return table, ()
    table = table.copy(deep=False)
    for name, mark in marks.items():
        if mark.any():
            table[name] = table[name].mask(mark)
    numbers = ", ".join(f"{number:g}" for number in policies.missing_values)
    return table, (f"{count} cells hold {numbers} and count as empty (data.missing_values)",)


def _equals_one_of(column: pd.Series, numbers: Sequence[float]) -> pd.Series:
    """Return where a column holds one of the numbers, also as text; true and false are no numbers."""
    kind: Any = column.dtype
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        return pd.Series(False, index=column.index)
    if not pd.api.types.is_numeric_dtype(kind):
        cells = column.astype(object)
        cells = cells.mask(cells.map(lambda cell: not isinstance(cell, str | int | float) or isinstance(cell, bool)))
        return pd.to_numeric(cells, errors="coerce").isin(list(numbers))
    if pd.api.types.is_float_dtype(kind):  # -999.9 in 32 bits is another number than in 64
        return column.isin(np.array(numbers).astype(getattr(kind, "numpy_dtype", kind)).tolist())
    return column.isin(list(numbers))


Result = TypeVar("Result")


def _tolerating(flaws: list[Flaw], step: Callable[[str], Result], policy: str, otherwise: str) -> Result:
    """Return the result of a step under a policy; on a flaw, record it and use the policy `otherwise`."""
    try:
        return step(policy)
    except Flaw as flaw:
        flaws.append(flaw)
        return step(otherwise)


def _merged_series(
    table: pd.DataFrame,
    times: pd.DatetimeIndex,
    time_column: str,
    chosen: Sequence[str],
    targets: Sequence[str],
    source: str,
    how: str | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Raise InputError for a long table unless `how` merges its series; return its id columns and a note."""
    panel = find_panel(table, times, time_column, targets)
    if panel is None:
        return (), ()
    if how is None or set(panel.columns) & set(chosen):
        raise InputError(f"{source} {panel}: {panel.advice}")
    names = " and ".join(map(repr, panel.columns))
    return panel.columns, (
        f"{panel.count:,} series, identified by {names}, were merged into one by the {how} at each time",
    )


def _with_time_column(
    table: pd.DataFrame, source: str, name: str | None, time_format: TimeFormat
) -> tuple[pd.DataFrame, str, Flaw | None]:
    """Return the table with a time column, its name, and a flaw if several columns hold times."""
    if table.empty and not len(table):
        raise InputError(f"{source} has no rows below its header: add data")
    label = str(table.index.name) if table.index.name is not None else "date"
    as_index = time_format.columns is None and (name is None or (name == label and name not in table.columns))
    if as_index and label not in table.columns and _index_holds_times(table.index, time_format.date_format):
        table.insert(0, label, table.index)
        return table.reset_index(drop=True), label, None
    has_name = table.index.name is not None and table.index.name not in table.columns
    repeats = has_name and not table.index.is_unique  # it identifies the series of a long table
    table = table.reset_index(drop=not repeats)
    if table.isna().all(axis=None):
        raise InputError(f"{source} has no rows below its header: add data")
    key = "data.time_column" if time_format.columns is None else "data.time_columns"
    named = time_format.columns or (() if name is None else (name,))
    _check_present(named, list(table.columns), source, key)
    return (table, named[0], None) if named else (table, *find_time_column(table, source, time_format.date_format))


def _index_holds_times(index: pd.Index, date_format: str | None) -> bool:
    return not isinstance(index, pd.RangeIndex) and holds_times(pd.Series(index), date_format)


def _without_empty_rows(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, np.ndarray, tuple[str, ...]]:
    """Return the table without blank rows, the row number of each remaining row, and a note."""
    rows = np.arange(2, len(table) + 2)
    empty = table.isna().all(axis=1).to_numpy()
    if not empty.any():
        return table, rows, ()
    trailing = int(np.argmin(empty[::-1]))  # blank rows at the end are not reported
    inside = int(empty.sum()) - trailing
    notes = (f"{inside} blank rows were left out",) if inside else ()
    return table.loc[~empty], rows[~empty], notes


def _choose(table: pd.DataFrame, time_column: str, columns: Sequence[str] | None, source: str) -> list[str]:
    if columns is None:
        chosen = [name for name in table.columns if name != time_column]
        if not chosen:
            raise InputError(f"{source} has no column besides {time_column!r}: add the values to forecast")
        return chosen
    chosen = [str(name) for name in columns]
    _check_present(chosen, list(table.columns), source, "data.targets, data.past_covariates or data.known_covariates")
    if time_column in chosen or len(set(chosen)) < len(chosen) or not chosen:
        raise InputError(
            f"{source}: columns {chosen} are empty, repeat a column or include the time column: "
            "correct data.targets or the covariates"
        )
    return chosen


def _check_present(wanted: Sequence[str], names: list[str], source: str, key: str) -> None:
    """Raise InputError that names all `wanted` columns which are not among the `names` of the table."""
    absent = [name for name in wanted if name not in names]
    if not absent:
        return
    near = {name: difflib.get_close_matches(name, names, n=1) for name in absent}
    texts = [f"{name!r}" + (f" (did you mean {near[name][0]!r}?)" if near[name] else "") for name in absent[:12]]
    more = " …" if len(absent) > 12 else ""
    listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    word = "column" if len(absent) == 1 else "columns"
    raise InputError(f"{source} has no {word} {', '.join(texts)}{more}, only {listed}: correct {key}")
