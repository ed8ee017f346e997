"""Columns that make the time: found if none is named, and joined into one if the date is beside the time of day."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import Flaw, refuse_first
from forecast.tables.times.calendar_words import month_of, part_kinds
from forecast.tables.times.clocks import Clock, holds_clocks, read_clock
from forecast.tables.times.forms import first_form, holds_times, is_unread, to_text
from forecast.tables.times.numbered import find_numbered_column, is_number, number_formats, propose_numbered_column
from forecast.tables.times.spellings import first_day
from forecast.tables.times.time_format import TimeFormat
from forecast.tables.times.timestamps import find_time_column
from forecast.tables.times.written import find_spelled_column, holds_spelled_times, read_times
from forecast.tables.times.zones import ZONES, from_named_zones, is_doubled, localized, proposed_zone

_SAMPLE = 1000
_CLOCK_KINDS = ("time", "hour", "minute", "second", "period")
_WITHIN_YEAR = (("month",), ("yearday",), ("quarter",), ("week",))
_MOST = {"year": 2200, "month": 12, "day": 31, "minute": 59, "second": 59, "quarter": 4, "week": 53, "yearday": 366}
_LEAST = {"year": 1500, "minute": 0, "second": 0}
_MARK = r"^(?:Q|T|W|KW|CW|M|S)\s?(?=\d{1,2}$)"
_LONGEST_DAY = 1500
UNIQUE = 0.99
"""Smallest share of distinct times at which a column of unknown name counts as the time of day."""


def kinds_of(column: pd.Series) -> tuple[str, ...]:
    """Return the parts of a time that a column may hold, by its name and its first values."""
    return tuple(kind for kind in part_kinds(str(column.name)) if _fits(column, kind))


def _fits(column: pd.Series, kind: str) -> bool:
    """Return whether the first values of a column may be this part of a time."""
    cells = column.dropna().iloc[:_SAMPLE]
    if kind == "date":
        return holds_dates(column)
    if kind == "zone":
        return not is_number(column) and bool(len(cells)) and all(str(cell).strip() in ZONES for cell in cells)
    if kind in ("time", "hour") and holds_clocks(column):
        return True
    text = to_text(cells)
    if kind == "month" and (named := text.map(lambda cell: month_of(cell.rstrip(".")) is not None)).any():
        return bool(named.all())
    if kind in ("quarter", "week", "month"):
        text = text.str.replace(_MARK, "", regex=True)
    if kind in ("time", "hour", "period"):
        text = text.str.replace(r"(?i)^(?:HE|HB|HR|hour|H|P|SP)[ _-]?(?=\d)", "", regex=True)
        text = text.str.replace(r"(?<=\d)\s?(?:[ABXabx*]|DST|h)$", "", regex=True)
    numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    if not len(numbers) or not np.isfinite(numbers).all() or (numbers % 1).any():
        return kind in ("time", "hour") and bool(len(numbers)) and bool(((numbers >= 0) & (numbers < 24)).all())
    if kind in ("time", "hour", "period"):
        digits = (numbers % 100 < 60).all() and numbers.max() <= 240_000
        return bool((numbers >= 0).all() and (numbers.max() <= (100 if kind == "hour" else _LONGEST_DAY) or digits))
    return bool(((numbers >= _LEAST.get(kind, 1)) & (numbers <= _MOST[kind])).all())


def holds_dates(column: pd.Series, date_format: str | None = None) -> bool:
    """Return whether a column holds dates in any spelling, also as numbers such as 20190101."""
    if is_number(column):
        return date_format is not None or any(word not in ("%Y", "excel") for word in number_formats(column))
    return not holds_clocks(column) and (holds_times(column, date_format) or holds_spelled_times(column))


def find_clock(table: pd.DataFrame, date: str, taken: Sequence[str], ids: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that tell the rows of equal dates apart: a clock, hours, minutes, periods; empty: none.

    They are looked for only if the dates of a series are doubled and have no time of day. `taken` have another role.
    """
    others = [str(name) for name in table.columns if name not in (date, *taken, *ids)]
    named = {name: kinds_of(table[name]) for name in others if part_kinds(name)}
    found = [name for name, kinds in named.items() if set(kinds) & set(_CLOCK_KINDS)]
    zones = [name for name, kinds in named.items() if "zone" in kinds]
    clocks = [name for name in others if name not in found and holds_clocks(table[name])]
    if not (found or clocks or zones):
        return ()
    has_clock = _has_clock(table[date])
    if (has_clock and not zones) or not (doubled := _doubled(table, [*ids, date])).any():
        return ()
    if has_clock:
        return tuple(zones[:1])
    columns = _one_of_each(found, named)
    if not columns:
        columns = next(((name,) for name in clocks if _doubled(table, [*ids, date, name]).mean() <= 1 - UNIQUE), ())
    if columns and _doubled(table, [*ids, date, *columns]).sum() >= doubled.sum():
        return ()
    return (*columns, *zones[:1]) if columns else ()


