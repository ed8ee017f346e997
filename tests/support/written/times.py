"""Times as they are written: numbers, several columns, periods, zones, and dates across the columns."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from tests.support.written.base import Written, cells_of, made, number, simple, write

Stamps = Callable[[pd.DatetimeIndex], Sequence[str]]

ZONE = r"data\.time_zone="
COLUMN = r"data\.time_column="
NO_TIMES = r"no column holds dates|data\.(time_column|date_format)"


def form(pattern: str) -> Stamps:
    """Return a function that writes times in this format."""
    return lambda times: list(times.strftime(pattern))


def since_1970(unit: int) -> Stamps:
    """Return a function that writes times as a number of units of so many nanoseconds since 1970."""
    return lambda times: [str(value // unit) for value in times.as_unit("ns").asi8]


def serial_days(digits: int) -> Stamps:
    """Return a function that writes times as a spreadsheet's number of days since 1899-12-30."""

    def write_days(times: pd.DatetimeIndex) -> list[str]:
        days = (times - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)
        return [f"{day:.{digits}f}" for day in days]

    return write_days


def parts_of(pattern: str, names: Sequence[str] = ()) -> Stamps:
    """Return a function that writes times by their year `y`, quarter `q`, day `d` and the name of the month `m`."""

    def write_parts(times: pd.DatetimeIndex) -> list[str]:
        months = [names[month - 1] if names else "" for month in times.month]
        return [pattern.format(y=t.year, q=t.quarter, d=t.day, m=m) for t, m in zip(times, months, strict=True)]

    return write_parts


def spans(pattern: str, gap: str, length: pd.Timedelta) -> Stamps:
    """Return a function that writes the time, the gap, and the time so much later."""
    return lambda times: [f"{time:{pattern}}{gap}{time + length:{pattern}}" for time in times]


def fixed(texts: Sequence[str]) -> Stamps:
    """Return a function that writes these texts, whatever the times."""
    return lambda times: texts


GERMAN = (
    *("Januar", "Februar", "März", "April", "Mai", "Juni"),
    *("Juli", "August", "September", "Oktober", "November", "Dezember"),
)
FRENCH = (
    *("janvier", "février", "mars", "avril", "mai", "juin"),
    *("juillet", "août", "septembre", "octobre", "novembre", "décembre"),
)
SPANISH = (
    *("enero", "febrero", "marzo", "abril", "mayo", "junio"),
    *("julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"),
)

LENGTHS = {"h": pd.Timedelta(hours=1), "15min": pd.Timedelta(minutes=15), "D": pd.Timedelta(days=1)} | {
    "W-MON": pd.Timedelta(days=7)
}


def numbers() -> Iterator[Written]:
    """Yield times that are numbers, in a column whose name means time, and in one whose name does not."""
    for kind, step, pattern, names in (
        ("day-numbers", "D", "%Y%m%d", ("Datum", "day", "DATE")),
        ("month-numbers", "MS", "%Y%m", ("month", "Monat", "yyyymm")),
        ("hour-numbers", "h", "%Y%m%d%H", ("time", "Zeit", "valid_time")),
        ("minute-numbers", "30min", "%Y%m%d%H%M", ("timestamp", "datetime", "Fecha")),
        ("year-numbers", "YS", "%Y", ("Year", "Jahr", "año")),
    ):
        start = "1781-01-01" if step == "YS" else "2003-05-01"
        for name in names:
            yield simple(kind, name, form(pattern), time=name, step=step, start=start)
    for kind, unit, names in (
        ("epoch-seconds", 10**9, ("timestamp", "unix", "ts")),
        ("epoch-milliseconds", 10**6, ("time", "epoch", "close_time")),
        ("epoch-microseconds", 10**3, ("timestamp", "ts_us", "event_time")),
        ("epoch-nanoseconds", 1, ("time", "timestamp_ns", "datetime")),
    ):
        for name, step in zip(names, ("h", "15min", "D"), strict=True):
            yield simple(kind, name, since_1970(unit), time=name, step=step, start="2019-11-01")
    for name, step, digits in (("Date", "D", 0), ("Datum", "h", 10), ("time", "15min", 9), ("Zeitpunkt", "30min", 6)):
        yield simple("serial-days", name, serial_days(digits), time=name, step=step, start="2018-02-03")
    for name, pattern, step in (("x", "%Y%m%d", "D"), ("key", "%Y%m%d%H", "h"), ("no", "%Y%m", "MS")):
        yield simple("numbers-without-name", name, form(pattern), time=name, step=step, refusal=COLUMN)
    frame = made(step="D", start="2019-01-01")
    for spelling, name in (("count", "visitors"), ("code", "zip"), ("reading", "meter")):
        counts = [str(20190101 + 3 * place**2) for place in range(len(frame))]
        content = write([name, *frame.columns], cells_of(frame, counts))
        yield Written("counts-are-no-times", spelling, "table.csv", content, refusal=NO_TIMES)


