"""Layout of a text file: its delimiter, its header among other lines, and the lines below its data."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from forecast.common.errors import InputError
from forecast.common.text import counted, is_plain

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Delimiters that are recognized, with their names in messages; the first is the usual one."""

MARKS = (".", ",", " ", "'")
"""Marks of decimals (the first two) and of thousands; a blank stands for all blanks, an apostrophe for both."""

_SAMPLE, _RECORDS, _LINES, _TAIL, _CELLS = 2**20, 1000, 8, 2**14, 20_000
"""Bytes, records and fewest lines at the start of a file, bytes at its end, and cells by which a row is known."""

_AGREE = 0.9
"""Least share of the records that have the same number of cells under the right delimiter."""

_COMMENTS = ("#", "%", "//", "!", "*")
_MOST_FOOTERS = 50
_EMPTY = {"", "na", "n/a", "nan", "null", "none", "-"}
_LETTER = re.compile(r"[^\W\d_]")
_EXPONENT = re.compile(r"(?<=\d)[eE](?=[+-]?\d)")
_PARTS = re.compile(r"\d[^\d]+(?=\d)|[A-Za-z]")
"""What is between the parts of a time, each with a digit or a letter."""
_TIME_WORD = re.compile(
    r"\W*(?:date|time|datetime|timestamp|day|month|week|quarter|year|period|interval|hour|mtu|ds|tmstamp|datum|zeit|"
    r"uhrzeit|zeitstempel|tag|monat|jahr|woche|fecha|hora|dia|día|mes|año|jour|mois|année|heure|data|giorno|ora|anno|"
    r"dato|utc|valid|observation)\b|.*(?:date|time|datum|zeit|fecha)\b",
    re.IGNORECASE,
)
"""Names of a column of times, by which a header is told from other lines of text."""
_TOTAL = re.compile(
    r"\W*(?:grand |sub)?-?(?:total|sum|summe|gesamt|somme|suma|totaal|totale|average|avg|mean|median|mittel|"
    r"durchschnitt|media|moyenne|min|max|minimum|maximum|count|anzahl|std|source|quelle|note|end|ende|fin)\w*\b",
    re.IGNORECASE,
)
"""Words in front of the numbers of a line that is no row."""


@dataclass(frozen=True)
class Layout:
    """The layout of a text file as a user gives it; None: recognized.

    Parameters
    ----------
    delimiter
        Character between cells, or "tab".
    decimal, thousands
        Marks in numbers, of `MARKS`; they differ.
    encoding
        Encoding of the text, as Python names it.
    header_row
        Row of the column names, from 1.
    skip_footer
        Number of lines at the end that are no data.
    columns
        Names of all columns of a file, in the place of its header.
    sheet
        Name or number, from 1, of the sheet of a workbook.
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    header_row: int | None = None
    skip_footer: int | None = None
    columns: tuple[str, ...] | None = None
    sheet: str | int | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or self.delimiter in '"\r\n' or ord(self.delimiter) > 126
        ):
            raise InputError(
                f'data.delimiter={self.delimiter!r}: use one character such as ";" or "|", or the word tab'
            )
        for key, marks in (("decimal", MARKS[:2]), ("thousands", MARKS)):
            if getattr(self, key) not in (None, *marks):
                shown = ", ".join(f'"{mark}"' for mark in marks)
                raise InputError(f"data.{key}={getattr(self, key)!r}: choose one of {shown}")
        if self.decimal is not None and self.decimal == self.thousands:
            raise InputError(f'data.thousands="{self.thousands}": is the decimal mark too: choose another')
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.columns is not None and (len(set(self.columns)) < len(self.columns) or not self.columns):
            raise InputError("data.columns: name each column of the file once, in their order")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Layout":
        """Return the layout of a `data` group or of a manifest's data."""
        values = {key: data.get(key) for key in cls.__dataclass_fields__}
        if values["columns"] is not None:
            values["columns"] = tuple(str(name).strip() for name in values["columns"])
        if str(values["delimiter"]).lower() in ("tab", r"\t"):
            values["delimiter"] = "\t"
        return cls(**values)

    def facts(self) -> dict[str, Any]:
        """Return the values that are set as plain values."""
        facts = {key: value for key, value in vars(self).items() if value is not None}
        return facts | ({"columns": list(self.columns)} if self.columns is not None else {})


RECOGNIZED = Layout()
"""A layout that is recognized from the file."""


def _check_encoding(name: str) -> None:
    try:
        known = "a".encode(name) and is_plain(name)
    except (LookupError, ValueError):
        known = False
    if not known:
        raise InputError(f"data.encoding={name!r}: no such encoding: use one such as cp1252, utf-16 or shift_jis")


