"""From a table to a series: column roles, times and repairs."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.bounds import NO_BOUNDS, Bounds
from forecast.tables.draft import (
    Draft,
    check_present,
    numbers_of,
    with_chosen_columns,
    with_joined_parts,
    with_labels,
    with_last_rows,
    with_marks_as_empty,
    with_series_merged,
    with_snapped_times,
    with_time_column,
    with_times,
    without_counting_columns,
    without_empty_rows,
)
from forecast.tables.files import read_table
from forecast.tables.flaws import Flaw, list_word, refuse
from forecast.tables.formats.layout import RECOGNIZED, Layout
from forecast.tables.labels import decode_labels, name_empty_cells
from forecast.tables.long_tables import name_several_series
from forecast.tables.numbers import rows_ahead
from forecast.tables.panel import (
    REGION,
    Coded,
    Id,
    Ids,
    buckets_of_panel,
    first_cells,
    last_rows_of_each,
    on_grid,
    panel_step,
    read_ids,
    refuse_with_ids,
    regions_of,
    sorted_rows,
    static_column,
    steps_of,
    usable_rows,
)
from forecast.tables.reading import Reading
from forecast.tables.repair import STRICT, Filled, Policies, merge_columns, one_row_a_time, whole_table
from forecast.tables.repair import Rows as RawRows
from forecast.tables.roles import USUAL_IDS, Roles
from forecast.tables.times.buckets import AS_IT_IS, Buckets, Resampling, into_buckets
from forecast.tables.times.frequency import shown_frequency
from forecast.tables.times.irregular import Found, find_step
from forecast.tables.times.time_format import PLAIN, TimeFormat
from forecast.tables.times.zones import with_zone_proposed

Rows = slice | np.ndarray
"""Rows of a table: consecutive ones, or their places in rising order."""


@dataclass(frozen=True)
class Ahead:
    """Known covariates in the rows after the last target value, or in a table of their own.

    `frame` has unique, sorted times. Its columns are float64, or hold labels as text; an empty cell is NaN. `rows` (N,)
    are row numbers as in a spreadsheet, and `source` names the table, both for messages. A table of its own may lack
    columns; `notes` has one line for each change to it. In a panel `ids` (N,) has the id of each row, and a time may
    have a row for each of them.
    """

    frame: pd.DataFrame
    rows: np.ndarray
    source: str
    notes: tuple[str, ...] = ()
    ids: tuple[Id, ...] = ()


@dataclass(frozen=True)
class Series:
    """A regular multivariate series, or a panel: many of them, one after the other.

    Attributes
    ----------
    frame
        float64 columns over a sorted, regular DatetimeIndex whose name is the time column. In a panel it is so for the
        rows of each series.
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
    ids
        The series of a panel and their rows; None: one series.
    layout
        The layout of its file, as far as it was given.
    resampling
        Longer steps into which rows were put, or the step to which times were moved.
    bounds
        Limits of the targets.
    stored
        Whether the values are in a file, since the table may be larger than memory.
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
    ids: Ids | None = None
    layout: Layout = RECOGNIZED
    resampling: Resampling = AS_IT_IS
    bounds: Bounds = NO_BOUNDS
    stored: bool = False

    @property
    def unit(self) -> str:
        """What a message calls a step: the rows of a long table are not its steps."""
        return "row" if self.ids is None else "step"

    @property
    def num_steps(self) -> int:
        """Number of steps from the first time to the last."""
        return len(self.frame) if self.ids is None else self.ids.num_steps

    @property
    def num_rows(self) -> int:
        """Number of rows; the padding of a panel does not count."""
        return len(self.frame) - (0 if self.ids is None else len(self.ids) * self.ids.padding)

    @property
    def measured(self) -> pd.DataFrame:
        """The frame with NaN where a value was filled."""
        return self.frame if self.observed is None else self.measured_in(slice(None))

    def measured_in(self, rows: slice) -> pd.DataFrame:
        """Return some rows of `measured`."""
        frame = self.frame.iloc[rows]
        return frame if self.observed is None else frame.where(self.observed[rows])

    def values(self, columns: Sequence[str]) -> np.ndarray:
        """Return these columns, (N, C), float64, without a copy where they are neighbors."""
        places = self.frame.columns.get_indexer(pd.Index(columns))
        if len(places) and (np.diff(places) == 1).all():
            return self.frame.iloc[:, places[0] : places[-1] + 1].to_numpy(np.float64, copy=False)
        return self.frame[list(columns)].to_numpy(np.float64)

    def observed_of(self, columns: Sequence[str], rows: "Rows | None" = None) -> np.ndarray | None:
        """Return these columns of `observed`, in this order, for all rows or a slice."""
        if self.observed is None:
            return None
        mask = self.observed if rows is None else self.observed[rows]
        return np.asarray(mask[:, self.frame.columns.get_indexer(pd.Index(columns))])


