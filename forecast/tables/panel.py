"""Panels: many series in one long table, each identified by one or several columns."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted, is_plain
from forecast.tables.draft import Draft, check_present
from forecast.tables.flaws import Flaw, refuse, refuse_first
from forecast.tables.labels import decode_labels, encode_covariates, label_of
from forecast.tables.numbers import has_value, to_numbers
from forecast.tables.repair import DOUBLED_WORD, Filled, filled_note, merge_columns, merge_rows
from forecast.tables.times.buckets import Buckets, into_buckets
from forecast.tables.times.frequency import grid_places, ways_to_fill, whole_grid
from forecast.tables.times.irregular import find_step
from forecast.tables.times.zones import with_zone_proposed

NAMED = 3
"""Series that a message names."""

REGION = "data.holidays_column"
"""Option of the column that names the region of each series."""

Id = tuple[str, ...]
"""An id: the label of a series in each id column."""


@dataclass(frozen=True)
class Ids:
    """The series of a panel, in the order of their rows.

    Parameters
    ----------
    columns
        The columns that identify a series.
    names
        The id of each of the S series.
    offsets
        Shape (S + 1,): the first row of each series, and the number of rows.
    steps
        Shape (S,): the place of each first row on the common grid of times, which begins at 0.
    padding
        Number of rows before each series, which repeat its first one.
    empty
        Ids in the table that have no target value, and so no row here.
    left_out
        Lines on series that a forecast leaves out, for lack of rows.
    static
        The static covariates, a row for each series: float64, or labels as text; an empty cell is NaN.
    regions
        The region of each series, named as its column, over the row of the table where it was read; None: none is.
    """

    columns: tuple[str, ...]
    names: tuple[Id, ...]
    offsets: np.ndarray = field(repr=False)
    steps: np.ndarray = field(repr=False)
    padding: int = 0
    empty: tuple[Id, ...] = ()
    left_out: tuple[str, ...] = ()
    static: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    regions: pd.Series | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of rows of each series, (S,), with its padding."""
        return np.asarray(np.diff(self.offsets))

    @property
    def first_rows(self) -> np.ndarray:
        """The first row of each series after its padding, (S,)."""
        return self.offsets[:-1] + self.padding

    def rows_of(self, step: int) -> np.ndarray:
        """Return the row of each series at a place on the common grid, (S,), also before and after its rows."""
        return np.asarray(self.offsets[:-1] + step - self.steps)

    @cached_property
    def of_rows(self) -> np.ndarray:
        """The series of each row, (N,)."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    @property
    def steps_of_rows(self) -> np.ndarray:
        """The place of each row on the common grid of times, (N,)."""
        return rows_between(self.steps, self.steps + self.lengths, np.int32)

    @property
    def num_steps(self) -> int:
        """Number of steps from the earliest to the latest time."""
        return int((self.steps + self.lengths).max())

    def shown(self, place: int) -> str:
        """Return the id at a place for a message: "store '17'"."""
        return shown_id(self.columns, self.names[place])

    def only(self, places: np.ndarray) -> "Ids":
        """Return the series at rising places alone, whose rows follow one another."""
        return self.at(places, self.lengths[places], self.steps[places])

    def at(self, places: np.ndarray, lengths: np.ndarray, steps: np.ndarray) -> "Ids":
        """Return the series at rising places alone, with these numbers of rows (n,) and places of first rows (n,)."""
        return replace(
            self,
            names=tuple(self.names[place] for place in places),
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            steps=steps - int(steps.min()),
            static=self.static.iloc[places],
            regions=None if self.regions is None else self.regions.iloc[places],
        )

    def frame(self, places: np.ndarray) -> pd.DataFrame:
        """Return the ids at places (n,) as columns of text."""
        labels = np.array(self.names, dtype=object).reshape(len(self), len(self.columns))
        return pd.DataFrame(labels[places], columns=list(self.columns))

    def described(self, places: np.ndarray) -> pd.DataFrame:
        """Return the ids at places (n,) as columns of text, their static covariates and their regions."""
        static = self.static.iloc[places].reset_index(drop=True)
        found = pd.concat([self.frame(places), static], axis=1)
        return found if self.regions is None else found.assign(**{str(self.regions.name): self.regions.array[places]})


def rows_between(first: np.ndarray, stop: np.ndarray, kind: type[np.integer] = np.int64) -> np.ndarray:
    """Return the numbers from `first` (S,) to before `stop` (S,) of each series, one series after the other."""
    some = first < stop
    first, stop = first[some], stop[some]
    numbers = np.ones(int((stop - first).sum()), dtype=kind)  # the sum of what each is after the one before it
    numbers[:1] = first[:1]
    numbers[np.cumsum(stop - first)[:-1]] = first[1:] - stop[:-1] + 1
    return np.cumsum(numbers, out=numbers)


def shown_id(columns: Sequence[str], labels: Id) -> str:
    """Return an id for a message."""
    return ", ".join(f"{name} {label!r}" for name, label in zip(columns, labels, strict=True))


def first_of(named: Sequence[str]) -> str:
    """Return the first of many series for a message."""
    return f"{'; '.join(named[:NAMED])}{' …' if len(named) > NAMED else ''}"


@dataclass(frozen=True)
class Coded:
    """The id of each row of a draft: `codes` (N,) are places in `names`, which are sorted."""

    columns: tuple[str, ...]
    codes: np.ndarray
    names: tuple[Id, ...]

    def shown(self, code: int) -> str:
        """Return the id of a code for a message."""
        return shown_id(self.columns, self.names[code])

    def at(self, kept: np.ndarray) -> "Coded":
        """Return the ids of the rows where a mask is true."""
        return self if kept.all() else replace(self, codes=self.codes[kept])


def read_ids(table: pd.DataFrame, columns: Sequence[str], rows: np.ndarray, source: str, what: str = "id") -> Coded:
    """Return the ids of the rows, sorted as numbers if all are whole numbers, else as text.

    An id is read as text, so that 7 is the same id in a file of numbers and in one of text. `what` is its
    name in messages.
    """
    read = [_read_labels(table[name], rows, f"{source}, column {name!r}", what) for name in columns]
    codes_of, labels = [codes for codes, _ in read], [names for _, names in read]
    shape, joined = [len(names) for names in labels], codes_of[0]
    for codes, count in zip(codes_of[1:], shape[1:], strict=True):
        joined = joined.astype(np.int64) * count + codes
    if (size := prod(shape)) <= len(joined):  # a table of them is faster than a sort of the rows
        present = np.flatnonzero(np.bincount(joined, minlength=size))
        place: np.ndarray = np.searchsorted(present, np.arange(size)).astype(np.int32)[joined]
    else:
        present, place = np.unique(joined, return_inverse=True)
    parts = zip(labels, np.unravel_index(present, shape), strict=True)
    ids = zip(*([names[code] for code in codes] for names, codes in parts), strict=True)
    return Coded(tuple(columns), place, tuple(ids))


def _read_labels(column: pd.Series, rows: np.ndarray, where: str, what: str) -> tuple[np.ndarray, list[str]]:
    """Return the place of each row's label, (N,), and the sorted labels; refuse empty ones."""
    codes, values = pd.factorize(column)
    names = [label_of(value) for value in values]  # of each value once, not of each row
    empty = (codes < 0) | np.array([not label for label in names] + [True])[codes]
    cure = "fill it in, or delete the rows"
    refuse_first(empty, rows, where, lambda _, count: f"no {what} ({counted(count, 'such row')}): {cure}")
    if bad := [label for label in names if not is_plain(label)]:
        problem = f"the {what} {bad[0]!r} has control characters: correct it"
        refuse_first(codes == names.index(bad[0]), rows, where, lambda *_: problem)
    merged = {label: number for number, label in enumerate(sorted(set(names), key=_sort_key))}
    return np.array([merged[label] for label in names], dtype=np.int32)[codes], list(merged)


