"""Parsing of times in a usual form: the column that holds them, and their order of day and month, without guessing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import Choice, Flaw, refuse_first, value_word
from forecast.tables.times.forms import (
    CONVERTED,
    EPOCHS,
    EXCEL,
    LEAST_ROWS,
    TAKEN_AS_DATES,
    UTC,
    YEAR_FIRST,
    YEAR_LAST,
    ZONE_AT_END,
    first_form,
    format_word,
    holds_times,
    is_a_day_a_row,
    is_unread,
    parse_by_parts,
    patterns_of,
    read_as,
    to_text,
)
from forecast.tables.times.numbered import read_numbers
from forecast.tables.times.time_format import PLAIN, TimeFormat

FEW_LATE = 0.05
"""Largest share of rows out of order, and of those before, at which swapped days and months are accepted."""
_ENDS_IN_ZONE = r":\d{2}(?:[.]\d+)? ?(?:Z|[+-]\d{2}(?::?\d{2})?)$"  # not the day of 2016-07-01
_NAMES_OF_UTC = ("UTC", "GMT")
_FIRST, _LAST = pd.Timestamp("1678-01-01"), pd.Timestamp("2262-01-01")  # the range of 64-bit nanoseconds
CURE = "write dates as 2016-07-01 00:00:00"


def choice_of_format(problem: str, formats: Sequence[str]) -> Choice:
    """Return the refusal of dates that several formats can read."""
    words = " or ".join(map(format_word, formats))
    return Choice(f"{problem}: {CURE}, or set {words}", [{"date_format": pattern} for pattern in formats])


def find_time_column(table: pd.DataFrame, source: str, date_format: str | None = None) -> tuple[str, Flaw | None]:
    """Return the name of the column that holds dates, of this format if it is set; numbers never count as dates.

    If several columns hold dates, return the `finest_column`, and a flaw.
    """
    candidates = [str(name) for name in table.columns if holds_times(table[name], date_format)]
    if candidates:
        return finest_column(table, candidates, source)
    names = ", ".join(map(repr, list(table.columns)[:12]))
    if date_format is not None:
        raise InputError(
            f"{source}: no column holds dates of data.date_format={date_format} (its columns: {names}): correct it, or "
            "set data.time_column"
        )
    cure = f"{CURE}, or set data.date_format or data.time_column"
    raise InputError(f"{source}: no column holds dates (its columns: {names}): {cure}")


def finest_column(table: pd.DataFrame, names: Sequence[str], source: str) -> tuple[str, Flaw | None]:
    """Return the column of dates with the most distinct cells, and a flaw if there are several."""
    if len(names) == 1:
        return names[0], None
    finest = max(names, key=lambda name: table[name].nunique())
    problem, cure = f"{', '.join(map(repr, names))} all hold dates", "set data.time_column to one of them"
    return finest, Flaw(source, "", problem, cure, value_word("data.time_column", finest))


def parse_times(
    column: pd.Series, rows: np.ndarray, where: str, time_format: TimeFormat = PLAIN
) -> tuple[pd.DatetimeIndex, TimeFormat, tuple[str, ...]]:
    """Return the times of the column in nanoseconds, in row order, the format, and notes on how they were read.

    `column` holds strings, dates or datetimes; strings, and numbers such as 20160701, are read by
    `time_format.date_format` if it is set. The returned format has `day_first` set if the dates show it. `rows` are
    spreadsheet row numbers (the header is row 1), and `where` is file and column, both for messages.
    """
    date_format = time_format.date_format if is_unread(column) else None
    if date_format is None and pd.api.types.is_numeric_dtype(column.dtype) and column.notna().any():
        place = int(column.notna().to_numpy().argmax())
        raise InputError(f"{where}, row {rows[place]}: {column.iloc[place]} is a number, not a date: {CURE}")
    text = None
    empty = column.isna().to_numpy()
    if not isinstance(column.dtype, pd.PeriodDtype) and not pd.api.types.is_datetime64_any_dtype(column.dtype):
        text = to_text(column)
        empty = empty | (text == "").to_numpy()
    refuse_first(empty, rows, where, lambda _, count: f"no date ({count} empty in total): fill it in")
    notes: tuple[str, ...] = ()
    if text is not None and date_format is not None:
        exact = pd.api.types.is_numeric_dtype(column.dtype)
        index, notes = _parse_formatted(text, date_format, rows, where, exact=exact)
    elif text is not None:
        if text.iloc[0].endswith(_NAMES_OF_UTC):
            text = text.str.replace(UTC, "Z", regex=True)
        index, day_first, notes = _parse_text(text, rows, where, time_format.day_first)
        time_format = time_format if day_first is None else replace(time_format, day_first=day_first)
    elif isinstance(column.dtype, pd.PeriodDtype):
        index = pd.PeriodIndex(column).to_timestamp()
    else:
        index = pd.DatetimeIndex(column)
    plain = index.tz_localize(None)
    outside, problem = np.asarray((plain < _FIRST) | (plain >= _LAST)), "is outside the years 1678 to 2261"
    refuse_first(outside, rows, where, lambda place, _: f"{plain[place]} {problem}: correct the year")
    return index.as_unit("ns"), time_format, notes


def _parse_text(
    text: pd.Series, rows: np.ndarray, where: str, day_first: bool | None
) -> tuple[pd.DatetimeIndex, bool | None, tuple[str, ...]]:
    """Return the times, whether the day is before the month, if that matters, and notes.

    `day_first` is the order in training. It counts if the text can be read in both orders.
    """
    form = first_form(text)
    if form is None:
        cure = f"{CURE}, or set data.date_format"
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} is not a readable date: {cure}")
    if form.re is YEAR_LAST and len(form["year"]) == 2:
        raise choice_of_format(
            f"{where}, row {rows[0]}: {text.iloc[0]!r} has a year of two digits",
            [pattern.replace("%Y", "%y") for pattern in patterns_of(form).values()],
        )
    notes: tuple[str, ...] = ()
    if several := form.re is YEAR_FIRST and _has_several_offsets(text, rows, where):
        plain = text.str.replace(ZONE_AT_END, "", regex=True)
        local = pd.to_datetime(plain, format="mixed", errors="coerce")  # the year is first in all of them
        several = not is_a_day_a_row(pd.DatetimeIndex(local))
        text, notes = (text, (CONVERTED,)) if several else (plain, (TAKEN_AS_DATES,))
    readings = {}
    dates = text.where(text.str.match(r"\d"))  # no clock words
    for words, pattern in patterns_of(form).items():
        by_parts = parse_by_parts(dates, pattern) if len(dates) >= LEAST_ROWS else None
        parsed = pd.to_datetime(dates, format=pattern, errors="coerce", utc=several) if by_parts is None else by_parts
        readings[words] = pd.DatetimeIndex(parsed)
        if form.re is YEAR_FIRST and not readings[words].hasnans:
            break  # only day and month can be swapped
    whole = {words: index for words, index in readings.items() if not index.hasnans}
    if not whole:
        _refuse_unread(text, rows, where, readings)
    words, index = next(iter(whole.items()))
    if form.re is not YEAR_LAST:
        return index, None, notes
    if len(whole) == 1:
        (other,) = (reading for name, reading in readings.items() if name != words)
        index, swapped_notes = _with_swapped_days(index, other, text, rows)
        whole, notes = {words: index}, (*notes, *swapped_notes)
    if all(index.equals(other) for other in whole.values()):
        known = None if len(whole) > 1 else words.startswith("day")  # 05/05/2013 does not show the order
        return index, known, (*notes, f"dates were read as {words}")
    if day_first is None:
        differing = int(np.argmax(index != list(whole.values())[1]))
        raise choice_of_format(
            f"{where}, row {rows[differing]}: {text.iloc[differing]!r} is ambiguous, day or month first",
            list(patterns_of(form).values()),
        )
    words = next(words for words in whole if words.startswith("day") == day_first)
    return whole[words], day_first, (*notes, f"dates were read as {words}, as in training")


def _with_swapped_days(
    index: pd.DatetimeIndex, other: pd.DatetimeIndex, text: pd.Series, rows: np.ndarray
) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times with day and month swapped where the order of the rows shows it, and a note.

    A spreadsheet of another country swaps them in each date whose day is at most 12. `other` has the swapped times, NaT
    where there is none. Row by row the time counts that is nearer to the row before, or to the row after for those
    before the first row that can be read in one way only. The result counts if it is in order but for few rows.
    """
    if index.is_monotonic_increasing or index.is_monotonic_decreasing or not other.hasnans:
        return index, ()
    times, swapped, both = index.asi8.copy(), other.asi8, ~np.asarray(other.isna())
    start = int(np.argmin(both))
    for places, step in ((range(start + 1, len(times)), -1), (range(start - 1, -1, -1), 1)):
        for place in places:
            near = times[place + step]
            if both[place] and abs(swapped[place] - near) < abs(times[place] - near):
                times[place] = swapped[place]
    changed, late = np.flatnonzero(times != index.asi8), _out_of_order(times)
    if late > min(FEW_LATE * len(times), FEW_LATE * _out_of_order(index.asi8)):
        return index, ()
    result = index.where(times == index.asi8, other)
    note = f"{len(changed):,} dates have day and month swapped, as the order of the rows shows, such as row "
    return result, (f"{note}{rows[changed[0]]}: {text.iloc[changed[0]]} is {result[changed[0]]:%Y-%m-%d}",)