def only(series: Series, places: np.ndarray) -> Series:
    """Return a panel with the series at rising places alone."""
    assert series.ids is not None
    rows = np.isin(series.ids.of_rows, places)
    observed = None if series.observed is None else series.observed[rows]
    return replace(series, frame=series.frame.iloc[rows], observed=observed, ids=series.ids.only(places))


ALL_TARGETS, AS_WRITTEN = Roles(), Reading()
"""Roles of a table whose columns are all targets, and the reading of a table without flaws."""


def read_series(path: str | os.PathLike[str], roles: Roles = ALL_TARGETS, reading: Reading = AS_WRITTEN) -> Series:
    """Return the series in a file that `read_table` reads, as `series_from_frame` reads it."""
    return series_from_frame(read_table(path, reading.layout), roles, reading, source=os.fspath(path))


def series_from_frame(
    frame: pd.DataFrame,
    roles: Roles = ALL_TARGETS,
    reading: Reading = AS_WRITTEN,
    source: str = "the frame",
    *,
    keeps_ids: bool = False,
) -> Series:
    """Return the checked series of a frame, which is not changed.

    Rows after the last target value are no part of the series: their known covariates become `Series.ahead`. The order
    of the steps matters: labels are read before the rows ahead are cut, so that both have the same, and rows are cut
    before numbers are read, so that a flaw in a row that is left out is none.

    Parameters
    ----------
    frame
        One row per time, with the times in a column or in a DatetimeIndex.
    roles
        The roles of the columns; others are not read if the targets are named.
    reading
        The times, the step and the repairs.
    source
        Name of the frame in messages.
    keeps_ids
        Whether a table with one id is a panel; otherwise it is read as a table without it.

    Raises
    ------
    InputError
        One message for too few rows and all flaws that options can accept, with row numbers as in a spreadsheet: the
        header is row 1.
    """
    draft = with_time_column(Draft.of(frame, roles, reading, source))
    draft = without_empty_rows(draft)
    draft = without_counting_columns(draft)
    draft = with_joined_parts(draft)
    draft = with_chosen_columns(draft)
    draft = _with_ids(with_times(draft))
    draft = with_snapped_times(draft)
    draft = with_marks_as_empty(draft)
    if draft.roles.ids:
        coded = read_ids(draft.table, draft.roles.ids, draft.rows, source)
        if keeps_ids or len(coded.names) > 1:
            return _panel(draft, coded)
        draft = _of_one_id(draft)
    if reading.region is not None:
        raise InputError(
            f"{REGION}={reading.region}: needs the ids of several series: name data.id_columns, or set data.holidays "
            "to the region of the one series"
        )
    draft = with_series_merged(draft)
    draft = with_labels(draft)
    draft, ahead = _without_rows_ahead(draft)
    draft = with_last_rows(draft)
    values, flaws = numbers_of(draft)
    draft, unique = _with_one_row_a_time(draft.flawed(*flaws), values)
    draft, unique = _with_buckets(draft, unique)
    labels, codes, named = name_empty_cells(unique[1], draft.label_places, draft.labels, reading.empty_labels)
    draft = replace(draft, labels=labels).noted("rows", named)
    filled, step, notes = _whole(draft, unique, codes)
    shown = None if reading.frequency is None else shown_frequency(unique[0])
    return _series(
        draft,
        filled,
        step,
        notes,
        shown=None if shown == step else shown,
        merged=draft.merged,
        ahead=ahead,
        unread=tuple(name for name in draft.unused if name not in draft.merged),
        last_rows=reading.last_rows,
    )