def sorted_ids(names: Iterable[Id]) -> list[Id]:
    """Return ids in the order in which `read_ids` has them."""
    return sorted(names, key=lambda name: [_sort_key(label) for label in name])


def _sort_key(label: str) -> list[tuple[int, int, str]]:
    """Return a key by which s2 comes before s10."""
    parts = _DIGITS.split(label)
    return [(0, int(part), part) if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts]


_DIGITS = re.compile(r"([0-9]{1,18})")


@dataclass(frozen=True)
class Piece:
    """Rows of a panel, sorted by series and time, one for each series and time.

    `values` (N, C) have NaN in empty cells, `rows` (N,) are the row numbers of a spreadsheet.
    """

    codes: np.ndarray
    times: pd.DatetimeIndex
    values: np.ndarray
    rows: np.ndarray

    @property
    def repeats(self) -> np.ndarray:
        """Which rows but the first have the series and time of the row before, (N - 1,)."""
        return np.asarray((np.diff(self.codes) == 0) & (np.diff(self.times.asi8) == 0))

    def at(self, kept: np.ndarray) -> "Piece":
        """Return the rows at places or where a mask is true."""
        return Piece(self.codes[kept], self.times[kept], self.values[kept], self.rows[kept])


def sorted_rows(draft: Draft, coded: Coded, values: np.ndarray) -> tuple[Piece, tuple[str, ...]]:
    """Return the rows by series and time, and a note if doubled rows were merged; refuse them if they may not be."""
    piece = Piece(coded.codes, draft.times, values, draft.rows)
    later, ahead = np.diff(coded.codes), np.diff(draft.times.asi8)
    if ((later < 0) | ((later == 0) & (ahead < 0))).any():
        piece = piece.at(np.lexsort((draft.times.asi8, coded.codes)))
    same = piece.repeats
    if not same.any():
        return piece, ()
    how, doubled = draft.reading.policies.duplicates, int(same.sum())
    if how == "error":
        place = int(np.argmax(same))
        flaw = Flaw(
            draft.source,
            f", rows {piece.rows[place]} and {piece.rows[place + 1]}",
            f"both are {coded.shown(piece.codes[place])} at {piece.times[place]} "
            f"({counted(doubled, 'doubled row')} in total)",
            "keep one row for each id and time, or train with data.duplicates=mean, first or last",
            DOUBLED_WORD,
            count=doubled,
            unit="doubled row",
        )
        raise with_zone_proposed(flaw, pd.DatetimeIndex(piece.times[1:][same]).repeat(2), draft.time_column)
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    merged = merge_rows(piece.values, starts, how, list(draft.label_places.values()))
    note = f"{counted(doubled, 'doubled row')} of an id and time {'was' if doubled == 1 else 'were'} merged"
    return replace(piece.at(starts), values=merged), (f"{note} (data.duplicates={how})",)