def _out_of_order(times: np.ndarray) -> int:
    """Return the number of times (N,) out of order, in the direction of most."""
    rising, falling = np.maximum.accumulate(times), np.minimum.accumulate(times)
    return int(min((times < rising).sum(), (times > falling).sum()))


def _has_several_offsets(text: pd.Series, rows: np.ndarray, where: str) -> bool:
    """Return whether the offsets differ; raise InputError if only some times have an offset."""
    zoned = text.str.contains(_ENDS_IN_ZONE, regex=True).to_numpy(dtype=bool)
    if not zoned.any():
        return False
    refuse_first(
        ~zoned, rows, where, lambda place, _: f"{text.iloc[place]!r} has no UTC offset, other rows have: add one to all"
    )
    return bool(text.str.extract(f"({ZONE_AT_END})", expand=False).str.strip().nunique() > 1)


def _refuse_unread(text: pd.Series, rows: np.ndarray, where: str, readings: Mapping[str, pd.DatetimeIndex]) -> NoReturn:
    unread = min((np.asarray(index.isna()) for index in readings.values()), key=lambda bad: int(bad.sum()))
    place, good = int(np.argmax(unread)), int(np.argmin(unread))
    if unread.all():
        raise InputError(f"{where}, row {rows[place]}: {text.iloc[place]!r} is not a readable date: {CURE}")
    raise InputError(
        f"{where}, row {rows[place]}: {text.iloc[place]!r} is not a date, or has another format than "
        f"{text.iloc[good]!r} in row {rows[good]}: {CURE}"
    )


def _parse_formatted(
    text: pd.Series, date_format: str, rows: np.ndarray, where: str, *, exact: bool
) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times of text in one format, and notes.

    With `exact`, a cell must be equal to its date in the format: a number has lost its leading zeros.
    """
    notes: tuple[str, ...] = ()
    if exact or date_format in (*EPOCHS, EXCEL):
        index = read_numbers(pd.to_numeric(text, errors="coerce"), date_format)
    else:
        index, notes = read_as(text, date_format)
    cure = "correct the date or the format"
    refuse_first(
        np.asarray(index.isna()),
        rows,
        where,
        lambda place, count: (
            f"{text.iloc[place]!r} does not match data.date_format={date_format} ({count} such cells): {cure}"
        ),
    )
    return index, notes