def _columns(
    kind: str,
    spelling: str,
    head: Sequence[str],
    parts: Sequence[Stamps],
    frame: pd.DataFrame,
    truth: pd.DataFrame | None = None,
    **more: object,
) -> Written:
    times = pd.DatetimeIndex(frame.index)
    columns = [part(times) for part in parts]
    cells = [
        [*row[:-1], *row[-1]] for row in zip(*columns, [row[1:] for row in cells_of(frame, columns[0])], strict=True)
    ]
    content = write([*head, *frame.columns], cells)
    right = frame if truth is None and "refusal" not in more else truth
    return Written(kind, spelling, "table.csv", content, truth=right, **more)  # type: ignore[arg-type]


def _plain(pattern: str) -> Stamps:
    """Return a function that writes times without leading zeros."""
    return lambda times: [str(int(text)) for text in times.strftime(pattern)]


def several_columns() -> Iterator[Written]:
    """Yield times in two and more columns."""
    hours = made(start="2022-10-10", seed=201)
    for head, day, clock in (
        (("Date", "Time"), "%d/%m/%Y", "%H:%M:%S"),
        (("Datum", "Uhrzeit"), "%d.%m.%Y", "%H.%M.%S"),
        (("Fecha", "Hora"), "%Y-%m-%d", "%H:%M"),
        (("date", "time"), "%Y-%m-%d", "%H%M"),
        (("Date", "Time (EST)"), "%m/%d/%Y", "%I:%M %p"),
        (("Datum", "Zeit"), "%Y-%m-%d", "%H:%M:%S"),
        (("Data", "Ora"), "%d/%m/%Y", "%H.%M"),
        (("DATE", "HOUR"), "%Y%m%d", "%H:%M"),
    ):
        for step, word in (("h", "hourly"), ("15min", "quarters")):
            frame = hours if step == "h" else made(start="2022-10-10", seed=202, step=step, rows=400)
            yield _columns("date-and-time", f"{clock} {head[1]} {word}", head, (form(day), form(clock)), frame)
    for head in (("Year", "Month"), ("Jahr", "Monat"), ("año", "mes"), ("annee", "mois")):
        frame = made(start="1990-01-01", step="MS", seed=203)
        yield _columns("year-month", head[0], head, (form("%Y"), _plain("%m")), frame)
    frame = made(start="1990-01-01", step="MS", seed=204)
    yield _columns("year-month-name", "short", ("Year", "Month"), (form("%Y"), form("%b")), frame)
    yield _columns("year-month-name", "long", ("year", "month"), (form("%Y"), form("%B")), frame)
    yield _columns("year-month-name", "month first", ("Month", "Year"), (form("%B"), form("%Y")), frame)
    quarters = made(start="1950-01-01", step="QS", seed=205)
    for head, pattern in ((("Year", "Quarter"), "Q{}"), (("Jahr", "Quartal"), "{}"), (("year", "qtr"), "{}")):
        stamps = [pattern.format(quarter) for quarter in pd.DatetimeIndex(quarters.index).quarter]
        parts = (form("%Y"), fixed(stamps))
        yield _columns("year-quarter", f"{head[1]} {pattern}", head, parts, quarters)
    days = made(start="2010-01-01", step="D", seed=206, rows=400)
    for head in (("Year", "Month", "Day"), ("Jahr", "Monat", "Tag"), ("YYYY", "MM", "DD")):
        yield _columns("year-month-day", head[0], head, (form("%Y"), _plain("%m"), _plain("%d")), days)
    for head, parts in (
        (("year", "month", "day", "hour"), (form("%Y"), _plain("%m"), _plain("%d"), _plain("%H"))),
        (("Jahr", "Monat", "Tag", "Stunde"), (form("%Y"), form("%m"), form("%d"), form("%H"))),
        (("No", "year", "month", "day", "hour"), (_row, form("%Y"), _plain("%m"), _plain("%d"), _plain("%H"))),
        (("YY", "MM", "DD", "hh", "mm"), (form("%Y"), form("%m"), form("%d"), form("%H"), form("%M"))),
    ):
        yield _columns("year-month-day-hour", " ".join(head), head, parts, hours)
    yield from _hours_from_one()