def _one_of_each(found: Sequence[str], named: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return a clock, or a period, or an hour with its minutes and seconds."""
    by_kind = {kind: [name for name in found if kind in named[name]] for kind in _CLOCK_KINDS}
    for kind in ("hour", "time", "period"):
        if names := by_kind[kind]:
            finer = [by_kind[part][0] for part in ("minute", "second") if by_kind[part]] if kind == "hour" else []
            return tuple(dict.fromkeys((names[0], *finer)))
    return ()


def _doubled(table: pd.DataFrame, names: list[str]) -> pd.Series:
    """Return which rows without an empty cell in these columns repeat a row before."""
    return table[names].dropna().duplicated()


def _has_clock(column: pd.Series) -> bool:
    """Return whether the first dates have a time of day."""
    if is_number(column):
        return False
    if not is_unread(column):
        sample = pd.DatetimeIndex(pd.to_datetime(column.dropna().iloc[:_SAMPLE], errors="coerce"))
        return bool((sample != sample.normalize()).any())
    text = to_text(column.dropna().iloc[:_SAMPLE])
    form = first_form(text)
    return form is not None and form["hour"] is not None and bool(text.str.contains(r"[1-9]:\d\d|:\d?[1-9]").any())


def find_times(
    table: pd.DataFrame, source: str, taken: Sequence[str], ids: Sequence[str], date_format: str | None
) -> tuple[tuple[str, ...], Flaw | None]:
    """Return the columns that make the time if none is named, and a flaw if several columns hold dates.

    Usual dates come first. Parts such as year and month, numbers, and other spellings are looked for only in a table
    that has none. `taken` columns have another role, and `ids` identify series.
    """
    dates = [str(name) for name in table.columns if holds_times(table[name], date_format)]
    if len(dates) > 1:  # 18.00.00 is a clock, although it has the form of a date
        dates = [name for name in dates if not holds_clocks(table[name])] or dates
    if len(dates) == 1:
        return (dates[0], *find_clock(table, dates[0], taken, ids)), None
    if not dates:
        if date_format is None and (columns := find_calendar(table, taken, ids)):
            return columns, None
        if (name := find_numbered_column(table, [*taken, *ids], date_format)) is not None:
            return (name, *find_clock(table, name, taken, ids)), None
        if (spelled := find_spelled_column(table, [*taken, *ids], source, date_format)) is not None:
            return (spelled[0], *find_clock(table, spelled[0], taken, ids)), spelled[1]
        if date_format is None:
            propose_numbered_column(table, [*taken, *ids], source)
    name, ambiguous = find_time_column(table, source, date_format)
    return (name,), ambiguous


def find_calendar(table: pd.DataFrame, taken: Sequence[str], ids: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that make the time if none holds dates: year and month, with day and hour if there; or none.

    Dates as numbers count too, if a clock makes their rows distinct.
    """
    names = [str(name) for name in table.columns if name not in taken]
    kinds = {name: kinds_of(table[name]) for name in names if part_kinds(name)}
    by_kind: dict[str, str] = {}
    for name, possible in kinds.items():
        for kind in [kind for kind in possible if kind not in by_kind][:1]:
            by_kind[kind] = name
    if dates := [name for name, possible in kinds.items() if "date" in possible]:
        clock = find_clock(table, dates[0], taken, ids)
        return (dates[0], *clock) if clock else ()
    if "year" not in by_kind:
        return ()
    options = [(*within, "day") if within == ("month",) and "day" in by_kind else within for within in _WITHIN_YEAR]
    present = [option for option in options if all(kind in by_kind for kind in option)]
    finer: list[str] = [kind for kind in ("hour", "minute", "second") if kind in by_kind]
    if "hour" not in finer:
        finer = [str(kind) for kind in ("time", "period") if kind in by_kind][:1]
    results = []
    for option in present:
        inside = finer if option[-1] in ("day", "yearday") else []
        results.append(tuple(dict.fromkeys(by_kind[kind] for kind in ("year", *option, *inside))))
    results = [result for result in results if len(result) >= 2]
    unique = [result for result in results if not _doubled(table, [*ids, *result]).any()]
    return next(iter(unique or results), ())


_Parts = dict[str, str]
"""The column of each part of a time."""


def _assign(table: pd.DataFrame, names: Sequence[str], source: str, date_format: str | None) -> _Parts:
    """Return the named columns by the part of the time that each holds."""
    columns: _Parts = {}
    unknown = []
    for name in names:
        possible = [kind for kind in kinds_of(table[name]) if kind not in columns]
        is_text = not is_number(table[name])
        if not is_text and "date" in possible and len(possible) > 1:
            possible.remove("date")
        if not possible or (possible[0] != "date" and is_text and holds_dates(table[name], date_format)):
            possible = [kind for kind in _by_values(table[name], date_format) if kind not in columns] or possible
        possible = possible or [kind for kind in part_kinds(name) if kind not in columns]
        if possible:
            columns[possible[0]] = name
        else:
            unknown.append(name)
    has_date = "date" in columns or "year" in columns
    if unknown and not has_date and unknown[0] == names[0]:
        columns["date"], unknown = unknown[0], unknown[1:]
    if len(unknown) == 1 and "date" in columns and not set(columns) & {*_CLOCK_KINDS, "zone"}:
        columns["hour"], unknown = unknown[0], []
    if unknown or not {"date", "year"} & set(columns) or len(columns) < 2:
        shown = (unknown or list(names))[0]
        raise InputError(
            f"{source}: data.time_columns=[{','.join(names)}]: which part of the time {shown!r} holds is unclear: "
            "rename the columns to Date, Year, Month, Day, Hour, Minute or Time, or leave it out"
        )
    return columns


def _by_values(column: pd.Series, date_format: str | None) -> list[str]:
    """Return the part that a column of unknown name holds, if its values show it."""
    if holds_clocks(column):
        return ["time"]
    if is_number(column):
        return ["year"] if _fits(column, "year") else ["date"] if holds_dates(column) else []
    if holds_dates(column, date_format):
        return ["date"]
    return [kind for kind in ("zone", "hour") if _fits(column, kind)]


def join_parts(
    table: pd.DataFrame, time_format: TimeFormat, rows: np.ndarray, source: str, series: np.ndarray | None = None
) -> tuple[pd.DataFrame, str, TimeFormat, tuple[str, ...]]:
    """Return the table with one time column, its name, the format with what was found, and notes.

    The column has the name and place of the dates; without dates it is a new one, date or time.
    """
    assert time_format.columns is not None
    names = time_format.columns
    parts = _assign(table, names, source, time_format.date_format)
    dates, time_format, notes = _read_dates(table, parts, rows, source, time_format)
    clock, time_format = _read_clocks(table, parts, dates, rows, source, time_format)
    times = _join(dates, clock, time_format, rows, f"{source}, column {names[-1]!r}", series)
    if zone := parts.get("zone"):
        words = to_text(table[zone]).fillna("").to_numpy()
        times = from_named_zones(times.tz_localize(None), words, time_format.zone, rows, f"{source}, column {zone!r}")
    name = parts.get("date") or _free_name(table, names, "time" if set(parts) & set(_CLOCK_KINDS) else "date")
    place = int(table.columns.get_indexer(pd.Index([parts.get("date", names[0])]))[0])
    place -= sum(str(other) in names for other in table.columns[:place])
    table = table.drop(columns=list(names))
    table.insert(place, name, times)
    inside = f" ({clock.note})" if clock.note else ""
    listed = " and ".join([", ".join(map(repr, names[:-1])), repr(names[-1])])
    return table, name, time_format, (*notes, f"times were made of {listed}{inside}")


def _free_name(table: pd.DataFrame, names: Sequence[str], wanted: str) -> str:
    others = {str(name).lower() for name in table.columns if name not in names}
    return wanted if wanted not in others else names[0]


def _read_dates(
    table: pd.DataFrame, parts: _Parts, rows: np.ndarray, source: str, time_format: TimeFormat
) -> tuple[pd.DatetimeIndex, TimeFormat, tuple[str, ...]]:
    """Return the dates without a time of day."""
    if (date := parts.get("date")) is None:
        return _calendar_dates(table, parts, rows, source), time_format, ()
    where = f"{source}, column {date!r}"
    dates, read_as, notes = read_times(table[date], rows, where, replace(time_format, zone=None))
    read_as = replace(read_as, zone=time_format.zone)
    late = np.asarray(dates != dates.normalize())
    if other := next((name for kind, name in parts.items() if kind in _CLOCK_KINDS), None):
        cure = "set data.time_column instead of data.time_columns, or remove it from the dates"
        problem = f"has a time of day beside the hour of {other!r}: {cure}"
        refuse_first(late, rows, where, lambda place, _: f"{dates[place]} {problem}")
    return dates, read_as, notes


def _calendar_dates(table: pd.DataFrame, columns: _Parts, rows: np.ndarray, source: str) -> pd.DatetimeIndex:
    """Return the dates of years with months, days, quarters, weeks or days of the year."""
    years = _numbers(table[columns["year"]], "year", rows, source)
    kind = next((kind for (kind,) in _WITHIN_YEAR if kind in columns), "month")
    if kind not in columns:
        raise InputError(
            f"{source}, column {columns['year']!r}: holds years without months: name a column of months, quarters or "
            "weeks in data.time_columns too"
        )
    numbers = _numbers(table[columns[kind]], kind, rows, source)
    days = np.ones(len(years), dtype=np.int64)
    if kind == "month" and "day" in columns:
        days = _numbers(table[columns["day"]], "day", rows, source)
    keys, codes = np.unique(years * 1000 + numbers, return_inverse=True)
    firsts = [first_day(kind, int(key) // 1000, int(key) % 1000) for key in keys]
    absent = np.array([first is None for first in firsts])[codes]
    stamps = pd.DatetimeIndex(pd.to_datetime([str(first or "1970-01-01") for first in firsts])).as_unit("ns")
    dates = pd.DatetimeIndex(stamps[codes]) + pd.to_timedelta(days - 1, unit="D")
    absent |= np.asarray(days > 1) & np.asarray(dates.day != days) if kind == "month" else False
    named = (years, numbers, days) if kind == "month" else (years, numbers)
    what = "day" if kind == "month" else kind

    def problem(place: int, count: int) -> str:
        shown = "-".join(str(part[place]) for part in named)
        return f"{shown} is no {what} of a year ({count} such rows): correct it"

    refuse_first(absent, rows, source, problem)
    return dates


def _numbers(column: pd.Series, kind: str, rows: np.ndarray, source: str) -> np.ndarray:
    """Return whole numbers of a part of a time, also from names of months and marks such as Q1 or W03."""
    least, most = _LEAST.get(kind, 1), _MOST[kind]
    text = to_text(column).fillna("")
    if kind == "month" and not is_number(column):
        text = text.map(lambda cell: str(month_of(cell.rstrip(".")) or cell))
    if kind not in _CLOCK_KINDS:
        text = text.str.replace(_MARK, "", regex=True)
    numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    cure = f"write whole numbers from {least} to {most}"
    refuse_first(
        ~((numbers >= least) & (numbers <= most) & (numbers == np.round(numbers))),
        rows,
        f"{source}, column {str(column.name)!r}",
        lambda place, count: f"{str(column.iloc[place])[:40]!r} is no {kind} ({count} such cells): {cure}",
    )
    return numbers.astype(np.int64)


def _read_clocks(
    table: pd.DataFrame, parts: _Parts, dates: pd.DatetimeIndex, rows: np.ndarray, source: str, time_format: TimeFormat
) -> tuple[Clock, TimeFormat]:
    clock = Clock(np.zeros(len(table), dtype=np.int64), np.zeros(len(table), dtype=np.int64))
    for kind in ("time", "hour", "period"):
        if name := parts.get(kind):
            where = f"{source}, column {name!r}"
            clock, time_format = read_clock(table[name], dates, rows, where, time_format, counts=kind == "hour")
    for kind, size in (("minute", 60), ("second", 1)):
        if name := parts.get(kind):
            more = _numbers(table[name], kind, rows, source)
            clock = replace(clock, since=clock.since + more * size * 10**9)
    return clock, time_format


def _join(
    dates: pd.DatetimeIndex,
    clock: Clock,
    time_format: TimeFormat,
    rows: np.ndarray,
    where: str,
    series: np.ndarray | None,
) -> pd.DatetimeIndex:
    """Return the times of dates and clocks; with marked or counted hours they are instants of the zone."""
    zone = time_format.zone
    local = pd.DatetimeIndex(dates.tz_localize(None).as_unit("ns") + pd.to_timedelta(clock.since, unit="ns"))
    if dates.tz is not None:
        return dates + pd.to_timedelta(clock.since, unit="ns")
    marked = clock.marks > 0
    if zone is None:
        cure = f"set their time zone, such as data.time_zone={proposed_zone(local[marked]) or 'Europe/Berlin'}"
        problem = "marks an hour that occurs twice when clocks move back"
        refuse_first(marked, rows, where, lambda place, _: f"{problem}, {local[place]}: {cure}")
        return local
    if clock.counted or _counts_over_spring(local, dates, clock, zone):
        midnights, _ = localized(dates.normalize(), zone, rows, where)
        return midnights + pd.to_timedelta(clock.since, unit="ns")
    if marked.any():
        wrong = marked & ~is_doubled(local, zone)
        proposed = proposed_zone(local[wrong])
        cure = f"correct data.time_zone{f', such as {proposed}' if proposed else ''}"
        problem = f"is marked as an hour that occurs twice, which it does not in data.time_zone={zone}: {cure}"
        refuse_first(wrong, rows, where, lambda place, _: f"{local[place]} {problem}")
        times, _ = localized(local, zone, rows, where, marks=clock.marks, series=series)
        return times
    return local


def _counts_over_spring(local: pd.DatetimeIndex, dates: pd.DatetimeIndex, clock: Clock, zone: str) -> bool:
    """Return whether the hours of the days on which clocks move forward are numbered without a gap, up to 23."""
    if not clock.note:
        return False
    skipped = np.asarray(local.tz_localize(zone, ambiguous=np.ones(len(local), bool), nonexistent="NaT").isna())
    if not skipped.any():
        return False
    days = dates.isin(dates[skipped].unique())
    last = clock.since.max() - 3_600 * 10**9
    return bool((clock.since[days] <= last).all())