def usable_rows(draft: Draft, coded: Coded) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return masks (N,) of the rows from the first to the last target value of each id, of those after, and notes.

    With known covariates, those after have all rows of the bucket of the last value, which may be of the future.
    """
    measured, times, codes = has_value(draft.table, draft.targets), draft.times.asi8, coded.codes
    limits = np.iinfo(np.int64)
    first, last = np.full(len(coded.names), limits.max), np.full(len(coded.names), limits.min)
    np.minimum.at(first, codes[measured], times[measured])
    np.maximum.at(last, codes[measured], times[measured])
    inside = (times >= first[codes]) & (times <= last[codes])
    ahead = (times > last[codes]) & (first <= last)[codes]
    notes = []
    if ahead.any():
        series = len(np.unique(codes[ahead]))
        notes.append(
            f"{counted(int(ahead.sum()), 'row')} of {series:,} series come after the last target value of their id: "
            "its forecast begins there"
        )
    if early := int(((times < first[codes]) & (first <= last)[codes]).sum()):
        notes.append(f"{counted(early, 'row')} before the first target value of their id were left out")
    resample = draft.reading.resampling.resample
    if resample is not None and draft.roles.known and ahead.any():
        numbers = Buckets.of(draft.times, resample).numbers
        ends = pd.Series(numbers[inside]).groupby(codes[inside]).max()
        ahead = numbers >= ends.reindex(range(len(coded.names)), fill_value=limits.max).to_numpy()[codes]
    return inside, ahead, tuple(notes)


def last_rows_of_each(draft: Draft, coded: Coded) -> tuple[Draft, Coded]:
    """Return the last rows of each id by time, as many as the reading keeps, and notes on the others.

    As in a table without the others, a series begins with a row that has a target value.
    """
    count, codes = draft.reading.last_rows, coded.codes
    if count is None:
        return draft, coded
    lengths = np.bincount(codes, minlength=len(coded.names))
    if count > lengths.max() and not draft.reading.fewer_allowed:
        raise InputError(
            f"{draft.source}: data.last_rows={count}: the longest series has {lengths.max():,} rows: lower it, or set "
            "null"
        )
    order = np.lexsort((draft.times.asi8, codes))
    before_end = np.cumsum(lengths)[codes[order]] - np.arange(len(codes))
    kept = np.zeros(len(codes), dtype=bool)
    kept[order[before_end <= count]] = True
    left_out, series = int((~kept).sum()), int((lengths > count).sum())
    note = f"the first {counted(left_out, 'row')} of {series:,} series left out: data.last_rows={count}"
    draft, coded = draft.kept(kept).noted("rows", [note] if left_out else []), coded.at(kept)
    begun, _, early = usable_rows(draft, coded)
    return draft.kept(begun).noted("rows", early), coded.at(begun)


def panel_step(draft: Draft, piece: Piece, coded: Coded) -> tuple[Piece, str, tuple[str, ...]]:
    """Return the rows, the step of the series with the most rows, or the one that is named, and notes on it."""
    step, fills = draft.reading.step, draft.reading.policies.fills
    longest = int(np.bincount(piece.codes).argmax())
    own, where = piece.codes == longest, f"{draft.source}, {coded.shown(longest)}"
    found = find_step(piece.times[own], step, piece.rows[own], where, fills=fills, gaps_allowed=True)
    if not found.by_day:
        return piece, found.step, found.notes
    days = replace(piece, times=piece.times.normalize())
    if days.repeats.any():
        place = int(np.argmax(days.repeats))
        raise InputError(
            f"{draft.source}, rows {piece.rows[place]} and {piece.rows[place + 1]}: both are "
            f"{coded.shown(piece.codes[place])} on {days.times[place]:%Y-%m-%d}, others have one row a day: "
            "keep one row a day, or train with data.resample=1D"
        )
    return days, found.step, found.notes


def buckets_of_panel(piece: Piece, draft: Draft) -> tuple[Piece, tuple[str, ...]]:
    """Return one row for each series and complete bucket, and notes; the rows themselves without `data.resample`."""
    resampling = draft.reading.resampling
    if resampling.resample is None or not len(piece.codes):
        return piece, ()
    borders = np.append(np.flatnonzero(np.diff(piece.codes, prepend=-1)), len(piece.codes))
    firsts, starts, kept, used = [], [], np.zeros(len(piece.codes), dtype=bool), 0
    for begin, end in pairwise(borders.tolist()):
        found = into_buckets(piece.times[begin:end], resampling.resample)
        low = int(found.firsts[0])
        kept[begin + low : begin + found.stop] = True
        firsts.append(found.firsts - low + used)
        starts.append(found.starts)
        used += found.stop - low
    places, rows = np.concatenate(firsts), piece.at(kept)
    values = merge_columns(rows.values, places, resampling.rules(draft.chosen, list(draft.labels)))
    became = f"{counted(len(places), 'bucket')} of {resampling.resample} (data.resample)"
    notes = [f"{len(rows.codes):,} rows became {became}"]
    if not kept.all():
        notes.append(f"{counted(int((~kept).sum()), 'row')} in buckets that are not complete were left out")
    times = pd.DatetimeIndex(starts[0].append(starts[1:]))
    return Piece(rows.codes[places], times, values, rows.rows[places]), tuple(notes)


def steps_of(piece: Piece, coded: Coded, frequency: str, source: str) -> tuple[np.ndarray, pd.DatetimeIndex]:
    """Return the place of each row on the common grid of times, and that grid; refuse a series with another step."""
    seen, values = pd.factorize(piece.times.asi8, sort=True)  # few times of many rows: faster than to sort the rows
    seen, first = seen.astype(np.int32), np.empty(len(values), dtype=np.int64)
    first[seen[::-1]] = np.arange(len(seen) - 1, -1, -1, dtype=np.int32)  # the last assignment counts
    union = piece.times[first]
    try:
        places = grid_places(union, frequency, piece.rows[first], source)
    except Flaw as flaw:
        stray = [place for place in first if flaw.where == f", row {piece.rows[place]}"]
        where = f"{flaw.where}, {coded.shown(piece.codes[stray[0]])}" if stray else flaw.where
        raise flaw.but(where=where) from None
    steps = places.astype(np.int32)[seen]
    ahead, codes, inside = np.diff(steps), piece.codes[1:], np.diff(piece.codes) == 0
    inside &= np.isin(codes, codes[inside & (ahead > 1)])  # few series of many have a gap
    gaps = pd.Series(ahead[inside]).groupby(codes[inside]).agg(["min", "size"])
    longer = gaps[(gaps["min"] > 1) & (gaps["size"] > 1)]
    if len(longer):
        raise InputError(
            f"{source}, {coded.shown(longer.index[0])}: its rows are at least {longer['min'].iloc[0]} steps of "
            f"{frequency} apart, the step of most rows ({len(longer):,} such series): bring all series to one step, or "
            "forecast them in files of their own"
        )
    return steps, whole_grid(union, places, frequency)


def on_grid(draft: Draft, coded: Coded, piece: Piece, steps: np.ndarray, grid: pd.DatetimeIndex) -> tuple[Ids, Filled]:
    """Return the series of a panel and a row for each of their steps; refuse gaps, or fill them within each series."""
    how = draft.reading.policies.missing
    borders = np.flatnonzero(np.diff(piece.codes, prepend=-1))
    used, present = piece.codes[borders], np.diff(np.append(borders, len(steps)))
    codes = np.repeat(np.arange(len(used), dtype=np.int32), present)
    first, last = steps[borders].astype(np.int64), steps[borders + present - 1]
    lengths = last - first + 1
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    absent_ids = np.setdiff1d(np.arange(len(coded.names)), used)
    names, empty = (tuple(coded.names[place] for place in places) for places in (used, absent_ids))
    ids = Ids(coded.columns, names, offsets, first, empty=empty)
    if (lengths != present).any():
        _refuse_gaps(draft, piece, ids, steps, codes, lengths - present)
    times = grid[ids.steps_of_rows]
    values = piece.values
    if len(steps) != offsets[-1]:
        values = np.full((int(offsets[-1]), piece.values.shape[1]), np.nan)
        values[(offsets[:-1] - first)[codes] + steps] = piece.values
    observed = ~np.isnan(values)
    if observed.all() or how == "error":  # then only labels may be empty
        return ids, Filled(times, values, None)
    values = np.asfortranarray(values.copy())
    held = {*map(draft.chosen.index, draft.roles.known), *draft.label_places.values()}
    for place in np.flatnonzero(~observed.all(0)):
        _refuse_empty(draft, ids, observed[:, place], int(place))
        linear = how == "interpolate" and place not in held
        values[:, place] = fill_by_series(values[:, place], observed[:, place], ids, linear=linear)
    absent = int(offsets[-1]) - len(steps)
    partial = int((~observed.all(1)).sum()) - absent
    return ids, Filled(times, values, observed, (filled_note(absent, partial, observed, how),))


def _refuse_gaps(
    draft: Draft, piece: Piece, ids: Ids, steps: np.ndarray, codes: np.ndarray, missing: np.ndarray
) -> None:
    """Raise a flaw for absent rows, unless the policy fills them and no series lacks most of its rows."""
    jumps = (np.diff(codes) == 0) & (np.diff(steps) > 1)
    mostly = missing > ids.lengths - missing
    if draft.reading.policies.fills and not mostly.any():
        return
    place = int(np.argmax(jumps & (mostly[codes[:-1]] | ~mostly.any())))
    series = int(codes[place])
    where = f", row {piece.rows[place]}, {ids.shown(series)}"
    problem = (
        f"after {piece.times[place]} the next row is {piece.times[place + 1]}, {steps[place + 1] - steps[place]:,} "
        f"steps later ({counted(int(missing[series]), 'row')} missing in this series, {int(missing.sum()):,} in "
        f"{int((missing > 0).sum()):,} of {len(ids):,} series)"
    )
    if mostly.any():
        raise Flaw(draft.source, where, problem, "correct the date, or train with data.resample and a longer step")
    cure = f"add the rows, or train with {ways_to_fill(int(missing.sum()), int((ids.lengths - missing).sum()))}"
    raise Flaw(draft.source, where, problem, cure, "data.missing=mask", count=int(missing.sum()), unit="absent row")


def _refuse_empty(draft: Draft, ids: Ids, observed: np.ndarray, place: int) -> None:
    seen = np.add.reduceat(observed, ids.offsets[:-1]) > 0
    if not seen.all():
        where, name = ids.shown(int(np.argmin(seen))), draft.chosen[place]
        raise InputError(
            f"{draft.source}, column {name!r}: has no value for {where} ({int((~seen).sum()):,} such series): leave "
            "out the column, or these series"
        )


def fill_by_series(column: np.ndarray, seen: np.ndarray, ids: Ids, *, linear: bool = False) -> np.ndarray:
    """Return a column (N,) whose gaps repeat the last value of their series, or are on a line.

    Before the first value of a series is its first value, after the last one its last. Every series has a value.
    """
    place, series = np.arange(len(column)), ids.of_rows
    before = np.maximum.accumulate(np.where(seen, place, -1))
    after = np.minimum.accumulate(np.where(seen, place, len(column))[::-1])[::-1]
    leads, trails = before < ids.offsets[:-1][series], after >= ids.offsets[1:][series]
    filled = column[np.where(leads, after.clip(max=len(column) - 1), before)]
    if linear:
        between = ~seen & ~leads & ~trails
        filled[between] = np.interp(place[between], place[seen], column[seen])
    return np.asarray(filled)


def refuse_with_ids(flaws: Sequence[Flaw], coded: Coded, rows: np.ndarray) -> None:
    """Raise one error that lists all flaws, with the id of each row that they name."""
    named = []
    for flaw in flaws:
        _, found, row = flaw.where.rpartition("row ")
        if found and row.isdecimal() and len(place := np.flatnonzero(rows == int(row))):
            flaw = flaw.but(where=f"{flaw.where}, {coded.shown(coded.codes[place[0]])}")
        named.append(flaw)
    refuse(named)


def first_cells(column: pd.Series, coded: Coded) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each id whose cell is not empty, (S,), -1 without one, and the rows that differ from it.

    Where an id has a value, an empty cell differs too.
    """
    is_plain_number = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
    values, codes = column.to_numpy() if is_plain_number else pd.factorize(column)[0], coded.codes
    present = np.flatnonzero(column.notna())[::-1]
    first = np.full(len(coded.names), -1)
    first[codes[present]] = present  # the last assignment counts, which is the first row
    own = first[codes]
    return first, np.flatnonzero((own >= 0) & (values != values[own]))


