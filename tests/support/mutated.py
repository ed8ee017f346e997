"""Files of an hourly table with a few mutations, and the series that a sound reading of each gives."""

import csv
import gzip
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from tests.support.small import CONTEXT, hourly

COLUMNS = ["load", "oil", "air"]

WORDS = [
    *("12 kW", "1,234", "#N/A", "n/a", "-", "null", "true", "0x10", "--5", "1e5e", "abc", "#REF!", "5 %", "½", "1.2.3"),
    *("", "NaN", "=1+1", "1 000", "∞", "5-", "(5)", "$5", "1_000", "\uff11\uff12", "\u0661\u0662", "x" * 10**6),
]
"""Texts that are not numbers, or only for some readers."""

ENORMOUS = ["1e30", "1e20", "-1e30", "1e38", "1e300", "inf", "-inf", "1e999", "9" * 400, "-1e25"]
ODD = ["-0.0", "1e-320", "+5", "5.", ".5", "1E2", "007", "0e0", "1000", "1." + "3" * 10**5]

NO_DATES = [
    *("now", "today", "yesterday", "2016-02-30", "2016-13-01 00:00:00", "1500-01-01", "3000-01-01", "", "NaT", "5"),
    *("2016-07-02 24:00:00", "2016-07-02 23:59:60", "01/02/2016", "2016-07-02T05:17:00Z", "16-07-02", "infinity"),
    *("-2016-07-02 00:00:00", "2016-07-02 05:00:00.000000001", "Q3 2016", "\uff12016-07-02", "12:00"),
]
"""Texts that are not dates, or not hours of the table."""

DATE_FORMS = {
    **dict.fromkeys(("%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %I:%M %p"), True),
    **dict.fromkeys(("%Y/%m/%d %H:%M", "%d-%b-%Y %H:%M", "%d %B %Y %H:%M", "%Y-%m-%d %H:%M:%S.%f"), True),
    **dict.fromkeys(("%Y%m%d%H%M", "%s", "%Y-%j %H:%M"), True),
    **dict.fromkeys(("%y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00"), False),
    **dict.fromkeys(("%A %H:%M", "%H:%M", "%Y-%m-%d %I:%M", "%Y-%m-%d", "%m-%d %H:%M"), False),
}
"""Formats of dates, and whether their times may be read."""

HEADERS = {
    **dict.fromkeys(("date,load ,oil,air", " date, load, oil, air", "DATE,load,oil,air", ",load,oil,air"), True),
    **dict.fromkeys(("date,load,oil,air,", "# made by x\ndate,load,oil,air", "sep=,\ndate,load,oil,air"), True),
    **dict.fromkeys(("x" * 10**6 + ",load,oil,air", "\0,load,oil,air", "\ufeffdate,load,oil,air"), True),
    **dict.fromkeys(
        ("date,load,load,air", "date,load,oil", "", "2016-07-01 00:00:00,1,2,3", "date,Load,oil,air"), False
    ),
    **dict.fromkeys(("a,b,c,d", "date,load,oil,air,load", "date;load;oil;air", '"date,load",oil,air'), False),
    **dict.fromkeys((f"date,{name},oil,air" for name in ("=cmd|' /C calc'!A0", "\x1b[31mload", '"=1,2"')), False),
}
"""First lines, and whether the values below them may be read."""


@dataclass(frozen=True)
class Mutated:
    """A mutated file.

    Attributes
    ----------
    truth
        The series of a sound reading, in the order of its times; None: every reading must be refused.
    noted
        Whether a reading must have a note.
    only_finite
        Whether a reading may have other values, since no reader can notice the damage.
    """

    content: bytes = field(repr=False)
    name: str
    truth: pd.DataFrame | None = field(repr=False)
    noted: bool = False
    only_finite: bool = False


@dataclass
class Table:
    """Cells of a table below its header, the row of times first, with what a sound reading gives."""

    header: list[str]
    rows: list[list[str]]
    truth: pd.DataFrame | None
    trained: bool
    step: str = "h"
    noted: bool = False

    @classmethod
    def of(cls, frame: pd.DataFrame, trained: bool) -> "Table":
        """Return the cells of a frame with the column `date`; `trained`: for the reading of a trained model."""
        return cls(list(frame), _cells(frame), frame.set_index("date"), trained)

    def row(self, draw: st.DrawFn) -> int:
        """Draw a measured row, except the first and the last two."""
        return draw(st.integers(1, min(len(self.rows), CONTEXT) - 3))

    def put(self, row: int, column: str, cell: str, value: float | None = None) -> None:
        """Replace a cell; `value` is its number, None: it has none."""
        self.rows[row][self.header.index(column)] = cell
        if value is None:
            self.truth = None
        elif self.truth is not None:
            time = pd.Timestamp(self.rows[row][self.header.index("date")])
            self.truth.loc[time, column] = value

    def set_times(self, times: Sequence[Any]) -> None:
        """Write other times to all rows."""
        place = self.header.index("date")
        for row, time in zip(self.rows, times, strict=True):
            row[place] = str(time)


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    return [["" if pd.isna(cell) else str(cell) for cell in row] for row in frame.itertuples(index=False)]


