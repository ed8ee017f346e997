"""Reading of a column of times in any known spelling: usual dates first, then numbers, periods, intervals and zones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import Flaw
from forecast.tables.times.calendar_words import WORD, in_english, means_time, month_of
from forecast.tables.times.forms import CONVERTED, EPOCHS, first_form, is_unread, read_as, to_text
from forecast.tables.times.numbered import is_number, is_regular, numbered_note, with_numbered_format
from forecast.tables.times.spellings import YEAR_FIRST, YEAR_LAST, Respelled, is_spelled, respelled, spell
from forecast.tables.times.time_format import TimeFormat
from forecast.tables.times.timestamps import CURE, choice_of_format, finest_column, parse_times
from forecast.tables.times.zones import from_named_zones, localized

_SAMPLE = 100
_MOST_BACKWARDS = 0.01
"""Largest share of intervals that end before they start: those over the hour at which clocks move back."""
_HOUR = pd.Timedelta("1h")
_CLOCKS = re.compile(r"(\d{1,2}):(\d{2})-(\d{2}):(\d{2})$")


def read_times(
    column: pd.Series, rows: np.ndarray, where: str, time_format: TimeFormat, *, series: np.ndarray | None = None
) -> tuple[pd.DatetimeIndex, TimeFormat, tuple[str, ...]]:
    """Return the times of a column in row order, the format, and notes, as `parse_times`, in more spellings.

    A usual date is read as `parse_times` reads it: other spellings count only where it refuses the column. Times
    without an offset are local times of `time_format.zone`, and `series` (N,) is the number of the series of each row.
    """
    named = time_format.date_format
    time_format = with_numbered_format(column, time_format, where, int(rows[0]) if len(rows) else 2)
    notes: tuple[str, ...] = ()
    if named is None and time_format.date_format is not None and is_number(column):
        notes = (numbered_note(column, time_format.date_format),)
    index, time_format, more = _read_text(column, rows, where, time_format)
    if time_format.date_format in EPOCHS and index.tz is None and time_format.zone is not None:
        index = index.tz_localize("UTC")
    if time_format.zone is None:
        return index, time_format, (*notes, *more)
    told: tuple[str, ...] = ()
    if index.tz is not None:
        index = index.tz_convert(time_format.zone)
    elif (index != index.normalize()).any():  # dates without a time of day stay dates
        index, told = localized(index, time_format.zone, rows, where, series=series)
    return index, time_format, (*notes, *(note for note in more if note != CONVERTED), *told)


def _read_text(
    column: pd.Series, rows: np.ndarray, where: str, time_format: TimeFormat
) -> tuple[pd.DatetimeIndex, TimeFormat, tuple[str, ...]]:
    if not _looks_like_clocks(column):
        try:
            return parse_times(column, rows, where, time_format)
        except InputError as error:
            refusal = error
            if is_number(column) or not is_unread(column):
                raise
    else:
        refusal = InputError(f"{where}, row {rows[0]}: {column.iloc[0]!r} is not a readable date: {CURE}")
    text = to_text(column)
    if text.isna().any() or (text == "").any():
        raise refusal
    if time_format.date_format is None:
        result = _read_respelled(text, rows, where, time_format)
    else:
        result = _read_by_format(text, rows, where, time_format)
    if result is None:
        raise refusal
    return result


def _looks_like_clocks(column: pd.Series) -> bool:
    """Return whether cells such as 2021-01-05 00:00-01:00 are intervals: the end moves with the start."""
    matches = [_CLOCKS.search(str(cell)) for cell in column.iloc[:_SAMPLE]]
    if not matches or matches[0] is None:
        return False
    spans = {(int(m[3]) * 60 + int(m[4]) - int(m[1]) * 60 - int(m[2])) % 1440 for m in matches if m}
    return len(spans) == 1 and len({(m[3], m[4]) for m in matches if m}) > 3


Result = tuple[pd.DatetimeIndex, TimeFormat, tuple[str, ...]]


def _read_by_format(text: pd.Series, rows: np.ndarray, where: str, time_format: TimeFormat) -> Result | None:
    """Return the times of text that its format reads once months are English, or only the date or start is left."""
    assert time_format.date_format is not None
    for cells, date_format, spelled in _formatted(text, time_format.date_format):
        try:
            acting = replace(time_format, date_format=date_format)
            index, kept, notes = parse_times(cells, rows, where, acting)
        except InputError:
            continue
        result = replace(kept, date_format=time_format.date_format)
        return (index, result, notes) if spelled is None else _finished(index, result, notes, spelled, rows, where)
    return None


def _formatted(text: pd.Series, date_format: str) -> Iterator[tuple[pd.Series, str, Respelled | None]]:
    """Yield texts that a format may read: with English months, the starts of intervals, and rewritten dates."""
    yield text.map(in_english), date_format, None
    yield text.str.split(r" (?:-|\u2013|\u2014|to|bis) ", regex=True).str[0], date_format, None
    if (spelled := respelled(text)) is not None:
        yield spelled.text, date_format, spelled
        if "%S" not in date_format:
            yield spelled.text, date_format.replace("%H:%M", "%H:%M:%S"), spelled


def _read_respelled(text: pd.Series, rows: np.ndarray, where: str, time_format: TimeFormat) -> Result | None:
    """Return the times of text in other spellings; None if a cell has none."""
    spelled = respelled(text)
    if spelled is None:
        spelled = _with_short_years(text, rows, where)
    if spelled is None:
        return None
    zoned, ended = spelled.zones != "", spelled.ends != ""
    says_more = zoned.all() if zoned.any() else spelled.days.any() or ended.any()
    if first_form(text) is not None and not says_more:
        return None
    ends = respelled(spelled.ends) if ended.all() and spelled.has_whole_ends else None
    if ends is None:
        if ended.any() and not _spans_agree(spelled):
            return None
        index, kept, notes = parse_times(spelled.text, rows, where, time_format)
    else:
        both = pd.Series(np.column_stack([spelled.text, ends.text]).ravel())
        joined, kept, notes = parse_times(both, np.repeat(rows, 2), where, time_format)
        index = pd.DatetimeIndex(joined[::2])
        _check_ends(_shifted(index, spelled.days), _shifted(pd.DatetimeIndex(joined[1::2]), ends.days), rows, where)
    return _finished(index, kept, notes, spelled, rows, where)


def _finished(
    index: pd.DatetimeIndex,
    time_format: TimeFormat,
    notes: Sequence[str],
    spelled: Respelled,
    rows: np.ndarray,
    where: str,
) -> Result:
    """Return the times with the days of 24:00 added, in the zones that the cells name."""
    index = _shifted(index, spelled.days)
    if index.tz is None and (spelled.zones != "").any():
        index = from_named_zones(index, spelled.zones, time_format.zone, rows, where)
    return index, time_format, (*spelled.notes, *notes)


def _shifted(index: pd.DatetimeIndex, days: np.ndarray) -> pd.DatetimeIndex:
    return index + pd.to_timedelta(days, unit="D") if days.any() else index


def _check_ends(starts: pd.DatetimeIndex, ends: pd.DatetimeIndex, rows: np.ndarray, where: str) -> None:
    backwards = np.asarray(ends < starts)
    far = np.asarray(ends < starts - _HOUR)
    if far.any() or backwards.mean() > _MOST_BACKWARDS:
        place = int(np.argmax(far if far.any() else backwards))
        raise InputError(
            f"{where}, row {rows[place]}: the interval ends at {ends[place]}, before it starts at {starts[place]} "
            f"({int(backwards.sum())} such rows): correct it"
        )


def _spans_agree(spelled: Respelled) -> bool:
    """Return whether intervals that end in a clock, such as 00:00 - 01:00, have one length but for a few."""
    starts = pd.to_timedelta(spelled.text.str.extract(r"(\d{2}:\d{2}:\d{2})", expand=False), errors="coerce")
    ends = pd.to_timedelta(spelled.ends.str.extract(r"^(\d{1,2}:\d{2})", expand=False) + ":00", errors="coerce")
    spans = ((ends - starts) / _HOUR) % 24
    return bool(spans.notna().all() and spans.value_counts(normalize=True).iloc[0] >= 0.9)


def _with_short_years(text: pd.Series, rows: np.ndarray, where: str) -> Respelled | None:
    """Return dates with a name of a month and a year of two digits, if only one reading makes them regular.

    Raise InputError with the formats if the reading is open; return None if the cells are of another kind.
    """
    readings = {style: found for style in (YEAR_LAST, YEAR_FIRST) if (found := respelled(text, style)) is not None}
    if not readings:
        return None
    regular = [found for style, found in readings.items() if _is_clear(found, style)]
    if len(regular) == 1:
        return regular[0]
    english = in_english(str(text.iloc[0]))
    formats = list(dict.fromkeys(_short_format(english, style) for style in readings))
    raise choice_of_format(f"{where}, row {rows[0]}: {text.iloc[0]!r} has a year of two digits", formats)


def _is_clear(found: Respelled, style: str) -> bool:
    """Return whether the times are regular, and months with a year such as Jan-15 cannot be days."""
    times = pd.DatetimeIndex(pd.to_datetime(found.text, format="ISO8601", errors="coerce"))
    if times.hasnans or not (times.is_monotonic_increasing or times.is_monotonic_decreasing):
        return False
    if found.text.str.len().eq(7).all() and (
        style == YEAR_FIRST or times.year.nunique() < 2 or times.month.nunique() < 2
    ):
        return False
    return is_regular(times)


def _short_format(cell: str, style: str) -> str:
    """Return the format of an English date such as 05-Jan-21."""
    codes = ["%d", "%y"] if style == YEAR_LAST else ["%y", "%d"]
    if len(re.findall(r"\d+", cell)) == 1:
        codes = ["%y"]
    date = WORD.sub(lambda match: "%b" if month_of(match[0]) else match[0], cell)
    return re.sub(r"(?<!%)\d+", lambda match: codes.pop(0) if codes else match[0], date)


def holds_spelled_times(column: pd.Series) -> bool:
    """Return whether most of the first cells are times in a spelling that `read_times` knows; numbers are none."""
    if is_number(column) or not is_unread(column):
        return False
    sample = [str(cell) for cell in column.dropna().iloc[:_SAMPLE]]
    spelled = [cell for cell in sample if is_spelled(cell)]
    if 2 * len(spelled) <= len(sample):
        return False
    only_years = all((first := spell(cell)) is not None and first.kind == "year" for cell in spelled)
    return not only_years or means_time(str(column.name))


def _holds_formatted_times(column: pd.Series, date_format: str) -> bool:
    """Return whether a format reads the first cells once they are rewritten."""
    if is_number(column) or not is_unread(column):
        return False
    sample = to_text(column.dropna().iloc[:_SAMPLE])
    return any(
        read_as(cells, form)[0].notna().all() for cells, form, _ in _formatted(sample, date_format) if len(cells)
    )


def find_spelled_column(
    table: pd.DataFrame, taken: Sequence[str], source: str, date_format: str | None = None
) -> tuple[str, Flaw | None] | None:
    """Return the column of times in another spelling, with a flaw if there are several; None without one."""
    columns = [str(name) for name in table.columns if name not in taken]
    if date_format is None:
        found = [name for name in columns if holds_spelled_times(table[name])]
    else:
        found = [name for name in columns if _holds_formatted_times(table[name], date_format)]
    return finest_column(table, found, source) if found else None
