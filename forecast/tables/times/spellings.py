"""Other spellings of a time in text: periods, intervals, names of months, clocks; rewritten as a usual date."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pandas as pd

from forecast.tables.times.calendar_words import WEEKDAYS, WORD, month_of, plain_word
from forecast.tables.times.zones import ZONES

PLAIN, YEAR_LAST, YEAR_FIRST = "plain", "year last", "year first"
"""Reading of a date whose year has four digits, or two digits after or before the other number."""

_BLANKS = re.compile(r"[\s\u00a0\u202f\u2009]+")
_HALF = r"[AaPp]\.? ?[Mm]\b\.?"
_CLOCK = (
    r"(?P<hour>\d{1,2})(?:[:.hH](?P<minute>\d{2})(?:[:.m](?P<second>\d{2})(?:[.,](?P<part>\d{1,9})\d*)?)?)?"
    rf"(?: ?(?P<half>{_HALF}))?(?: ?(?:[hHs]|[Uu]hr|hrs?|uur))?"
)
_CLOCK_ALONE = re.compile(_CLOCK)
_COMPACT_CLOCK = re.compile(r"(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})?(?:[.,](?P<part>\d{1,9}))?")
_CLOCK_INSIDE = re.compile(rf"(?<!\S)\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?(?: ?{_HALF})?(?!\S)")
_ENDS_IN_CLOCK = re.compile(r"\d:\d{2}$|[T ]\d{4}(?:\d{2})?$|:\d{2}[.,]\d+$|\d ?[AaPp]\.?[Mm]\.?$")
_AT = re.compile(r",? (?:at|um|@|a|à|à las|a las|om|alle|às|as|-) (?=\d)|, ?(?=\d{1,2}(?:[:h.]| ?[AaPp]\.?[Mm]))")
_OFFSET = re.compile(r"(?<=\d) ?(?:UTC|GMT)?(?P<offset>[+-]\d{2}:?\d{2}|Z)$")
_BRACKETS = re.compile(r" \((?P<inside>[^)]*)\)$")
_SEPARATORS = tuple(
    re.compile(pattern)
    for pattern in (
        r" (?:-|\u2013|\u2014|/|to|bis|until|till|tot|->|→|~|à|au|al|até) ",
        r" ?(?:\u2013|\u2014|\.{2,3}|→|->|~|/) ?(?=\d{4}-|\d{1,2}:)",
        r" ?(?:\u2013|\u2014|\.{2,3}|→|->|~) ?",
        r"(?<=\d)/(?=\d{4}-?\d{2})",
        r"(?<=\d:\d{2})/(?=\d)",
        r"(?<=\d)/(?=\d{1,2}\.\d{1,2}\.\d{2,4})",
        r"(?<=[./]\d{4})-(?=\d{1,2}[./])",
        r"(?<=\d{4}[./]\d{2}[./]\d{2})-(?=\d{4})",
        r"(?<=^\d)[-\u2013](?=\d{1,2}\.? ?[^\W\d])|(?<=^\d\d)[-\u2013](?=\d{1,2}\.? ?[^\W\d])",
    )
)
_CLOCK_TO_CLOCK = re.compile(r"(?<=\d:\d{2})-(?=\d{1,2}:\d{2}$)")
_NUMERIC = re.compile(
    r"\d{4}(?P<a>[-/.])\d{1,2}(?:(?P=a)\d{1,2})?|\d{1,2}(?P<b>[-/.])\d{1,2}(?P=b)(?:\d{4}|\d{2})|"
    r"\d{1,2}[./-](?:19|20)\d{2}"
)
_PERIODS = (
    ("quarter", r"(?P<year>\d{4}) ?[-:./]? ?[QqTtKk](?P<number>[1-4])"),
    ("quarter", r"[QqTt] ?(?P<number>[1-4])[ '/.-]*(?P<year>\d{4})"),
    ("quarter", r"(?P<number>[1-4])[.ºªeᵉ]*(?:er|º|st|nd|rd|th|e|ème)? ?[QqTt](?:rim)?[ '/.-]*(?P<year>\d{4})"),
    ("quarter", r"(?P<number>[1-4])(?:\.|st|nd|rd|th|er|e|ème|º|°|ª)? {words}[ ,/]*(?:de |of )?(?P<year>\d{4})"),
    ("quarter", r"{words} (?P<number>[1-4])[ ,/]*(?:de |of )?(?P<year>\d{4})"),
    ("quarter", r"(?P<year>\d{4})[ ,]*{words} (?P<number>[1-4])"),
    ("half", r"(?P<year>\d{4}) ?[-:./]? ?[HhSs](?P<number>[12])"),
    ("half", r"[HhSs](?P<number>[12])[ '/.-]*(?P<year>\d{4})"),
    ("week", r"(?P<year>\d{4}) ?[-:./]? ?(?:[WwSs]|KW|kw|CW|Wk|WK|wk)[ .-]?(?P<number>\d{1,2})(?:-(?P<day>[1-7]))?"),
    ("week", r"(?:[WwSs]|KW|kw|CW|Wk|WK|wk)[ .-]?(?P<number>\d{1,2})[ ,/.-]*(?P<year>\d{4})"),
    ("week", r"{weeks}\.? (?P<number>\d{1,2})[ ,/]*(?:de |of )?(?P<year>\d{4})"),
    ("week", r"(?P<year>\d{4})[ ,-]*{weeks}\.? (?P<number>\d{1,2})"),
    ("month", r"(?P<year>\d{4}) ?[-:./]? ?[Mm](?P<number>\d{1,2})"),
    ("month", r"[Mm](?P<number>\d{1,2})[ /.-]*(?P<year>\d{4})"),
    ("yearday", r"(?P<year>\d{4})[-.](?P<number>\d{3})"),
    ("year", r"(?P<year>\d{4})(?P<number>)"),
    ("year", r"(?P<year>\d{4}) ?\[YR\d{4}\](?P<number>)"),
)
_QUARTERS = r"(?:[Qq]uarter|[Qq]uartal|[Tt]rimestre|[Kk]wartaal|[Tt]rim\.?|[Qq]tr\.?)"
_WEEKS = r"(?:[Ww]eek|[Ww]oche|[Kk]alenderwoche|[Ss]emaine|[Ss]emana|[Ss]ettimana|[Ss]em\.?|KW|kw)"
_PERIOD_FORMS = tuple(
    (kind, re.compile(form.replace("{words}", _QUARTERS).replace("{weeks}", _WEEKS))) for kind, form in _PERIODS
)
_LINKS = frozenset(["de", "del", "of", "the", "di", "du", "le", "el", "den", "der", "dem", "am", "on", "o"])
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th|er|re|º|ª|°)(?![A-Za-z])")
_PASTED = re.compile(r"(?P<day>\d{1,2})(?P<month>[A-Za-z]{3})(?P<year>\d{4}|\d{2})")


@dataclass(frozen=True)
class Spelled:
    """A rewritten cell: a date with an optional clock, `days` to add to it (24:00), a name of a zone, the kind."""

    text: str
    days: int = 0
    zone: str = ""
    kind: str = "date"
    end: str = ""


@dataclass(frozen=True)
class Respelled:
    """A rewritten column: usual dates (N,), the days to add to them, the names of zones, and notes.

    `ends` are the ends of intervals as they are written, empty for other times.
    """

    text: pd.Series
    days: np.ndarray
    zones: np.ndarray
    ends: pd.Series
    notes: tuple[str, ...]

    @property
    def has_whole_ends(self) -> bool:
        """Whether intervals end in a date, not in a clock alone."""
        return _CLOCK_ALONE.fullmatch(str(self.ends.iloc[0])) is None


def respelled(text: pd.Series, style: str = PLAIN) -> Respelled | None:
    """Return a column of text with each cell rewritten as a usual date; None if a cell has no known spelling."""
    codes, cells = pd.factorize(text)
    found = []
    for cell in cells:  # each distinct cell once
        spelled = spell(str(cell), style)
        if spelled is None:
            return None
        found.append(spelled)
    kinds = {each.kind for each in found}
    if len(kinds) > 1 or not found:
        return None

    def column(values: list[str]) -> pd.Series:
        return pd.Series(np.array(values, dtype=object)[codes], index=text.index)

    notes = [_NOTES[kind] for kind in sorted(kinds) if kind in _NOTES]
    ends = [each.end for each in found]
    if any(ends):
        notes.append("the times are intervals: their starts count")
    if any(each.days for each in found):
        notes.append("24:00 is read as 00:00 of the next day")
    return Respelled(
        column([each.text for each in found]),
        np.array([each.days for each in found])[codes],
        np.array([each.zone for each in found], dtype=object)[codes],
        column(ends),
        tuple(notes),
    )


_NOTES = {
    "quarter": "the times are quarters: each is read as its first day",
    "half": "the times are half-years: each is read as its first day",
    "week": "the times are ISO weeks: each is read as its Monday",
    "month": "the times are months: each is read as its first day",
    "year": "the times are years: each is read as its first day",
    "yearday": "the times are years and days of the year",
}


def is_spelled(cell: str) -> bool:
    """Return whether a cell is a time in a known spelling, also with a year of two digits."""
    return any(spell(cell, style) is not None for style in (PLAIN, YEAR_LAST, YEAR_FIRST))


def spell(cell: str, style: str = PLAIN) -> Spelled | None:
    """Return a cell as a usual date, None if it has no known spelling; of an interval the start counts."""
    if len(cell) > _LONGEST:
        return None
    cell = _BLANKS.sub(" ", cell).strip()
    separators = _SEPARATORS
    if _CLOCK_TO_CLOCK.search(cell):
        separators = (_CLOCK_TO_CLOCK,)
    elif (whole := _spell_one(cell, style)) is not None:
        return whole
    for separator in separators:
        halves = separator.split(cell)
        if len(halves) != 2:
            continue
        start, end = (half.strip() for half in halves)
        first = _spell_one(start, style)
        if first is None and (borrowed := _with_the_rest_of(start, end)):
            first = _spell_one(borrowed, style)
        if first is None:
            continue
        if _CLOCK_ALONE.fullmatch(end) or _spell_one(end, style) is not None:
            last = end.rpartition(" ")[2]
            zone = first.zone or (last if last in ZONES else "")
            return Spelled(first.text, first.days, zone, first.kind, end)
    return None


_LONGEST = 100
_FIRST_YEAR, _LAST_YEAR = 1500, 2200


def _with_the_rest_of(start: str, end: str) -> str:
    """Return the start of an interval such as 5-11 January 2015 with the month or year of its end; else empty."""
    if re.fullmatch(r"\d{1,2}\.?", start) and (match := re.fullmatch(r"\d{1,2}(?P<rest>\D.*)", end)):
        return start.rstrip(".") + match["rest"]
    if not re.search(r"\d{4}", start) and (year := re.search(r"(?<!\d)\d{4}(?!\d)", end)):
        return f"{start}{'' if start.endswith('.') else ' '}{year[0]}"
    return ""


def _spell_one(cell: str, style: str) -> Spelled | None:
    """Return a cell that is no interval as a usual date."""
    cell, zone = _without_zone(cell)
    offset = ""
    if match := _OFFSET.search(cell):
        without = cell[: match.start()]
        if _ENDS_IN_CLOCK.search(without):
            cell, offset = without, match["offset"]
    dated, clock, days = _split_clock(cell)
    if clock is None:
        return None
    read = _read_date(dated, style)
    if read is None or (offset and not clock):
        return None
    text, kind = read
    if clock and kind not in ("date", "yearday"):
        return None
    return Spelled(f"{text} {clock}{offset}" if clock else text, days, zone, kind)


def _without_zone(cell: str) -> tuple[str, str]:
    """Return a cell without the name of a zone, and that name, empty without one."""
    if match := _BRACKETS.search(cell):
        inside = match["inside"]
        cell = cell[: match.start()]
        if inside in ZONES and not _OFFSET.search(cell):
            return cell, inside
    for match in re.finditer(r"(?<![^\s\d])[A-Z]{2,5}(?!\S)", cell):
        if match[0] in ZONES and ":" in cell[: match.start()]:
            return (cell[: match.start()].rstrip() + cell[match.end() :]).strip(), match[0]
    return cell, ""


_WHOLE_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
_SPLITS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (re.compile(r"(?P<date>\d{8})[T _-](?P<clock>\d{4,6}(?:[.,]\d+)?)"), _COMPACT_CLOCK),
    (re.compile(rf"(?P<date>{_WHOLE_DATE})[T _](?P<clock>\d{{4}})"), _COMPACT_CLOCK),
    (re.compile(r"(?P<date>\d{8}|\d{4}-\d{1,2}-\d{1,2})[T _:-] ?(?P<clock>\d{1,2}[:.hH].*|\d{2})"), _CLOCK_ALONE),
    (re.compile(r"(?P<date>.*(?:[A-Za-z]{3}|/)\d{2,4}):(?P<clock>\d{1,2}:\d{2}.*)"), _CLOCK_ALONE),
    (re.compile(rf"(?P<date>.+?)[T _](?P<clock>\d{{1,2}}(?:[:.hH]\d.*|[hH]| [Uu]hr| uur| ?{_HALF}))"), _CLOCK_ALONE),
    (re.compile(rf"(?P<date>{_WHOLE_DATE}) (?P<clock>\d{{2}})"), _CLOCK_ALONE),
)


def _split_clock(cell: str) -> tuple[str, str | None, int]:
    """Return the date, the clock as HH:MM:SS, empty without one, and the days to add; None for an impossible clock."""
    cell = _AT.sub(" ", cell)
    if _read_period(cell) or re.fullmatch(r"\D*\d{1,2}\D* \d{4}", cell):
        return cell, "", 0  # 5 Jan 2021 has no clock of 20:21
    for split, form in _SPLITS:
        match = split.fullmatch(cell)
        if match and (clock := form.fullmatch(match["clock"])):
            return _date_and_clock(match["date"], clock)
    if (match := _CLOCK_INSIDE.search(cell)) and (clock := _CLOCK_ALONE.fullmatch(match[0])):
        rest = f"{cell[: match.start()]} {cell[match.end() :]}".strip()
        return _date_and_clock(_BLANKS.sub(" ", rest), clock)
    return cell, "", 0


def _date_and_clock(dated: str, clock: re.Match[str]) -> tuple[str, str | None, int]:
    seconds = clock_seconds(clock)
    if seconds is None:
        return dated, None, 0
    days, inside = divmod(seconds, 86_400)
    part = clock.groupdict().get("part")
    text = f"{inside // 3600:02}:{inside // 60 % 60:02}:{inside % 60:02}" + (f".{part}" if part else "")
    return dated.rstrip(" ,T"), text, days


def clock_seconds(clock: re.Match[str]) -> int | None:
    """Return the whole seconds since midnight of a match with hour, minute and second; None if there is no such time.

    24:00 is the end of the day.
    """
    parts = clock.groupdict()
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if half := parts.get("half"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half[0] in "pP" else 0)
    if minute > 59 or second > 59 or hour > 24 or (hour == 24 and (minute or second)):
        return None
    return hour * 3600 + minute * 60 + second


def _read_date(dated: str, style: str) -> tuple[str, str] | None:
    """Return a date without a clock as text that is usual, and its kind."""
    dated = _without_weekday(dated.strip(" ,"))
    joined = re.sub(r"(?<=\d[./]) (?=\d)", "", dated.removesuffix(".") if dated.count(".") == 3 else dated)
    joined = re.sub(r"(\d{4})年 ?(\d{1,2})月 ?(\d{1,2})日", r"\1-\2-\3", joined)
    if match := _NUMERIC.fullmatch(joined):
        if match["a"] or match["b"]:
            return joined, "date"
        month, year = re.split(r"\D", joined)
        return (f"{year}-{int(month):02}", "month") if 1 <= int(month) <= 12 else None
    if re.fullmatch(r"(?:1[6-9]|2[0-2])\d{6}", joined):
        return _as_date(joined[:4], joined[4:6], joined[6:])
    return _read_period(dated) or _read_named(dated, style)


def _as_date(year: str, month: str | int, day: str | int) -> tuple[str, str] | None:
    y, m, d = int(year), int(month), int(day)
    return (f"{y:04}-{m:02}-{d:02}", "date") if 1 <= m <= 12 and 1 <= d <= monthrange(y, m)[1] else None


def _without_weekday(dated: str) -> str:
    """Return the date without the name of a weekday before or behind it."""
    words = WORD.findall(dated)
    if not words:
        return dated
    if plain_word(words[0]) in WEEKDAYS and (month_of(words[0]) is None or len(words) > 1):
        rest = re.sub(rf"^{re.escape(words[0])}[.,]* ?(?=[\w])", "", dated)
        if rest != dated and not re.fullmatch(r"\d{1,4}", rest):
            return rest
    return re.sub(rf"[ ,(]+{re.escape(words[-1])}\.?\)?$", "", dated) if plain_word(words[-1]) in WEEKDAYS else dated


def _read_period(dated: str) -> tuple[str, str] | None:
    """Return the first day of a period, such as 2015Q1 or 2015-W03."""
    for kind, form in _PERIOD_FORMS:
        if (match := form.fullmatch(dated)) and _FIRST_YEAR <= int(match["year"]) <= _LAST_YEAR:
            day = first_day(kind, int(match["year"]), int(match["number"] or 1), match.groupdict().get("day"))
            return None if day is None else (day.isoformat(), kind)
    return None


def first_day(kind: str, year: int, number: int, weekday: str | None = None) -> date | None:
    """Return the first day of a period of a year, None if the year has no such period."""
    if kind in _MONTHS_OF:
        month = 1 + _MONTHS_OF[kind] * (number - 1)
        return date(year, month, 1) if 1 <= month <= 12 else None
    if kind == "yearday":
        day = date(year, 1, 1) + timedelta(days=number - 1)
        return day if number >= 1 and day.year == year else None
    try:
        return date.fromisocalendar(year, number, int(weekday or 1))
    except ValueError:
        return None


_MONTHS_OF = {"year": 12, "half": 6, "quarter": 3, "month": 1}


def _read_named(dated: str, style: str) -> tuple[str, str] | None:
    if match := _PASTED.fullmatch(dated):
        dated = f"{match['day']} {match['month']} {match['year']}"
    words = [word for word in WORD.findall(_ORDINAL.sub("", dated)) if plain_word(word) not in _LINKS]
    if len(words) != 1 or (month := month_of(words[0])) is None:
        return None
    rest = _ORDINAL.sub("", dated)
    if not re.fullmatch(r"[\d\s\w.,/'\u2019-]*", rest):
        return None
    numbers = re.findall(r"\d+", rest)
    years = [number for number in numbers if len(number) == 4]
    days = [number for number in numbers if len(number) <= 2]
    if len(numbers) > 2 or len(years) + len(days) != len(numbers):
        return None
    if style == PLAIN:
        if len(years) != 1:
            return None
        return _as_date(years[0], month, days[0]) if days else (f"{years[0]}-{month:02}", "month")
    if years or not numbers:
        return None
    short = numbers[0 if style == YEAR_FIRST else -1]
    year = f"{2000 + int(short) if int(short) <= 68 else 1900 + int(short)}"  # as `strptime` reads it
    if len(numbers) == 2:  # 21-Jan-05 or 05-Jan-21
        return _as_date(year, month, numbers[-1 if style == YEAR_FIRST else 0])
    is_in_front = dated[0].isdigit()  # 21-Jan, not Jan-21
    return (f"{year}-{month:02}", "month") if is_in_front == (style == YEAR_FIRST) else None