def _series(draft: Draft, filled: Filled, step: str, notes: Sequence[str], **more: Any) -> Series:
    """Return the series of a draft with complete rows; `notes` are those on its step."""
    reading, index = draft.reading, filled.times.rename(draft.time_column)
    return Series(
        pd.DataFrame(np.asfortranarray(filled.values), index=index, columns=draft.chosen, copy=False),
        step,
        (*draft.lines("file", "panel", "rows", "names", "columns", "times", "marks", "order"), *notes, *filled.notes),
        filled.observed,
        reading.policies,
        labels=draft.labels,
        time_format=draft.time_format,
        layout=reading.layout,
        resampling=reading.resampling,
        bounds=reading.bounds,
        **more,
    )


def _with_ids(draft: Draft) -> Draft:
    """Return the draft with the columns that identify series; a usual name in a long table counts as named."""
    roles, table = draft.roles, draft.table
    if roles.ids or draft.reading.merges_by is not None:
        return draft
    given = {draft.time_column, *roles.covariates, *(roles.targets or ())}
    usual = [name for name in USUAL_IDS if name in table.columns and name not in given]
    name = next((name for name in usual if 0 < 2 * table[name].nunique() <= len(table)), None)
    if name is None:
        return draft
    chosen, unused = ([other for other in names if other != name] for names in (draft.chosen, draft.unused))
    draft = replace(draft, chosen=chosen, unused=unused, roles=replace(roles, ids=[name]))
    word = list_word("data.id_columns", [name])
    return draft.noted("panel", [f"{name!r} identifies the series of a long table ({word})"])


def _of_one_id(draft: Draft) -> Draft:
    """Return the draft of a table with one id, whose columns have no role."""
    ids = draft.roles.ids
    draft = replace(draft, unused=[*draft.unused, *ids], roles=replace(draft.roles, ids=[]))
    return draft.noted("panel", [f"{' and '.join(map(repr, ids))} has one value: the table is one series"])


def _panel(draft: Draft, coded: Coded) -> Series:
    """Return the series of a panel, in the order of their ids."""
    reading, source = draft.reading, draft.source
    draft, static = _with_static(draft, coded)
    regions = regions_of(draft, coded)
    draft = with_labels(draft)
    inside, after, cut = usable_rows(draft, coded)
    if not inside.any():
        raise InputError(f"{source}: no target has a value in any row: add values, or correct data.targets")
    known, beyond = draft.roles.known, (draft.kept(after), coded.at(after))
    draft, coded = last_rows_of_each(draft.kept(inside), coded.at(inside))
    values, flaws = numbers_of(draft)
    refuse_with_ids([*draft.flaws, *flaws], coded, draft.rows)
    ahead = (_known(beyond[0], known, beyond[1]),) if known and after.any() else ()
    piece, doubled = sorted_rows(draft, coded, values)
    piece, bucketed = buckets_of_panel(piece, draft)
    outside = reading.bounds.flaws(piece.values, draft.chosen, draft.targets, piece.rows, source)
    refuse_with_ids(outside, coded, draft.rows)
    labels, _, named = name_empty_cells(piece.values, draft.label_places, draft.labels, reading.empty_labels)
    piece, step, read_as = panel_step(draft, piece, coded)
    ids, filled = on_grid(draft, coded, piece, *steps_of(piece, coded, step, source))
    present = np.unique(piece.codes)
    regions = None if regions is None else regions.iloc[present]
    ids = replace(ids, static=static.iloc[present].reset_index(drop=True), regions=regions)
    names, low, high = " and ".join(map(repr, coded.columns)), int(ids.lengths.min()), int(ids.lengths.max())
    length = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    line = f"{len(ids):,} series, identified by {names}, of {length} rows"
    notes = (*doubled, *bucketed, *cut, *named, *read_as)
    draft = replace(draft, labels=labels)
    unread = tuple(name for name in draft.unused if name != reading.region)
    series = _series(draft, filled, step, notes, ahead=ahead, unread=unread, last_rows=reading.last_rows, ids=ids)
    return replace(series, notes=(line, *series.notes))