def _row(times: pd.DatetimeIndex) -> list[str]:
    return [str(place + 1) for place in range(len(times))]


def _hours_from_one() -> Iterator[Written]:
    frame = made(start="2022-06-10", seed=210)
    for head, pattern in (
        (("Date", "HE"), "{:d}"),
        (("Datum", "Stunde"), "{:02d}"),
        (("day", "Hour Ending"), "{:d}:00"),
    ):
        stamps = [pattern.format(hour + 1) for hour in pd.DatetimeIndex(frame.index).hour]
        parts = (form("%Y-%m-%d"), fixed(stamps))
        yield _columns("hours-from-one", " ".join(head), head, parts, frame)
    for head, step, rows in (
        (("SETTLEMENT_DATE", "SETTLEMENT_PERIOD"), "30min", 400),
        (("Date", "Period"), "30min", 400),
        (("Datum", "Viertelstunde"), "15min", 400),
    ):
        frame = made(start="2022-06-10", seed=211, step=step, rows=rows)
        minutes = pd.Timedelta(step) // pd.Timedelta(minutes=1)
        times = pd.DatetimeIndex(frame.index)
        stamps = [str(minute // minutes + 1) for minute in times.hour * 60 + times.minute]
        parts = (form("%d-%b-%Y"), fixed(stamps))
        yield _columns("periods-of-a-day", " ".join(head), head, parts, frame)


AUTUMN = {"America/New_York": "2023-11-02", "Europe/Berlin": "2023-10-26", "Europe/London": "2023-10-26"}
SPRING = {"America/New_York": "2024-03-08", "Europe/Berlin": "2024-03-28", "Europe/London": "2024-03-28"}


def _second(times: pd.DatetimeIndex) -> np.ndarray:
    """Return a mask of the second of two equal local hours."""
    return np.asarray(times.tz_localize(None).duplicated())


def _first(times: pd.DatetimeIndex) -> np.ndarray:
    """Return a mask of the first of two equal local hours."""
    return np.asarray(times.tz_localize(None).duplicated(keep="last"))


def doubled_hours() -> Iterator[Written]:
    """Yield local times with the doubled hour of autumn: the time zone must be named, and then they are exact."""
    for zone, start in AUTUMN.items():
        times = pd.date_range(start, periods=200, freq="h", tz=zone)
        frame = made(seed=220, times=times)
        local = times.tz_localize(None)
        marked = {
            "02X": [f"{t.hour + 1:02d}{'X' * bool(s)}" for t, s in zip(times, _second(times), strict=True)],
            "2A 2B": [
                f"{t.hour + 1}{'A' * bool(a)}{'B' * bool(b)}"
                for t, a, b in zip(times, _first(times), _second(times), strict=True)
            ],
            "3*": [f"{t.hour + 1}{'*' * bool(s)}" for t, s in zip(times, _second(times), strict=True)],
            "1 to 25": [str(int(hours)) for hours in (times - times.normalize()) / pd.Timedelta(hours=1) + 1],
        }
        for spelling, hours in marked.items():
            parts = (form("%Y-%m-%d"), fixed(hours))
            kind = "hours-of-a-long-day" if spelling == "1 to 25" else "marked-autumn-hour"
            for options in ({}, {"time_zone": zone}):
                more: dict[str, object] = {"options": options} if options else {"refusal": ZONE}
                said = "said" if options else "not said"
                yield _columns(kind, f"{spelling} {zone} {said}", ("Date", "Hour"), parts, frame, **more)
        content = write(["time", *frame.columns], cells_of(frame, [f"{t:%Y-%m-%d %H:%M}" for t in local]))
        yield Written("plain-autumn-hour", f"{zone} not said", "table.csv", content, refusal=ZONE)
        yield Written("plain-autumn-hour", f"{zone} said", "table.csv", content, {"time_zone": zone}, truth=frame)
        spring = made(seed=221, times=pd.date_range(SPRING[zone], periods=200, freq="h", tz=zone))
        texts = list(pd.DatetimeIndex(spring.index).strftime("%Y-%m-%d %H:%M"))
        content = write(["time", *frame.columns], cells_of(spring, texts))
        yield Written("spring-hour", f"{zone} said", "table.csv", content, {"time_zone": zone}, truth=spring)


def zones() -> Iterator[Written]:
    """Yield times with the name of their zone behind them."""
    for zone, start in AUTUMN.items():
        for pattern in ("%Y-%m-%d %H:%M:%S %Z", "%d.%m.%Y %H:%M %Z", "%Y-%m-%dT%H:%M%Z"):
            times = pd.date_range(start if pattern[1] == "Y" else "2023-10-14", periods=340, freq="h", tz=zone)
            frame = made(seed=230, times=times)
            content = write(["time", *frame.columns], cells_of(frame, pattern))
            yield Written("zone-names", f"{pattern} {zone}", "table.csv", content, truth=frame, refusal=ZONE)
            options = {"time_zone": zone}
            yield Written("said-zone-names", f"{pattern} {zone}", "table.csv", content, options, truth=frame)
    times = pd.date_range("2023-10-26", periods=200, freq="h", tz="Europe/Berlin")
    frame = made(seed=231, times=times)
    stamps = [f"{t:%d.%m.%Y %H:%M} {'MESZ' if t.dst() else 'MEZ'}" for t in times]
    content = write(["Zeit", *frame.columns], cells_of(frame, stamps))
    yield Written("zone-names", "MESZ", "table.csv", content, truth=frame, refusal=ZONE)
    for spelling, pattern in (("UTC", "%Y-%m-%d %H:%M UTC"), ("GMT", "%Y-%m-%d %H:%M:%SGMT"), ("Z", "%Y%m%dT%H%M%SZ")):
        yield simple("utc-names", spelling, form(pattern))


def periods() -> Iterator[Written]:
    """Yield quarters, weeks, months and years as they are written."""
    quarters = ("{y}-Q{q}", "Q{q} {y}", "Q{q}/{y}", "{y} Q{q}", "{y}q{q}", "{q}Q{y}", "{q}. Quartal {y}", "{y}:Q{q}")
    for pattern in quarters:
        yield simple("quarters", pattern, parts_of(pattern), time="quarter", step="QS", start="1950-01-01")
    for pattern in ("%G-W%V", "%GW%V", "W%V %G", "%G-W%V-1"):
        yield simple("weeks", pattern, form(pattern), time="week", step="W-MON", start="2015-01-05")
    for pattern in ("%YM%m", "%b %Y", "%B %Y", "%b-%Y", "%Y-%b", "%m/%Y", "%Y/%m", "%m.%Y"):
        yield simple("months", pattern, form(pattern), time="month", step="MS", start="2003-01-01")
    for pattern in ("%b-%y", "%b %y", "%y-%b", "%b '%y"):
        refusal = r"data\.date_format="
        yield simple(
            "months-with-short-years",
            pattern,
            form(pattern),
            time="month",
            step="MS",
            start="2003-01-01",
            refusal=refusal,
        )
    for pattern in (
        *("%B %d, %Y", "%d %B %Y", "%a %b %d %Y", "%A, %B %d, %Y", "%d-%B-%Y", "%Y-%b-%d", "%d. %B %Y"),
        *("%a %d.%m.%Y", "%A %Y-%m-%d", "%b %d %Y", "%a, %d %b %Y"),
    ):
        yield simple("month-and-day-names", pattern, form(pattern), time="day", step="D", start="2021-01-05")
    for language, names, pattern in (
        ("German", GERMAN, "{d}. {m} {y}"),
        ("French", FRENCH, "{d} {m} {y}"),
        ("Spanish", SPANISH, "{d} de {m} de {y}"),
    ):
        yield simple(
            "month-names-of-a-language", language, parts_of(pattern, names), time="day", step="D", start="2021-01-05"
        )
    for pattern in ("%Y-%m-%d %I:%M:%S %p", "%d %B %Y %H:%M", "%B %d, %Y %I:%M %p", "%Y-%m-%d %H.%M", "%Y%m%d %H:%M"):
        yield simple("times-of-day", pattern, form(pattern), start="2021-01-15")


def intervals() -> Iterator[Written]:
    """Yield intervals, of which the start counts."""
    for step, pattern in (
        ("h", "%Y-%m-%d %H:%M"),
        ("15min", "%d.%m.%Y %H:%M"),
        ("D", "%Y-%m-%d"),
        ("W-MON", "%d/%m/%Y"),
    ):
        for gap in (" - ", " \u2013 ", " to ", "/", " bis "):
            if gap == "/" and "/" in pattern:
                continue
            stamps = spans(pattern, gap, LENGTHS[step])
            yield simple("intervals", f"{step}{gap}", stamps, time="interval", step=step, start="2021-02-15")
    for spelling, days in (("Monday to Sunday", 6), ("Monday to Friday", 4), ("Monday to Saturday", 5)):
        stamps = spans("%Y-%m-%d", " - ", pd.Timedelta(days=days))
        yield simple("closed-intervals", spelling, stamps, time="week", step="W-MON", start="2015-01-05")
    for spelling, pattern in (("T", "%Y-%m-%dT%H:%M"), ("Z", "%Y-%m-%dT%H:%M:%SZ"), ("offset", "%Y-%m-%dT%H:%M+00:00")):
        stamps = spans(pattern, "/", pd.Timedelta(hours=1))
        yield simple("iso-intervals", spelling, stamps, start="2021-02-15")


def across() -> Iterator[Written]:
    """Yield tables with a series in each row, and dates as the names of the columns."""
    for spelling, step, pattern, start in (
        ("short days", "D", "{t.month}/{t.day}/{t:%y}", "2020-01-22"),
        ("iso days", "D", "{t:%Y-%m-%d}", "2020-01-22"),
        ("months", "MS", "{t:%Y-%m}", "2005-01-01"),
        ("month names", "MS", "{t:%b %Y}", "2005-01-01"),
        ("years", "YS", "{t:%Y}", "1900-01-01"),
        ("quarters", "QS", "{t:%Y}Q{t.quarter}", "1980-01-01"),
    ):
        for ids in (["store"], ["Country Code", "Country Name"], ["no"]):
            names = [["n1"], ["n2"], ["n3"], ["n4"]] if ids[0] != "no" else [["4"], ["17"], ["23"], ["110"]]
            rows = 120
            frames = [made(rows, start, step, seed=240 + place, names=("value",)) for place in range(4)]
            dates = [pattern.format(t=t) for t in frames[0].index]
            labels = [[name[0], f"Land {name[0]}"][: len(ids)] for name in names]
            cells = [
                [*label, *(number(value, places=2) for value in frame["value"])]
                for label, frame in zip(labels, frames, strict=True)
            ]
            truth = pd.concat([frame.assign(id=name[0]) for frame, name in zip(frames, names, strict=True)])
            content = write([*ids, *dates], cells)
            yield Written("dates-across", f"{spelling} {ids[0]}", "table.csv", content, truth=truth[["id", "value"]])
    frame = made(200, "2019-01-01", "D", seed=250, names=("total",))
    for head in ("", "name", "series"):
        content = write([head, *(f"{t:%Y-%m-%d}" for t in frame.index)], [["total", *map(str, frame["total"])]])
        yield Written("one-row-of-dates", head or "empty", "table.csv", content, truth=frame)


GROUPS = (numbers, several_columns, doubled_hours, zones, periods, intervals, across)