# --- mutations of the whole table, in the order in which they are applied


def columns(table: Table, draw: st.DrawFn) -> None:
    """Add columns that have no role, reverse the columns, or write a constant."""
    kind = draw(st.sampled_from(["text", "reversed", "many", "constant", "long name"]))
    if kind == "constant":
        name = draw(st.sampled_from(COLUMNS))
        for row in range(len(table.rows)):
            table.put(row, name, "5.0", 5.0)
    elif kind == "reversed":
        table.header, table.rows = table.header[::-1], [row[::-1] for row in table.rows]
    else:
        count = draw(st.sampled_from([50, 400])) if kind == "many" else 1
        table.header += ["n" * 10**5] if kind == "long name" else [f"x{place}" for place in range(count)]
        table.rows = [row + ["x" if kind == "text" else "1.0"] * count for row in table.rows]


def other_unit(table: Table, draw: st.DrawFn) -> None:
    """Write a column in another unit, which only a training may learn."""
    name, factor = draw(st.sampled_from(["load", "oil"])), draw(st.sampled_from([1e36, 1e20, -1e30, 1e25]))
    assert table.truth is not None
    for row, value in enumerate(table.truth[name] * factor):
        table.put(row, name, str(value), None if table.trained else value)


def other_step(table: Table, draw: st.DrawFn) -> None:
    """Use another time step, which a trained model refuses."""
    table.step = draw(st.sampled_from(["2h", "30min", "D", "1s", "7D", "MS", "59min"]))
    times = pd.date_range("2016-07-01", periods=len(table.rows), freq=table.step)
    table.set_times(times)
    table.truth = None if table.trained or table.truth is None else table.truth.set_axis(times)


def odd_number(table: Table, draw: st.DrawFn) -> None:
    """Replace a value by an unusual but valid number."""
    cell = draw(st.sampled_from(ODD))
    table.put(table.row(draw), draw(st.sampled_from(COLUMNS)), cell, float(cell))


def short(table: Table, draw: st.DrawFn) -> None:
    """Keep only a few rows, or none."""
    count = draw(st.sampled_from([0, 1, 2, 3, 20, CONTEXT - 1]))
    table.rows = table.rows[:count]
    table.truth = None if table.trained or table.truth is None or count < 2 else table.truth.iloc[:count]


def future_rows(table: Table, draw: st.DrawFn) -> None:
    """Append rows without targets, which are no part of the series."""
    if not table.rows:
        return
    count = draw(st.sampled_from([1, 12, 96]))
    first = table.rows[0][table.header.index("date")]
    times = pd.date_range(first, periods=len(table.rows) + count, freq=table.step)[-count:]
    air = draw(st.sampled_from(["20.0", "20.0", ""]))
    cells = {"load": "", "oil": "", "air": air}
    table.rows += [[cells.get(name, str(time) if name == "date" else "1.0") for name in table.header] for time in times]
    table.noted = True


# --- flaws, each of which must be refused


def word(table: Table, draw: st.DrawFn) -> None:
    """Replace a number by text."""
    table.put(table.row(draw), draw(st.sampled_from(COLUMNS)), draw(st.sampled_from(WORDS)))


def enormous(table: Table, draw: st.DrawFn) -> None:
    """Replace a value by a number out of range; a training compares its scale later."""
    cell, row = draw(st.sampled_from(ENORMOUS)), table.row(draw)
    value = None if table.trained or abs(float(cell)) > float(np.finfo(np.float32).max) else float(cell)
    table.put(row, draw(st.sampled_from(COLUMNS)), cell, value)


def date_cell(table: Table, draw: st.DrawFn) -> None:
    """Replace a date by another text."""
    table.put(table.row(draw), "date", draw(st.sampled_from(NO_DATES)))