def _with_static(draft: Draft, coded: Coded) -> tuple[Draft, pd.DataFrame]:
    """Return the draft without the static covariates, and their values, a row for each id of the table.

    Unless they are named, they are the columns without another role that are constant within each id.
    """
    fixed, chosen = draft.roles.fixed, draft.chosen
    if fixed is None:
        candidates = [*draft.unused, *(chosen if draft.roles.targets is None else ())]
        candidates = [name for name in candidates if name not in draft.roles.covariates]
        several = len(coded.codes) > len(coded.names)  # else each column is constant
        fixed = [name for name in candidates if several and not len(first_cells(draft.table[name], coded)[1])]
        chosen = [name for name in chosen if name not in fixed]
        if not any(name in chosen for name in draft.targets):  # then they are the values to forecast
            fixed, chosen = [], draft.chosen
    unused = [name for name in draft.unused if name not in fixed]
    static = {name: static_column(draft, coded, name) for name in fixed if name in draft.table}
    return replace(draft, chosen=chosen, unused=unused), pd.DataFrame(static, index=range(len(coded.names)))


def _without_rows_ahead(draft: Draft) -> tuple[Draft, tuple[Ahead, ...]]:
    """Return the draft without the rows after the last target value, and their known covariates."""
    ahead = rows_ahead(draft.table, draft.times, draft.targets)
    if not ahead.any():
        return draft, ()
    count = int(ahead.sum())
    rows = "the last row has" if count == 1 else f"the last {count:,} rows have"
    after = f"no target value, from {draft.times[ahead].min()} on: the forecast begins after the last value"
    draft = draft.noted("rows", [f"{rows} {after}"])
    known, resample = draft.roles.known, draft.reading.resampling.resample
    kept = ahead
    if known and resample is not None:  # the last bucket with a target value may be of the future
        numbers = Buckets.of(draft.times, resample).numbers
        kept = numbers >= numbers[~ahead].max()
    beyond = (_known(draft.kept(kept), known),) if known else ()
    draft = draft.kept(~ahead)  # later steps do not see the rows ahead
    with suppress(InputError):  # the rows ahead alone may show which number is the day
        draft = replace(with_snapped_times(with_times(draft)), time_format=draft.time_format)
    return draft, beyond


def _with_one_row_a_time(draft: Draft, values: np.ndarray) -> tuple[Draft, RawRows]:
    """Return the draft with a flaw if times are doubled and may not be, and the rows, sorted, one per time."""
    rows, codes = (draft.times, values, draft.rows), list(draft.label_places.values())
    merged = partial(one_row_a_time, rows, source=draft.source, time_column=draft.time_column, codes=codes)
    try:
        unique, notes = merged(how=draft.reading.policies.duplicates)
    except Flaw as flaw:
        draft = draft.flawed(with_zone_proposed(flaw, draft.times, draft.time_column))
        unique, notes = merged(how="first")
    return draft.noted("order", notes), unique


def _with_buckets(draft: Draft, unique: RawRows) -> tuple[Draft, RawRows]:
    """Return the draft with notes on its buckets, and a row for each complete one, with the time of its start."""
    resampling = draft.reading.resampling
    if resampling.resample is None:
        return draft, unique
    times, values, rows = unique
    found = into_buckets(times, resampling.resample)
    merged = merge_columns(values[: found.stop], found.firsts, resampling.rules(draft.chosen, list(draft.labels)))
    return draft.noted("order", found.notes), (found.starts, merged, rows[found.firsts])


