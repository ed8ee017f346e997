"""The place of a mutation: a sound table, and what may come of the malformed one."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

REFUSE, SAME, NOTE, FINITE = "refuse", "same", "note", "finite"
"""What may come of a table.

REFUSE: one line alone, since the flaw changes values or leaves their meaning open. SAME: what the sound table gives, or
one line. NOTE: a forecast with a line that says what was done, or one line. FINITE: any finite forecast, or one line.
"""


@dataclass(frozen=True)
class Malformed:
    """A file, and what may come of it.

    Attributes
    ----------
    origin
        The time of the last row with a value, where the forecast must begin after it; None: not looked at.
    """

    path: Path
    what: str
    expected: str
    origin: pd.Timestamp | None = None


@dataclass
class Bench:
    """Where a mutation works: a sound table, random numbers, a folder, and how many rows at the end count.

    Attributes
    ----------
    look_back
        Rows at the end that the command looks at: of a training all.
    """

    folder: Path
    frame: pd.DataFrame
    random: random.Random
    look_back: int

    @property
    def text(self) -> str:
        """The sound table as CSV."""
        return self.frame.to_csv(index=False)

    def row(self) -> int:
        """Return a row that the command looks at, not the last."""
        return self.random.randrange(len(self.frame) - self.look_back, len(self.frame) - 1)

    def column(self) -> str:
        """Return a column of values that the model was trained on."""
        return self.random.choice(["load", "oil", "air"])

    def write(self, content: str | bytes, what: str, expected: str, name: str = "bad.csv", **more: Any) -> Malformed:
        """Write the file."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Malformed(path, what, expected, **more)

    def table(self, frame: pd.DataFrame, what: str, expected: str, **more: Any) -> Malformed:
        """Write a frame as CSV."""
        return self.write(frame.to_csv(index=False), what, expected, **more)

    def planted(self, cell: object, expected: str, column: str | None = None) -> Malformed:
        """Write the table with one cell replaced."""
        column, row = column or self.column(), self.row()
        frame = self.frame.astype({"date": str}).astype(object)
        cells = [cell if place == row else value for place, value in enumerate(frame[column])]
        frame[column] = pd.Series(cells, index=frame.index, dtype=object)
        return self.table(frame, f"{str(cell)[:20]!r} in {column}, row {row + 2}", expected)
