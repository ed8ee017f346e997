"""Numbers as people write them: decimal commas, and thousands with points, commas, blanks or apostrophes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecast.common.errors import InputError
from forecast.tables.flaws import Choice
from forecast.tables.formats.layout import Layout

_BLANKS = " \u00a0\u202f\u2009"
_QUOTES = "'\u2019"
_SIGN = r"[+\-\u2212]?"
_ANY_MARK = re.compile(rf"[.,{_BLANKS}{_QUOTES}]")
_NUMBER = re.compile(rf"\s*{_SIGN}\s*(?P<whole>\d[\d.,{_BLANKS}{_QUOTES}]*|[.,]\d+)(?P<power>[eE][+-]?\d+)?\s*")
_GROUPS = re.compile(rf"(\d{{1,3}})(?:([.,{_BLANKS}{_QUOTES}])\d{{3}})(?:\2\d{{3}})*(?:([.,])(\d+))?")
_FEW, _LOOKED_AT = 1000, 200_000
"""Most cells of a column that are looked at, for what it holds and for its marks; a longer one in even steps."""


@dataclass
class Evidence:
    """What cells show of the marks in their numbers; each mark has the first cell that shows it."""

    decimal: dict[str, str]
    thousands: dict[str, str]
    either: dict[str, str]

    @classmethod
    def of(cls, cells: Iterable[str]) -> "Evidence":
        """Return what the cells show; text that is no number shows nothing."""
        found = cls({}, {}, {})
        for cell in cells:
            found.add(cell)
        return found

    def add(self, cell: str) -> None:
        """Count one cell in."""
        if _ANY_MARK.search(cell.strip()) is None or (match := _NUMBER.fullmatch(cell)) is None:
            return
        text = match["whole"].strip()
        groups = _GROUPS.fullmatch(text)
        if groups is None:
            if marks := re.findall(r"[.,]", text):
                self.decimal.setdefault(marks[-1], cell) if len(marks) == 1 else None
            return
        mark, decimal = _kind(groups[2]), groups[3]
        if decimal is not None and decimal != groups[2]:
            self.decimal.setdefault(decimal, cell)
            self.thousands.setdefault(mark, cell)
        elif mark in " '" or text.count(groups[2]) > 1:
            self.thousands.setdefault(mark, cell)
        elif text.startswith("0"):
            self.decimal.setdefault(mark, cell)
        else:
            self.either.setdefault(mark, cell)


def _kind(mark: str) -> str:
    """Return the mark of thousands as `MARKS` names it."""
    return " " if mark in _BLANKS else "'" if mark in _QUOTES else mark


@dataclass(frozen=True)
class Marks:
    """The marks in the numbers of a table; None: no number has one."""

    decimal: str | None
    thousands: str | None

    def __str__(self) -> str:
        thousands = f', thousands with "{self.thousands}"' if self.thousands else ""
        return f'have the decimal mark "{self.decimal or "."}"{thousands}'


def settle(found: Evidence, layout: Layout, usual: str | None, where: str) -> Marks:
    """Return the marks that the cells show; raise InputError if they contradict each other, or settle nothing.

    `usual` is the decimal mark of numbers that were read already; a mark that a user names counts in any case.
    """
    decimal = layout.decimal
    if decimal is None and layout.thousands in (".", ","):
        decimal = "," if layout.thousands == "." else "."
    shown = dict(found.decimal)
    if usual is not None:
        shown.setdefault(usual, "")
    if decimal is None and len(shown) == 1:
        decimal = next(iter(shown))
    elif decimal is None and len(shown) > 1:
        cells = " and ".join(f"{cell!r}" for cell in shown.values() if cell)
        cure = 'write one decimal mark in all cells, or set data.decimal="." or data.decimal=","'
        raise Choice(
            f"{where}: {cells} have a decimal point and a decimal comma: {cure}", [{"decimal": mark} for mark in ".,"]
        )
    groups = {mark: cell for mark, cell in found.thousands.items() if mark != decimal}
    if decimal is None and (marks := [mark for mark in groups if mark in ".,"]):
        decimal = "," if marks[0] == "." else "."
    if decimal is None and found.either:
        mark, cell = next(iter(found.either.items()))
        if layout.thousands is None:
            raise Choice(
                f"{where}: {cell!r} can have decimals or thousands, and no cell shows which: set "
                f'data.decimal="{mark}" if it is {cell.strip().replace(mark, ".")}, or data.thousands="{mark}" if it '
                f"is {cell.strip().replace(mark, '')}",
                [{"decimal": mark}, {"thousands": mark}],
            )
        decimal = "," if mark == "." else "."
    groups |= {mark: cell for mark, cell in found.either.items() if mark != decimal}
    if len(groups) > 1 and layout.thousands is None:
        cells = " and ".join(map(repr, groups.values()))
        raise InputError(f"{where}: {cells} have different marks of thousands: write them without")
    return Marks(decimal, layout.thousands or next(iter(groups), None))


def more_evidence(content: bytes, delimiter: str, found: Evidence) -> Evidence:
    """Return what a whole text shows of marks that its first cells leave open: the first cell that settles one."""
    edge = re.escape(delimiter).encode() + rb'"\r\n'
    for mark in found.either:
        point = re.escape(mark).encode()
        decimal = rb"0%b\d+|\d{4,}%b\d+|\d{1,3}%b(?:\d{1,2}|\d{4,})" % (point, point, point)
        groups = rb"\d{1,3}(?:%b\d{3}){2,}|\d{1,3}(?:%b\d{3})+[.,]\d{1,2}" % (point, point)
        cell = re.search(rb"(?<=[%b])[+-]?(?:%b|%b)(?=[%b])" % (edge, decimal, groups, edge), content)
        if cell is not None:
            found.add(cell[0].decode())
    return found


def text_places(table: pd.DataFrame) -> list[int]:
    """Return the places of the columns of text in which most cells that have a digit are numbers with marks."""
    places = []
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
            continue
        cells = _sample(table.iloc[:, place], _FEW)
        digits = [cell for cell in cells if any(character.isdigit() for character in cell)]
        if digits and sum(_NUMBER.fullmatch(cell) is not None for cell in digits) > 0.5 * len(digits):
            places.append(place)
    return places


def evidence_of(table: pd.DataFrame, places: Iterable[int]) -> Evidence:
    """Return what the cells of these columns show."""
    return Evidence.of(cell for place in places for cell in _sample(table.iloc[:, place]))


def _sample(column: pd.Series, most: int = _LOOKED_AT) -> list[str]:
    step = max(1, -(-len(column) // most))
    return [cell for cell in column.iloc[::step] if isinstance(cell, str)]


def with_numbers(column: pd.Series, marks: Marks) -> pd.Series:
    """Return a column of text with its numbers read; cells that are none stay text, and numbers beside them too.

    A group of thousands has three digits: 1.23 is no number if the point marks thousands.
    """
    text = pa.array(column.array, type=pa.large_string(), from_pandas=True)
    plain = pc.utf8_trim_whitespace(pc.replace_substring(text, "\u2212", "-"))
    if marks.thousands is not None:
        group = {" ": f"[{_BLANKS}]", "'": f"[{_QUOTES}]"}.get(marks.thousands, re.escape(marks.thousands))
        point = re.escape(marks.decimal or ".")
        grouped = pc.match_substring_regex(plain, rf"^[+-]?\s*\d{{1,3}}(?:{group}\d{{3}})+(?:{point}\d*)?$")
        plain = pc.if_else(grouped, pc.replace_substring_regex(plain, group, ""), plain)
    numeric = pc.match_substring_regex(plain, _PLAIN)
    if marks.decimal == ",":
        numeric = pc.invert(pc.match_substring_regex(plain, r"\."))  # what still has a point is no number
        plain = pc.replace_substring(plain, ",", ".", max_replacements=1)
        numeric = pc.and_(numeric, pc.match_substring_regex(plain, _PLAIN))
    plain = pc.if_else(numeric, pc.replace_substring_regex(plain, r"[+\s]", ""), text)
    if pc.all(numeric).as_py():
        floats = pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False)  # NaN for an empty cell
        return pd.Series(floats, index=column.index, name=column.name, dtype=np.float64)
    if not pc.any(numeric).as_py():
        return column
    return pd.Series(plain.to_numpy(zero_copy_only=False), index=column.index, name=column.name, dtype=column.dtype)


_PLAIN = r"^[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