@dataclass(frozen=True)
class Body:
    """Where the table of a file is.

    `header` is the place of the record with the column names, None without one; `first` that of the first row. `names`
    are the cells of the header. `footers` is the number of records at the end that are no data, and `notes` has a line
    for each thing that was found.
    """

    header: int | None
    first: int
    names: tuple[str, ...]
    footers: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Records:
    """Records of a text, with the number of lines before each of them; `whole` says whether they are all of it."""

    cells: list[list[str]]
    lines: list[int]
    whole: bool

    @classmethod
    def at_start(cls, text: str, delimiter: str, whole: bool) -> "Records":
        """Return the first records of a text; those before a cell that the reader refuses."""
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        cells: list[list[str]] = []
        lines = [0]
        try:
            for record in islice(reader, _RECORDS):
                cells.append(record)
                lines.append(reader.line_num)
            whole = whole and len(cells) < _RECORDS
        except csv.Error:
            whole = False
        if not whole and len(cells) > 1:  # the last may be cut
            cells, lines = cells[:-1], lines[:-1]
        return cls(cells, lines, whole)

    @cached_property
    def width(self) -> int:
        """Number of cells of most records, of those with several if there are any; the header may differ."""
        counts = Counter(len(record) for record in self.cells if any(cell.strip() for cell in record))
        several = Counter({count: times for count, times in counts.items() if count > 1})
        return (several or counts or Counter([0])).most_common(1)[0][0]

    @property
    def agreement(self) -> float:
        """Share of the records with content, from the middle on, that have `width` cells."""
        half = [record for record in self.cells[len(self.cells) // 2 :] if any(cell.strip() for cell in record)]
        return sum(len(record) == self.width for record in half) / max(1, len(half)) if self.width > 1 else 0.0


def find_delimiter(text: str, whole: bool) -> tuple[str, Records]:
    """Return the delimiter of a text, by the number of cells in its lines, and its records.

    Commas count unless the lines do not agree under them, or the first cells hold another delimiter too.
    """
    first = text.lstrip("\ufeff").partition("\n")[0].strip().strip('"')
    if first.lower().startswith("sep=") and len(first) == 5:
        return first[4], Records.at_start(text, first[4], whole)
    found = {mark: Records.at_start(text, mark, whole) for mark in DELIMITERS if mark == "," or mark in text}
    commas = found.pop(",")
    others = {mark: records for mark, records in found.items() if records.agreement >= _AGREE}
    if not others:
        return ",", commas
    best = max(others, key=lambda mark: (round(others[mark].agreement, 2), others[mark].width))
    start = [record for record in commas.cells if record][:2]
    usual = commas.agreement >= _AGREE and bool(start) and len(start[0]) == commas.width
    both = len(start) == 2 and best in start[0][0] and any(best in cell for cell in start[1])
    return (",", commas) if usual and not both else (best, others[best])


def is_time_word(name: str) -> bool:
    """Return whether a name is one of a column of times."""
    return _TIME_WORD.match(name.strip()) is not None


def _is_empty(cell: str) -> bool:
    return cell.strip().lower() in _EMPTY


def _has_letters(cell: str) -> bool:
    return _LETTER.search(_EXPONENT.sub("", cell)) is not None


def _has_digits(cell: str) -> bool:
    return any(character.isdigit() for character in cell)


@dataclass(frozen=True)
class _Rows:
    """What the cells of a data row look like: columns with digits, those of them with letters, and the leading one."""

    width: int
    digits: tuple[int, ...]
    letters: frozenset[int]
    lead: int | None

    @classmethod
    def of(cls, records: Sequence[Sequence[str]], width: int) -> "_Rows":
        body = [record for record in records[-max(1, len(records) // 2) :] if len(record) == width]
        body = body[-max(10, _CELLS // max(1, width)) :]
        digits, letters, lead = [], set(), None
        for place in range(width):
            cells = [record[place] for record in body if not _is_empty(record[place])]
            if not cells or sum(map(_has_digits, cells)) < 0.8 * len(cells):
                continue
            digits.append(place)
            if sum(map(_has_letters, cells)) > 0.05 * len(cells):
                letters.add(place)
            if lead is None and sum(len(_PARTS.findall(cell)) > 1 for cell in cells) > 0.5 * len(cells):
                lead = place
        first = digits[0] if digits else None
        return cls(width, tuple(digits), frozenset(letters), first if lead is None else lead)

    def fit(self, record: Sequence[str]) -> bool:
        """Return whether a record looks like a row."""
        if self.lead is None or len(record) <= self.lead or _is_empty(record[self.lead]):
            return False
        fits = [self._fits(place, record[place]) for place in self.digits if place < len(record)]
        return self._fits(self.lead, record[self.lead]) and 2 * sum(fits) >= len(fits)

    def partly_fit(self, record: Sequence[str]) -> bool:
        """Return whether a record of full length has a number beside its leading cell."""
        others = [record[place] for place in self.digits if place != self.lead and place < len(record)]
        return len(record) == self.width and any(_has_digits(cell) and not _has_letters(cell) for cell in others)

    def _fits(self, place: int, cell: str) -> bool:
        return _is_empty(cell) or (_has_digits(cell) and (place in self.letters or not _has_letters(cell)))


def find_body(records: Sequence[Sequence[str]], width: int, layout: Layout = RECOGNIZED) -> tuple[Body, "_Rows"]:
    """Return where the table is in the records at the start of a file, and what its rows look like."""
    rows = _Rows.of(records, width)
    named = None if layout.header_row is None else layout.header_row - 1
    after = 0 if named is None else named + 1
    first = next((place for place in range(after, len(records)) if rows.fit(records[place])), None)
    if first is None:
        return Body(0, 1, tuple(records[0]) if records else ()), rows
    header = _header(records, first, rows) if named is None else named
    if layout.columns is not None or header is None:
        return Body(None, first, layout.columns or ()), rows
    names = [cell.strip() if header else cell for cell in records[header]]
    if header and names[0].startswith(_COMMENTS):
        names[0] = names[0].lstrip("#%/!* ")
    if len(names) == width + 1 and not names[-1].strip():
        names = names[:-1]  # the header ends in a delimiter
    notes = []
    if header:
        above = next((cell.strip() for record in records for cell in record if cell.strip()), "")
        lines = counted(header, "line")
        notes.append(f"{lines} above the header left out, from {above[:40]!r} on (data.header_row={header + 1})")
    first = next(place for place in range(header + 1, first + 1) if place == first or rows.partly_fit(records[place]))
    between = [record for record in records[header + 1 : first] if any(cell.strip() for cell in record)]
    if between:
        text = ", ".join(cell.strip() for cell in between[0] if cell.strip())
        notes.append(f"{counted(len(between), 'line')} between the header and the data left out: {text[:60]!r}")
    return Body(header, first if between or header else header + 1, tuple(names), 0, tuple(notes)), rows


def _header(records: Sequence[Sequence[str]], first: int, rows: _Rows) -> int | None:
    """Return the place of the header above the first row; None if no line there can be one."""
    if first == 0:
        return None
    blank = max((place for place in range(first) if not any(cell.strip() for cell in records[place])), default=-1)
    for begin in dict.fromkeys((blank + 1, 0)):
        wide = [place for place in range(begin, first) if len(records[place]) in (rows.width, rows.width + 1)]
        named = [place for place in wide if _are_names(records[place][: rows.width])]
        timed = [place for place in named if is_time_word(records[place][rows.lead or 0])]
        if best := timed or (named if rows.width > 2 else named[::-1]) or wide:
            return best[0]
    return 0


def _are_names(cells: Sequence[str]) -> bool:
    """Return whether the cells can be the names of columns: words, each once."""
    texts = [cell.strip() for cell in cells]
    return all(map(_has_letters, texts)) and len(set(texts)) == len(texts) and not texts[0].startswith(_COMMENTS)


def without_footers(body: Body, records: Sequence[Sequence[str]], rows: _Rows) -> Body:
    """Return the body without the records at the end that are no rows, with a note.

    Only text counts, such as "Total": a row that was cut off, or that lacks its date, is a flaw.
    """
    count, text = 0, ""
    last = next((place for place in range(len(records), 0, -1) if records[place - 1]), 0)
    for record in reversed(records[max(0, last - _MOST_FOOTERS) : last]):
        cells = [cell.strip() for cell in record if cell.strip()]
        if cells and (rows.fit(record) or not _is_footer(record, rows)):
            break
        count += 1
        text = cells[0] if cells else text
    if not text:
        return body
    note = f"{counted(count, 'line')} below the data left out, from {text[:40]!r} on (data.skip_footer={count})"
    return replace(body, footers=count, notes=(*body.notes, note))


def _is_footer(record: Sequence[str], rows: _Rows) -> bool:
    first = next(cell.strip() for cell in record if cell.strip())
    if rows.partly_fit(record):  # else a row with a wrong date would be lost
        return _TOTAL.match(first) is not None
    lead = record[rows.lead].strip() if rows.lead is not None and rows.lead < len(record) else ""
    if not any(_has_letters(cell) or _has_digits(cell) for cell in record):
        return True  # a line of dashes
    in_lead = _has_letters(lead) and (rows.lead not in rows.letters or not _has_digits(lead))
    return _has_letters(first) and (lead == "" or in_lead or len(record) < rows.width)


def tail_records(content: bytes, delimiter: str) -> list[list[str]]:
    """Return the records at the end of a UTF-8 text, from a line on at which no quotation is open."""
    start = max(0, len(content) - _TAIL)
    if start:
        start = content.find(b"\n", start) + 1
        if not start or content.count(b'"', 0, start) % 2:
            return []
    text = content[start:].decode("utf-8", errors="replace")
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return []


def sample_of(content: bytes) -> tuple[str, bool]:
    """Return the text at the start of a UTF-8 file, and whether it is all of it."""
    end = 0
    for _ in range(_LINES):  # the header alone may be longer than the sample
        end = content.find(b"\n", end) + 1 or len(content)
    size = max(_SAMPLE, end)
    return content[:size].decode("utf-8", errors="ignore"), len(content) <= size
