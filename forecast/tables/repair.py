"""Repairs of a series: duplicate times and missing values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.tables.flaws import Flaw
from forecast.tables.marks import Mark, check_marks
from forecast.tables.times.frequency import grid_places, refuse_gaps, whole_grid

DUPLICATES = ("error", "mean", "first", "last")
MISSING = ("error", "ffill", "interpolate", "mask")


@dataclass(frozen=True)
class Policies:
    """The repairs of a table.

    Parameters
    ----------
    duplicates
        Rows with the same time: "error" refuses them; "mean", "first" and "last" merge their values, column by
        column, in the order of the file.
    missing
        Absent rows and empty cells: "error" refuses them; "ffill" repeats the last value; "interpolate" is linear in
        time, and repeats the last value at the end; "mask" fills like "ffill" for the baselines and the linear path,
        and with the mean of the window for the encoder-decoder. In `model=informer` attention skips a step without
        any value.
    missing_values
        Numbers and texts that count as an empty cell in every column, such as -9999 and "M".
    """

    duplicates: str = "error"
    missing: str = "error"
    missing_values: Sequence[Mark] = ()

    def __post_init__(self) -> None:
        for key, choices in (("duplicates", DUPLICATES), ("missing", MISSING)):
            value = getattr(self, key)
            if value not in choices:
                raise InputError(f"data.{key}={value}: choose {', '.join(choices[:-1])} or {choices[-1]}")
        check_marks(self.missing_values)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Policies":
        """Return the policies of a `data` group or of a manifest's data."""
        values = data.get("missing_values") or ()
        return cls(data["duplicates"], data["missing"], tuple(values))

    def facts(self) -> dict[str, Any]:
        """Return the policies as plain values; `missing_values` only if not empty."""
        named = {"missing_values": list(self.missing_values)} if self.missing_values else {}
        return {"duplicates": self.duplicates, "missing": self.missing, **named}

    @property
    def fills(self) -> bool:
        """Whether missing values are filled."""
        return self.missing != "error"

    @property
    def reads_past_gaps(self) -> bool:
        """Whether a fill depends on the value after its gap."""
        return self.missing == "interpolate"

    @property
    def masks_past(self) -> bool:
        """Whether the model gets the mask of filled values in its context."""
        return self.missing == "mask"


STRICT = Policies()
"""Policies that refuse duplicates and missing values."""


LARGE_LOSS = 0.2
"""Share of the rows from which a note says how to keep those that a late column leaves out."""

Rows = tuple[pd.DatetimeIndex, np.ndarray, np.ndarray]
"""Times, values (N, C), and row numbers (N,) as a spreadsheet shows them."""