def off_grid(table: Table, draw: st.DrawFn) -> None:
    """Move one time off the grid."""
    row, shift = table.row(draw), draw(st.sampled_from(["17min", "-1s", "1ns", "30min", "-29min", "1ms"]))
    time = pd.Timestamp(table.rows[row][table.header.index("date")])
    table.put(row, "date", str(time + pd.Timedelta(shift)))


def ragged(table: Table, draw: st.DrawFn) -> None:
    """Add cells to a row, or remove some."""
    row = table.row(draw)
    cells = table.rows[row]
    table.rows[row] = draw(st.sampled_from([[*cells, "5"], cells[:-1], cells[:1], ["", *cells], cells * 2]))
    table.truth = None


def repeated_header(table: Table, draw: st.DrawFn) -> None:
    """Repeat the header among the rows."""
    table.rows.insert(table.row(draw), list(table.header))
    table.truth = None


def doubled(table: Table, draw: st.DrawFn) -> None:
    """Repeat a time, with the same or other values."""
    row = table.row(draw)
    copy = list(table.rows[row])
    copy[table.header.index(draw(st.sampled_from(COLUMNS)))] = draw(st.sampled_from([copy[-1], "5.5"]))
    table.rows.insert(draw(st.sampled_from([row, len(table.rows)])), copy)
    table.truth = None


def gap(table: Table, draw: st.DrawFn) -> None:
    """Remove rows, or some values of a column."""
    length = draw(st.sampled_from([1, 1, 2, 5]))
    row = draw(st.integers(1, CONTEXT - 10))
    if draw(st.booleans()):
        del table.rows[row : row + length]
        table.truth = None
    else:
        name = draw(st.sampled_from(COLUMNS))
        for place in range(row, row + length):
            table.put(place, name, "")


def panel(table: Table, draw: st.DrawFn) -> None:
    """Write several series below each other, or in turn."""
    count = draw(st.sampled_from([2, 3, 5]))
    place = table.header.index("load")
    rows = []
    for number in range(count):
        rows += [[*row[:place], row[place] + str(number), *row[place + 1 :], str(number)] for row in table.rows]
    table.header = [*table.header, "meter"]
    table.rows = sorted(rows) if draw(st.booleans()) else rows
    table.truth = None


def missing_column(table: Table, draw: st.DrawFn) -> None:
    """Remove a column, or all but the dates."""
    names = draw(st.sampled_from([["load"], ["air"], ["date"], COLUMNS]))
    kept = [place for place, name in enumerate(table.header) if name not in names]
    table.header, table.rows = [table.header[place] for place in kept], [[row[p] for p in kept] for row in table.rows]
    table.truth = None


# --- mutations of dates and order, after the flaws


