"""A written file with its right reading, and the pieces that a table is written from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

Cells = list[list[str]]


@dataclass(frozen=True)
class Written:
    """A file as people have them.

    Attributes
    ----------
    kind, spelling
        What the file is about, and which spelling of it; together they are its id.
    name, content
        Name of the file, and its bytes.
    options
        What a user types in the `data` group, usually nothing.
    truth
        The right reading: float64 columns over a DatetimeIndex, NaN for an empty cell. A time without a zone counts as
        UTC. In a table of several series the first column, named `id`, holds a part of the id of each row.
    refusal
        Regular expression that a refusal must match. With a truth both answers are right, but the options that the
        refusal names must then lead to the truth.
    """

    kind: str
    spelling: str
    name: str
    content: bytes = field(repr=False)
    options: dict[str, Any] = field(default_factory=dict)
    truth: pd.DataFrame | None = field(default=None, repr=False)
    refusal: str | None = None

    @property
    def id(self) -> str:
        """The kind and the spelling, which no other file has."""
        return f"{self.kind}/{self.spelling}"


def made(
    rows: int = 220,
    start: str = "2022-03-10",
    step: Any = "h",
    seed: int = 0,
    names: Sequence[str] = ("load", "temperature"),
    places: Sequence[int] = (2, 1),
    times: pd.DatetimeIndex | None = None,
) -> pd.DataFrame:
    """Return a table of columns with a period of 24 rows: the first from 600 to 4,200, the others around 3."""
    index = pd.date_range(start, periods=rows, freq=step) if times is None else times
    random = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * np.arange(len(index)) / 24)
    columns = {}
    for place, (name, digits) in enumerate(zip(names, places, strict=False)):
        level, spread = ((2400, 900), (3, 8))[min(place, 1)]
        column = level + spread * (wave + 0.3 * random.standard_normal(len(index)))
        columns[name] = [float(f"{value:.{digits}f}") for value in column]
    return pd.DataFrame(columns, index=index, dtype=np.float64)


def number(value: float, decimal: str = ".", thousands: str = "", places: int = 2) -> str:
    """Return a number as text, an empty cell for NaN."""
    if np.isnan(value):
        return ""
    marks = {",": thousands, ".": decimal}
    return "".join(marks.get(letter, letter) for letter in f"{value:,.{places}f}")


def cells_of(
    frame: pd.DataFrame,
    stamps: Sequence[str] | str,
    decimal: str = ".",
    thousands: str = "",
    places: Sequence[int] = (2, 1),
) -> Cells:
    """Return the rows of a table as text, the time first; `stamps` has the times or their format."""
    texts = frame.index.strftime(stamps) if isinstance(stamps, str) else stamps
    columns = [
        [number(value, decimal, thousands, places[min(place, len(places) - 1)]) for value in frame[name]]
        for place, name in enumerate(frame.columns)
    ]
    return [list(row) for row in zip(texts, *columns, strict=True)]


def write(
    head: Sequence[str],
    cells: Cells,
    delimiter: str = ",",
    *,
    above: Sequence[str] = (),
    below: Sequence[str] = (),
    newline: str = "\n",
    encoding: str = "utf-8",
    quote: bool = False,
) -> bytes:
    """Return a file with lines above its header (an empty header is none) and below its last row."""

    def line(row: Sequence[str]) -> str:
        quoted = [
            '"' + cell.replace('"', '""') + '"' if quote or delimiter in cell or '"' in cell else cell for cell in row
        ]
        return delimiter.join(quoted)

    rows = [*([line(head)] if head else []), *map(line, cells)]
    return "".join(text + newline for text in (*above, *rows, *below)).encode(encoding)


def simple(
    kind: str,
    spelling: str,
    stamps: Callable[[pd.DatetimeIndex], Sequence[str]] | str,
    *,
    time: str = "time",
    options: dict[str, Any] | None = None,
    refusal: str | None = None,
    truth: pd.DataFrame | bool = True,
    **table: Any,
) -> Written:
    """Return a file with commas whose times are what is unusual; `table` are arguments of `made`."""
    frame = made(seed=len(kind) + len(spelling), **table)
    texts = stamps if isinstance(stamps, str) else stamps(pd.DatetimeIndex(frame.index))
    content = write([time, *frame.columns], cells_of(frame, texts), newline="\r\n")
    right = frame if truth is True else None if truth is False else truth
    return Written(kind, spelling, "table.csv", content, options or {}, right, refusal)