def one_row_a_time(
    table: Rows, how: str, source: str, time_column: str, codes: Sequence[int] = ()
) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows sorted by time, one per time, and notes on the changes.

    Empty cells are NaN. `how` is "mean", "first" or "last" of the present values, column by column in file order;
    "error" refuses duplicate times. A merged row keeps the first row number. The columns at the places `codes` are
    labels, which have no mean: the first counts.
    """
    times, values, rows = table
    stamps = times.asi8
    late = int((stamps < np.maximum.accumulate(stamps)).sum())
    notes = (f"{counted(late, 'row')} out of order: sorted by {time_column}",) if late else ()
    if late:  # a sorted table is not copied
        order = np.argsort(stamps, kind="stable")
        times, values, rows = times[order], values[order], rows[order]
    repeated = np.diff(times.asi8) == 0  # row n + 1 has the time of row n
    if not repeated.any():
        return (times, values, rows), notes
    if how == "error":
        place = int(np.argmax(repeated))
        raise Flaw(
            source,
            f", rows {rows[place]} and {rows[place + 1]}",
            f"both are at {times[place]} ({int(repeated.sum())} duplicate times in total)",
            "keep one row per time, or train with data.duplicates=mean, first or last",
            DOUBLED_WORD,
            count=int(repeated.sum()),
            unit="doubled row",
        )
    starts = np.flatnonzero(np.concatenate([[True], ~repeated]))
    merged = merge_rows(values, starts, how, codes)
    doubled = int((np.diff(starts, append=len(times)) > 1).sum())
    merging = f"{doubled + int(repeated.sum()):,} rows were merged into {doubled:,} (data.duplicates={how})"
    note = f"{counted(doubled, 'time')} had several rows: {merging}"
    return (times[starts], merged, rows[starts]), (*notes, note)


DOUBLED_WORD = "data.duplicates=mean"
"""Option that accepts several rows at a time."""


def merge_rows(values: np.ndarray, starts: np.ndarray, how: str, codes: Sequence[int] = ()) -> np.ndarray:
    """Return one row per group of rows (N, C), which begin at `starts`, as `one_row_a_time` merges them."""
    rules = ["first" if how == "mean" and place in codes else how for place in range(values.shape[1])]
    return merge_columns(values, starts, rules)


def merge_columns(values: np.ndarray, starts: np.ndarray, rules: Sequence[str]) -> np.ndarray:
    """Return one row per group of rows (N, C), which begin at `starts`: mean, sum, first or last of each column."""
    return np.column_stack([_merge(column, starts, rule) for column, rule in zip(values.T, rules, strict=True)])


def _merge(column: np.ndarray, starts: np.ndarray, how: str) -> np.ndarray:
    """Return one value per group of rows, which begin at `starts`; NaN for a group without values."""
    seen = ~np.isnan(column)
    if how in ("mean", "sum"):
        total = np.add.reduceat(np.where(seen, column, 0.0), starts)
        count = np.add.reduceat(seen.astype(np.int64), starts)
        return np.where(count > 0, total / (np.maximum(count, 1) if how == "mean" else 1), np.nan)
    place = np.arange(len(column))
    if how == "first":
        chosen = np.minimum.reduceat(np.where(seen, place, len(column)), starts)
        present = chosen < len(column)
    else:
        chosen = np.maximum.reduceat(np.where(seen, place, -1), starts)
        present = chosen >= 0
    return np.where(present, column[np.where(present, chosen, 0)], np.nan)


class Filled(NamedTuple):
    """A complete table: `times` (N,) and `values` (N, C).

    `observed` (N, C) is False where a value was filled, None if no value was; `notes` describe the changes.
    """

    times: pd.DatetimeIndex
    values: np.ndarray
    observed: np.ndarray | None
    notes: tuple[str, ...] = ()


def whole_table(
    table: Rows,
    how: str,
    *,
    columns: list[str],
    frequency: str,
    source: str,
    codes: Mapping[int, float],
    held: Collection[int],
    kept_rows: int,
) -> Filled:
    """Return the table with a row for every time of the grid and a value in every cell.

    The input is sorted by unique times, NaN in empty cells. Leading rows are left out until every column has had a
    value, since only later values could fill them. The last `kept_rows` rows stay: a column has its first value before
    it. `how` is "ffill" or "mask" (the last value), "interpolate" (linear in time, the last value at the end) or
    "error" (refuses gaps; the input must have no empty cell). The columns at the places `held` are not interpolated but
    repeat the last value. The columns at the places `codes` are labels: a missing row repeats the last one, or has the
    label of that number, not NaN, if it has occurred before.
    """
    times, values, rows = table
    places = grid_places(times, frequency, rows, source)
    if how == "error":
        refuse_gaps(times, places, frequency, rows, source)
        return Filled(times, values, None)
    _refuse_mostly_missing(times, places, frequency, rows, source)
    absent = np.ones(int(places[-1]) + 1, dtype=bool)
    absent[places] = False
    if absent.any():
        times, present = whole_grid(times, places, frequency), values
        values = np.full((len(absent), len(columns)), np.nan)
        values[places] = present
    observed = ~np.isnan(values)
    start, notes = _start(times, observed, columns, source, kept_rows)
    for place in np.flatnonzero(~observed.all(0)):
        fill = _line if how == "interpolate" and place not in codes and place not in held else _last
        repeated = fill(values[:, place], observed[:, place], times)
        label = codes.get(int(place), np.nan)
        after = np.maximum.accumulate(values[:, place] == label)  # later rows have no say
        values[:, place] = np.where(~observed[:, place] & after, label, repeated)
    times, values, observed, absent = times[start:], values[start:], observed[start:], absent[start:]
    if observed.all():
        return Filled(times, values, None, notes)
    partial = int((~observed.all(1) & ~absent).sum())
    return Filled(times, values, observed, (*notes, filled_note(int(absent.sum()), partial, observed, how)))


def filled_note(absent: int, partial: int, observed: np.ndarray, how: str) -> str:
    """Return the line on absent rows, and on rows with empty cells, that were filled."""
    kinds = [(absent, "missing row", ""), (partial, "row", " with empty cells")]
    rows = " and ".join(counted(count, what) + more for count, what, more in kinds if count)
    return f"{rows} filled (data.missing={how}): {int((~observed).sum()):,} of {observed.size:,} values"


def _refuse_mostly_missing(
    times: pd.DatetimeIndex, places: np.ndarray, frequency: str, rows: np.ndarray, source: str
) -> None:
    """Raise a flaw for a mostly empty grid before it is built: one mistyped date can take any amount of memory."""
    steps = np.diff(places)
    missing = int(steps.sum()) - len(steps)
    if missing <= len(places):
        return
    widest = int(steps.argmax())
    raise Flaw(
        source,
        f", row {rows[widest + 1]}",
        f"{times[widest + 1]} is {steps[widest]} steps of {frequency} after {times[widest]} in row {rows[widest]}; "
        f"{missing} rows are missing and {len(places)} are present",
        "correct the date, or train with data.resample and a longer step",
    )


def _start(
    times: pd.DatetimeIndex, observed: np.ndarray, columns: list[str], source: str, kept_rows: int
) -> tuple[int, tuple[str, ...]]:
    """Return the first row at which every column has had a value, or of the last `kept_rows`, with a note if not 0."""
    some = observed.any(0)
    if not some.all():
        name = columns[int(np.argmin(some))]
        raise InputError(
            f"{source}, column {name!r}: has no value in any row: leave it out of data.targets or the covariates"
        )
    first = observed.argmax(0)
    start = min(int(first.max()), max(0, len(times) - kept_rows))
    if not start:
        return 0, ()
    name = columns[int(first.argmax())]
    note = f"the first {start} rows were left out: {name!r} has no value before {times[int(first.max())]}"
    share = start / len(times)
    more = f" ({share:.0%} of the table: a run without this column keeps them)".replace("%", " %")
    is_large = share >= LARGE_LOSS and not kept_rows  # kept rows are those of a forecast
    return start, (note + more * is_large,)


def _last(column: np.ndarray, seen: np.ndarray, times: pd.DatetimeIndex) -> np.ndarray:
    """Return the last value at or before each time, and the first value before that."""
    return np.asarray(column[np.maximum.accumulate(np.where(seen, np.arange(len(seen)), seen.argmax()))])


def _line(column: np.ndarray, seen: np.ndarray, times: pd.DatetimeIndex) -> np.ndarray:
    """Interpolate linearly over each gap; constant before the first and after the last value."""
    since = (times.asi8 - times.asi8[0]).astype(np.float64)
    return np.where(seen, column, np.interp(since, since[seen], column[seen]))