def _whole(draft: Draft, unique: RawRows, codes: Mapping[int, float]) -> tuple[Filled, str, tuple[str, ...]]:
    """Return the complete table, its step and notes on it; refuse a table with flaws, all of them in one message."""
    reading = draft.reading
    outside = reading.bounds.flaws(unique[1], draft.chosen, draft.targets, unique[2], draft.source)
    flaws = [*draft.flaws, *outside]
    held = [draft.chosen.index(name) for name in draft.roles.known]  # a line knows what comes after a horizon
    filled: Filled | None = None
    found = Found(unique[0], "")
    try:
        found = find_step(
            unique[0],
            reading.step,
            unique[2],
            draft.source,
            fills=reading.policies.fills,
            named=reading.resampling.resample is None,
            count_from=lambda first: int((draft.times >= first).sum()),
        )
        filled = whole_table(
            (found.times, *unique[1:]),
            reading.policies.missing,
            columns=draft.chosen,
            frequency=found.step,
            source=draft.source,
            codes=codes,
            held=held,
            kept_rows=reading.kept_rows,
        )
    except Flaw as flaw:
        flaws.append(flaw)
    except InputError:
        if not flaws:
            raise
    names = [*draft.unused, *(draft.chosen if draft.roles.targets is None else ())]
    name_several_series(flaws, draft.table, draft.times, names)
    present = next((flaw.rows for flaw in flaws if flaw.rows is not None), len(unique[0]))
    refuse(flaws, reading.too_few(present if flaws or filled is None else len(filled.times)))
    assert filled is not None
    return filled, found.step, found.notes


def read_known(frame: pd.DataFrame, roles: Roles, reading: Reading, source: str) -> Ahead:
    """Return the known covariates of a table that has no targets, such as a weather forecast.

    The table may lack some of them. Numbers are labels in the categorical columns, and text is refused in the others.
    """
    draft = with_time_column(Draft.of(frame, roles, reading, source))
    refuse(list(draft.flaws))
    draft = without_empty_rows(draft)
    columns = list(draft.table.columns)
    present = [name for name in roles.known if name in columns]
    if not present:
        check_present(roles.known[:1], columns, source, "the names of its columns")
    numeric = [name for name in present if name not in roles.categorical]
    draft = replace(draft, chosen=present, roles=replace(roles, numeric=numeric))
    draft = with_labels(with_marks_as_empty(with_snapped_times(with_times(with_joined_parts(draft)))))
    coded = read_ids(draft.table, roles.ids, draft.rows, source) if roles.ids else None
    ahead = _known(draft, present, coded)
    return replace(ahead, notes=(*draft.lines("names", "rows", "columns", "times", "marks"), *ahead.notes))


def _known(draft: Draft, columns: list[str], coded: Coded | None = None) -> Ahead:
    """Return the known covariates of all rows, one row per time, or per id and time; an empty cell is NaN."""
    draft, ids = replace(draft, chosen=columns), tuple[Id, ...]()
    values, flaws = numbers_of(draft, empty_allowed=True)
    if coded is None:
        refuse(flaws)
        raw, time_column = (draft.times, values, draft.rows), str(draft.times.name or "date")
        how, codes = draft.reading.policies.duplicates, list(draft.label_places.values())
        unique, notes = one_row_a_time(raw, how, draft.source, time_column, codes=codes)
        _, (times, values, rows) = _with_buckets(draft, unique)
    else:
        refuse_with_ids(flaws, coded, draft.rows)
        piece, notes = sorted_rows(draft, coded, values)
        piece, _ = buckets_of_panel(piece, draft)
        times, values, rows = piece.times, piece.values, piece.rows
        ids = tuple(coded.names[code] for code in piece.codes.tolist())
    frame = pd.DataFrame(values, index=times, columns=columns)
    return Ahead(decode_labels(frame, draft.labels), rows, draft.source, notes, ids)