def _is_time(cell: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", cell) is not None


def _write_times(table: Table, form: str, first: int = 0) -> None:
    place = table.header.index("date")
    for row in table.rows[first:]:
        if len(row) > place and _is_time(row[place]):
            row[place] = pd.Timestamp(row[place]).strftime(form)


def date_form(table: Table, draw: st.DrawFn) -> None:
    """Write all dates in another format."""
    form = draw(st.sampled_from(sorted(DATE_FORMS)))
    if table.step == "h" and len(table.rows) >= CONTEXT and "date" in table.header:
        _write_times(table, form)
        table.truth = table.truth if DATE_FORMS[form] else None


def mixed_dates(table: Table, draw: st.DrawFn) -> None:
    """Write the dates of the last rows in another format, which need not be understood."""
    forms = ["%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%Y-%m-%dT%H:%M:%S+02:00", "%Y-%m-%d %H"]
    form, first = draw(st.sampled_from(forms)), draw(st.integers(1, CONTEXT))
    if table.step == "h" and "date" in table.header:
        _write_times(table, form, first)


def disorder(table: Table, draw: st.DrawFn) -> None:
    """Change the order of the rows."""
    kind, rows = draw(st.sampled_from(["swapped", "shuffled", "reversed"])), table.rows
    if kind == "swapped" and len(rows) > CONTEXT:
        row = table.row(draw)
        rows[row : row + 2] = rows[row : row + 2][::-1]
    elif kind == "shuffled":
        table.rows = draw(st.randoms(use_true_random=False)).sample(rows, len(rows))
    else:
        table.rows = rows[::-1]
    table.noted |= len(rows) > 1 and table.rows != rows


WHOLE = (columns, odd_number, other_unit, other_step, short, future_rows)
FLAWS = (word, enormous, date_cell, off_grid, ragged, repeated_header, doubled, gap, panel, missing_column)
CELLS = {mutation.__name__: mutation for mutation in (*WHOLE, *FLAWS, date_form, mixed_dates, disorder)}
"""Mutations of the cells, in the order in which they are applied."""

# --- forms of the text and of its bytes: each is read as it was, or refused

MARKS = st.sampled_from(['"', "'", "`", "“"])


def _text(table: Table, **options: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", **options).writerows([table.header, *table.rows])
    return text.getvalue()


def _decimal_comma(table: Table, delimiter: str) -> str:
    comma = re.compile(r"(-?\d+)\.(\d+)$")
    return _text(
        replace(table, rows=[[comma.sub(r"\1,\2", cell) for cell in row] for row in table.rows]), delimiter=delimiter
    )


def _quoted(table: Table, mark: str) -> str:
    lines = [",".join(f"{mark}{cell}{mark}" for cell in row) for row in [table.header, *table.rows]]
    return "\n".join([*lines, ""])


def _with_blank_lines(lines: list[str], draw: st.DrawFn) -> str:
    blank = draw(st.sampled_from(["", ",,,", "   ", '"","","",""']))
    place = draw(st.integers(1, len(lines)))
    return "\n".join([*lines[:place], *[blank] * (5 if place == len(lines) else 1), *lines[place:], ""])


def _with_header(table: Table, draw: st.DrawFn) -> str:
    first, body = _text(table).split("\n", 1)
    if first != ",".join(["date", *COLUMNS]):
        return f"{first}\n{body}"
    head = draw(st.sampled_from([*sorted(HEADERS), "date,oil,load,air"]))
    if head == "date,oil,load,air" and table.truth is not None:
        table.truth = table.truth.rename(columns={"load": "oil", "oil": "load"})
    elif not HEADERS.get(head, True):
        table.truth = None
    return f"{head}\n{body}"


def _put(content: Any, piece: Any, draw: st.DrawFn, length: int = 0) -> Any:
    place = draw(st.integers(0, len(content) - 1))
    return content[:place] + piece + content[place + length :]


DELIMITERS = [";", "\t", "|", " ", ":", ", ", ",,", " ,", "\x1f"]
LINE_ENDS = ["\r\n", "\r", "\n\n", "\r\r\n", "\x0b", "\u2028"]

FORMS: dict[str, Callable[[Table, st.DrawFn], str]] = {
    "delimiter": lambda table, draw: _text(table).replace(",", draw(st.sampled_from(DELIMITERS))),
    "decimal_comma": lambda table, draw: _decimal_comma(table, draw(st.sampled_from([",", ";"]))),
    "quoted": lambda table, draw: _quoted(table, draw(MARKS)),
    "one_mark": lambda table, draw: _put(_text(table), draw(MARKS), draw),
    "one_comma": lambda table, draw: _put(_text(table), ",", draw),
    "blank_lines": lambda table, draw: _with_blank_lines(_text(table).splitlines(), draw),
    "line_ends": lambda table, draw: _text(table).replace("\n", draw(st.sampled_from(LINE_ENDS))),
    "header": _with_header,
}

ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7"]
PIECES = [b"\0", b"\xff\xfe", b"\x1b[31m", b"?"]

BYTES: dict[str, Callable[[bytes, st.DrawFn], bytes]] = {
    "encoding": lambda raw, draw: raw.decode().encode(draw(st.sampled_from(ENCODINGS)), "replace"),
    "binary": lambda raw, draw: _put(raw, draw(st.sampled_from(PIECES)), draw, 1),
    "gzip": lambda raw, draw: gzip.compress(raw),
    "gzip_cut": lambda raw, draw: gzip.compress(raw)[: draw(st.integers(0, len(raw) // 9))],
    "gzip_and_more": lambda raw, draw: gzip.compress(raw) + b"garbage",
    "gzip_not_packed": lambda raw, draw: raw,
    "gzip_packed_twice": lambda raw, draw: gzip.compress(gzip.compress(raw)),
    "gzip_of_two": lambda raw, draw: gzip.compress(raw[: len(raw) // 2]) + gzip.compress(raw[len(raw) // 2 :]),
    "gzip_flipped": lambda raw, draw: flipped(gzip.compress(raw, mtime=0), draw),
}
"""Changes of the bytes, among them ways to compress them."""

NAMES = ["my.csv", "=cmd.csv", "a b.csv", "a\nb.csv", "x.CSV", "\x1b[31m.csv", "ü.csv", "'.csv", "x.csv.csv", "-.csv"]


def flipped(raw: bytes, draw: st.DrawFn) -> bytes:
    """Flip one bit."""
    place, bit = draw(st.integers(0, len(raw) - 1)), draw(st.integers(0, 7))
    return raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Draw an hourly table of the tiny run's levels: dates, two targets, a covariate."""
    start = draw(st.sampled_from(["2016-07-01", "2016-12-30 05:00", "2019-03-30"]))
    frame = hourly(draw(st.integers(CONTEXT + 4, CONTEXT + 16)), start, seed=draw(st.integers(0, 9)))
    return frame.round({name: draw(st.integers(1, 9)) for name in COLUMNS})


@st.composite
def csv_files(draw: st.DrawFn, trained: bool, kind: str | None = None) -> Mutated:
    """Draw a CSV file with one kind of mutation, or with several."""
    table = Table.of(draw(frames()), trained)
    flaws = [mutation.__name__ for mutation in FLAWS]
    others = st.lists(st.sampled_from([name for name in CELLS if name not in flaws]), max_size=2, unique=True)
    cells = [*draw(others), draw(st.sampled_from(["", *flaws]))] if kind is None else [kind]
    for name, mutation in CELLS.items():
        if name in cells and (mutation not in FLAWS or len(table.rows) > CONTEXT):
            mutation(table, draw)
    form = draw(st.sampled_from(["", *FORMS])) if kind is None else kind
    text = FORMS[form](table, draw) if form in FORMS else _text(table)
    change = draw(st.sampled_from(["", *BYTES])) if kind is None else kind
    content = BYTES[change](text.encode(), draw) if change in BYTES else text.encode()
    name = "my.csv.gz" if change.startswith("gzip") else draw(st.sampled_from(NAMES))
    return Mutated(content, name, table.truth, table.noted)


PARQUET: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "sound": (lambda frame: frame, "same"),
    "text": (lambda frame: frame.astype(str), "same"),
    "seconds": (lambda frame: frame.assign(date=frame["date"].astype("datetime64[s]")), "same"),
    "an index": (lambda frame: frame.set_index("date"), "same"),
    "categories": (lambda frame: frame.assign(load=frame["load"].astype("category")), "same"),
    "bytes": (lambda frame: frame.assign(load=[repr(cell).encode() for cell in frame["load"]]), "same"),
    "float16": (lambda frame: frame.assign(oil=frame["oil"].astype("float16")), "its own"),
    "large integers": (lambda frame: frame.assign(load=2**62), "its own"),
    "a zone": (lambda frame: frame.assign(date=frame["date"].dt.tz_localize("UTC")), "its own, untrained"),
    "two levels": (lambda frame: frame.set_index(["date", "air"]), "refused"),
    "booleans": (lambda frame: frame.assign(load=True), "refused"),
    "lists": (lambda frame: frame.assign(load=[[1.0]] * len(frame)), "refused"),
    "objects": (lambda frame: frame.assign(load=[{"a": 1.0}] * len(frame)), "refused"),
    "durations": (lambda frame: frame.assign(load=pd.to_timedelta(frame["load"], unit="s")), "refused"),
    "dates twice": (lambda frame: frame.assign(load=frame["date"]), "refused"),
    "no rows": (lambda frame: frame.iloc[:0], "refused"),
    "an empty row": (lambda frame: frame.mask(frame.index.to_series() == 5), "refused"),
    "infinity": (lambda frame: frame.assign(load=np.inf), "refused"),
    "cut": (lambda frame: frame, "refused"),
    "flipped": (lambda frame: frame, "finite"),
    "a CSV file": (lambda frame: frame, "refused"),
}
"""Changes of a Parquet file, and the values that may be read."""


@st.composite
def parquet_files(draw: st.DrawFn, trained: bool, kind: str) -> Mutated:
    """Draw a Parquet file of other types, or a damaged one."""
    frame = draw(frames())
    change, values = PARQUET[kind]
    changed = change(frame)
    file = io.BytesIO()
    changed.to_parquet(file)
    raw = file.getvalue()
    if kind == "cut":
        raw = raw[: draw(st.integers(0, len(raw) - 1))]
    elif kind == "flipped":
        raw = flipped(raw, draw)
    elif kind == "a CSV file":
        raw = frame.to_csv(index=False).encode()
    refused = values == "refused" or (trained and values == "its own, untrained")
    truth = None if refused else (changed if values.startswith("its own") else frame).set_index("date")
    return Mutated(raw, "my.parquet", truth, only_finite=values == "finite")
