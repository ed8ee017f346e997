"""A table on its way to a series: the steps from its raw cells to times, labels and one series."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.tables.files import tidy_name, tidy_names, without_counters
from forecast.tables.flaws import Flaw, list_word
from forecast.tables.formats.text import ORIGIN
from forecast.tables.labels import encode_covariates
from forecast.tables.long_tables import find_panel
from forecast.tables.marks import holds_mark, shown_marks
from forecast.tables.numbers import to_numbers
from forecast.tables.reading import Reading
from forecast.tables.roles import KNOWN, PAST, USUAL_IDS, Roles
from forecast.tables.times.buckets import snapped
from forecast.tables.times.forms import holds_times
from forecast.tables.times.parts import find_clock, find_times, join_parts
from forecast.tables.times.time_format import PLAIN, TimeFormat
from forecast.tables.times.written import read_times
from forecast.tables.transposed import upright


@dataclass(frozen=True)
class Draft:
    """A table on its way to a series; each step returns the next draft.

    `table` has the raw cells, one row per record in any order, `rows` the row numbers (N,) of a spreadsheet, whose
    header is row 1, and `times` the times, read as `time_format` says. `chosen` are the columns of the series, `unused`
    the others. `merged` identify series which become one, and `labels` are those of categorical columns. `notes` are
    lines on the changes by their kind: "file", "panel", "rows", "names", "columns", "times", "marks" or "order".
    Options can accept the `flaws`. `source` names the table in messages.
    """

    source: str
    roles: Roles
    reading: Reading
    table: pd.DataFrame
    rows: np.ndarray = field(default_factory=lambda: np.arange(0))
    time_column: str = ""
    times: pd.DatetimeIndex = field(default_factory=lambda: pd.DatetimeIndex([]))
    time_format: TimeFormat = PLAIN
    chosen: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    merged: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flaws: tuple[Flaw, ...] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, roles: Roles, reading: Reading, source: str) -> "Draft":
        """Return the draft of a frame, with tidy names, and with its dates in rows."""
        _, on_file = frame.attrs.get(ORIGIN, (2, ()))
        frame, notes = tidy_names(frame, source)
        names = {key: tidy_name(getattr(reading, key)) for key in ("time_column", "region")}
        reading, roles = replace(reading, **names), roles.tidied()
        table = upright(
            frame,
            source,
            reading.time_format.date_format,
            roles.ids,
            time_column=reading.time_column,
            is_panel=bool(roles.ids),
        )
        if table.ids and not roles.ids:
            roles = replace(roles, ids=list(table.ids))
        if table.date_format is not None:
            reading = replace(reading, time_format=replace(reading.time_format, date_format=table.date_format))
        return cls(source, roles, reading, table.frame).noted("file", on_file).noted("names", (*notes, *table.notes))

    def noted(self, kind: str, notes: Sequence[str]) -> "Draft":
        """Return the draft with more notes of a kind."""
        return replace(self, notes={**self.notes, kind: (*self.notes.get(kind, ()), *notes)})

    def flawed(self, *flaws: Flaw) -> "Draft":
        """Return the draft with more flaws."""
        return replace(self, flaws=(*self.flaws, *flaws))

    def kept(self, mask: np.ndarray) -> "Draft":
        """Return the draft with the rows where `mask` is true."""
        if mask.all():
            return self
        return replace(self, table=self.table.loc[mask], rows=self.rows[mask], times=self.times[mask])

    @property
    def targets(self) -> list[str]:
        """The chosen columns that are not covariates."""
        covariates = self.roles.covariates
        return [name for name in self.chosen if name not in covariates]

    @property
    def others(self) -> list[str]:
        """The chosen columns that are covariates."""
        covariates = self.roles.covariates
        return [name for name in self.chosen if name in covariates]

    @property
    def label_places(self) -> dict[str, int]:
        """The place among the chosen columns of each column with labels."""
        return {name: self.chosen.index(name) for name in self.labels if name in self.chosen}

    @property
    def ids(self) -> list[str]:
        """The columns that identify series: those that are named, or those with a usual name."""
        return self.roles.ids or [name for name in USUAL_IDS if name in self.table.columns]

    @property
    def series(self) -> np.ndarray | None:
        """The number of the series of each row, (N,); None for one series."""
        names = self.ids
        return np.asarray(self.table.groupby(names, sort=False, dropna=False).ngroup()) if names else None

    def lines(self, *kinds: str) -> tuple[str, ...]:
        """Return the notes of these kinds, in this order."""
        return tuple(note for kind in kinds for note in self.notes.get(kind, ()))


def with_time_column(draft: Draft) -> Draft:
    """Return the draft with its time column or columns found, and a flaw if several columns hold times."""
    table, source, name, layout = draft.table, draft.source, draft.reading.time_column, draft.reading.time_format
    if table.empty and not len(table):
        raise InputError(f"{source} has no rows below its header: add data")
    label = str(table.index.name) if table.index.name is not None else "date"
    as_index = layout.columns is None and (name is None or (name == label and name not in table.columns))
    is_named = as_index and label not in table.columns and not isinstance(table.index, pd.RangeIndex)
    if is_named and holds_times(pd.Series(table.index), layout.date_format):
        table.insert(0, label, table.index)
        return replace(draft, table=table.reset_index(drop=True), time_column=label)
    has_name = table.index.name is not None and table.index.name not in table.columns
    repeats = has_name and not table.index.is_unique  # it identifies the series of a long table
    table = table.reset_index(drop=not repeats)
    if table.isna().all(axis=None):
        raise InputError(f"{source} has no rows below its header: add data")
    key = "data.time_column" if layout.columns is None else "data.time_columns"
    named = layout.columns or (() if name is None else (name,))
    check_present(named, list(table.columns), source, key)
    draft = replace(draft, table=table)
    if layout.columns is not None:
        return replace(draft, time_column=named[0])
    taken = [*draft.roles.covariates, *(draft.roles.targets or ()), *draft.roles.ids]
    if named:
        return _with_parts(draft, (named[0], *find_clock(table, named[0], taken, draft.ids)))
    columns, ambiguous = find_times(table, source, taken, draft.ids, layout.date_format)
    draft = _with_parts(draft, columns)
    return draft if ambiguous is None else draft.flawed(ambiguous)


def _with_parts(draft: Draft, columns: Sequence[str]) -> Draft:
    """Return the draft with its time in these columns, and a note if several were found."""
    draft = replace(draft, time_column=columns[0])
    if len(columns) == 1:
        return draft
    time_format = replace(draft.reading.time_format, columns=tuple(columns))
    note = f"the time is in {len(columns)} columns ({list_word('data.time_columns', columns)})"
    return replace(draft, reading=replace(draft.reading, time_format=time_format)).noted("columns", [note])


def without_empty_rows(draft: Draft) -> Draft:
    """Return the draft with row numbers and without blank rows."""
    table = draft.table
    first, _ = draft.table.attrs.get(ORIGIN, (2, ()))
    draft = replace(draft, rows=np.arange(first, len(table) + first))
    empty = table.isna().all(axis=1).to_numpy()
    if not empty.any():
        return draft
    trailing = int(np.argmin(empty[::-1]))  # blank rows at the end are not reported
    inside = int(empty.sum()) - trailing
    draft = replace(draft, table=table.loc[~empty], rows=draft.rows[~empty])
    return draft.noted("rows", [f"{inside} blank rows were left out"] if inside else [])


def without_counting_columns(draft: Draft) -> Draft:
    """Return the draft without columns that say nothing, such as a row counter, unless the targets are named."""
    if draft.roles.targets is not None:
        return draft
    times = draft.reading.time_format.columns or (draft.time_column,)
    table, notes = without_counters(draft.table, [*times, *draft.roles.covariates, *draft.ids])
    return replace(draft, table=table).noted("columns", notes)


def with_joined_parts(draft: Draft) -> Draft:
    """Return the draft with the parts of its times in one column, and the format that acts on it."""
    acting = draft.reading.time_format.acting_on(draft.table[draft.time_column])
    if acting.columns is None:
        return replace(draft, reading=replace(draft.reading, time_format=acting))
    series = draft.series if acting.zone is not None else None
    table, name, time_format, notes = join_parts(draft.table, acting, draft.rows, draft.source, series)
    reading = replace(draft.reading, time_format=time_format)
    return replace(draft, table=table, time_column=name, reading=reading).noted("columns", notes)


def with_chosen_columns(draft: Draft) -> Draft:
    """Return the draft with the columns of the series chosen."""
    covariates, time_column, source = draft.roles.covariates, draft.time_column, draft.source
    if time_column in covariates:
        raise InputError(
            f"{source}: {time_column!r} is the time column, not a covariate: its calendar is always an input"
        )
    check_present(covariates, list(draft.table.columns), source, f"{PAST} or {KNOWN}")
    check_present(draft.roles.ids, list(draft.table.columns), source, "data.id_columns")
    if time_column in draft.roles.ids:
        raise InputError(f"{source}: {time_column!r} is the time column, not an id: correct data.id_columns")
    others = [time_column, *draft.roles.ids, *(draft.roles.fixed or ())]
    region = [name for name in (draft.reading.region,) if name is not None and name not in covariates]
    chosen = _choose(draft.table, [*others, *region], draft.roles.columns, source)
    unused = [name for name in draft.table.columns if name not in (*others, *chosen)]
    return replace(draft, chosen=chosen, unused=unused)


def with_times(draft: Draft) -> Draft:
    """Return the draft with its times parsed."""
    column, time_format = draft.table[draft.time_column], draft.reading.time_format
    where = f"{draft.source}, column {draft.time_column!r}"
    series = draft.series if time_format.zone is not None else None
    times, read_as, notes = read_times(column, draft.rows, where, time_format, series=series)
    return replace(draft, times=times, time_format=read_as, notes={**draft.notes, "times": notes})


def with_snapped_times(draft: Draft) -> Draft:
    """Return the draft with its times moved to the step `data.snap`, and a note."""
    snap = draft.reading.resampling.snap
    if snap is None:
        return draft
    times, notes = snapped(draft.times, snap, draft.rows, draft.source, checked=not draft.roles.ids)
    return replace(draft, times=times).noted("times", notes)


def with_marks_as_empty(draft: Draft) -> Draft:
    """Return the draft with `data.missing_values` as empty cells, and a note if any cell changed."""
    values, table = draft.reading.policies.missing_values, draft.table
    if not values:
        return draft
    marks = {name: holds_mark(table[name], values) for name in draft.chosen}
    if not (count := sum(int(mark.sum()) for mark in marks.values())):
        return draft
    table = table.copy(deep=False)
    for name, mark in marks.items():
        if mark.any():
            table[name] = table[name].mask(mark)
    note = f"{count} cells hold {shown_marks(values)} and count as empty (data.missing_values)"
    return replace(draft, table=table).noted("marks", [note])


def with_series_merged(draft: Draft) -> Draft:
    """Return the draft with the columns that identify series which are merged; refuse another long table."""
    joined = draft.reading.time_format.columns is not None
    panel = find_panel(draft.table, draft.times, draft.time_column, draft.targets, joined=joined)
    if panel is None:
        return draft
    how = draft.reading.merges_by
    if how is None or set(panel.columns) & set(draft.chosen):
        raise InputError(f"{draft.source} {panel}: {panel.advice}")
    names = " and ".join(map(repr, panel.columns))
    note = f"{panel.count:,} series, identified by {names}, were merged into one by the {how} at each time"
    return replace(draft, merged=panel.columns).noted("panel", [note])


def with_labels(draft: Draft) -> Draft:
    """Return the draft with numbers in its covariates, and a note on text that counts as labels without being named."""
    roles = draft.roles
    table, labels = encode_covariates(
        draft.table, draft.others, roles.categorical, draft.rows, draft.source, roles.numeric
    )
    read = [(name, seen) for name, seen in labels.items() if name not in roles.categorical]
    notes = [f"{name!r} holds text and is read as {counted(len(seen), 'label')}" for name, seen in read]
    return replace(draft, table=table, labels=labels).noted("rows", notes)


def with_last_rows(draft: Draft) -> Draft:
    """Return the draft with the last rows by time, as many as the reading keeps, and a note on the others."""
    count, times, reading = draft.reading.last_rows, draft.times, draft.reading
    if count is None or (count > len(times) and reading.fewer_allowed):
        return draft
    left_out = len(times) - count
    if left_out < 0:
        raise InputError(
            f"{draft.source}: data.last_rows={count}: the table has {len(times):,} rows: lower it, or set null"
        )
    kept = np.zeros(len(times), dtype=bool)
    kept[np.argsort(times.asi8, kind="stable")[-count:]] = True
    rows = "the first row was" if left_out == 1 else f"the first {left_out:,} rows were"
    note = f"{rows} left out: data.last_rows={count} begins at {times[kept].min()}"
    return draft.kept(kept).noted("rows", [note] if left_out else [])


def numbers_of(draft: Draft, *, empty_allowed: bool = False) -> tuple[np.ndarray, list[Flaw]]:
    """Return the values (N, C) of the chosen columns, and the flaws of their cells."""
    labels, reading = draft.labels, draft.reading
    with_empty = [name for name in labels if labels[name]] if reading.empty_labels is None else reading.empty_labels
    return to_numbers(
        draft.table[draft.chosen],
        draft.rows,
        draft.source,
        empty_allowed=empty_allowed or reading.policies.fills,
        needed=draft.roles.columns or draft.roles.covariates,
        covariates=draft.others,
        numeric=draft.roles.numeric,
        may_be_empty=with_empty,
        marks=reading.policies.missing_values,
    )


def _choose(table: pd.DataFrame, others: Sequence[str], columns: Sequence[str] | None, source: str) -> list[str]:
    """Return the columns of the series; the `others` are the time column and those that identify series."""
    if columns is None:
        chosen = [name for name in table.columns if name not in others]
        if not chosen:
            names = " and ".join(map(repr, others))
            raise InputError(f"{source} has no column besides {names}: add the values to forecast")
        return chosen
    chosen = [str(name) for name in columns]
    check_present(chosen, list(table.columns), source, f"data.targets, {PAST} or {KNOWN}")
    if others[0] in chosen or len(set(chosen)) < len(chosen) or not chosen:
        raise InputError(
            f"{source}: columns {chosen} are empty, repeat a column or include the time column: "
            "correct data.targets or the covariates"
        )
    return chosen


def check_present(wanted: Sequence[str], names: list[str], source: str, key: str) -> None:
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