def static_column(draft: Draft, coded: Coded, name: str) -> np.ndarray:
    """Return the value of each series in a column, (S,), as numbers or as labels; refuse one that changes within an id.

    Empty cells beside a value do not count.
    """
    column, roles = draft.table[name], draft.roles
    first, others = first_cells(column, coded)
    others = others[column.iloc[others].notna().to_numpy()]
    _refuse_change(draft, coded, name, first, others, "a static covariate", "the column out of data.static_covariates")
    rows, marks = draft.rows[np.maximum(first, 0)], draft.reading.policies.missing_values
    cells = pd.DataFrame({name: pd.Series(column.array.take(first, allow_fill=True))})
    for categorical in (name in roles.categorical, True):  # text that is no number is a label
        table, labels = encode_covariates(cells, [name], [name] * categorical, rows, draft.source, roles.numeric)
        values, flaws = to_numbers(table, rows, draft.source, empty_allowed=True, covariates=[name], marks=marks)
        if not flaws:
            break
    refuse(flaws)
    return decode_labels(pd.DataFrame(values, columns=[name]), labels)[name].to_numpy()


def regions_of(draft: Draft, coded: Coded) -> pd.Series | None:
    """Return the region of each id of the table, as `Ids` has it; refuse an empty cell, and one that changes."""
    name = draft.reading.region
    if name is None:
        return None
    check_present([name], list(draft.table.columns), draft.source, REGION)
    found = read_ids(draft.table, [name], draft.rows, draft.source, "region")
    first, others = first_cells(pd.Series(found.codes), coded)
    _refuse_change(draft, coded, name, first, others, "a region", f"out {REGION}")
    return pd.Series([found.names[code][0] for code in found.codes[first]], draft.rows[first], object, name)


def _refuse_change(
    draft: Draft, coded: Coded, name: str, first: np.ndarray, others: np.ndarray, what: str, cure: str
) -> None:
    """Raise InputError if some rows, `others`, have another value than the `first` row (S,) of their id."""
    if not len(others):
        return
    row, before = int(others[0]), int(first[coded.codes[others[0]]])
    value, other = (repr(label_of(draft.table[name].iloc[place])) for place in (row, before))
    raise InputError(
        f"{draft.source}, column {name!r}, row {draft.rows[row]}: {value} of {coded.shown(coded.codes[row])} is "
        f"{other} in row {draft.rows[before]}: {what} has one value for each id: correct it, or leave {cure}"
    )
