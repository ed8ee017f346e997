"""Input of a mutation: a valid table, and the allowed outcomes of the malformed one."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

REFUSE, SAME, NOTE, FINITE = "refuse", "same", "note", "finite"
"""Allowed outcomes of a table.

REFUSE: only a one-line error, since the flaw changes values or makes them ambiguous. SAME: the result of the valid
table, or a one-line error. NOTE: a forecast with a line about the repair, or a one-line error. FINITE: any finite
forecast, or a one-line error.
"""


@dataclass(frozen=True)
class Malformed:
    """A malformed file, and its allowed outcome.

    Attributes
    ----------
    origin
        Time of the last row with a value, after which the forecast must begin; None: not checked.
    """

    path: Path
    what: str
    expected: str
    origin: pd.Timestamp | None = None


@dataclass
class Bench:
    """Input of a mutation: a valid table, random numbers and a folder.

    Attributes
    ----------
    look_back
        Number of last rows that the command uses; a training uses all.
    """

    folder: Path
    frame: pd.DataFrame
    random: random.Random
    look_back: int

    @property
    def text(self) -> str:
        """The valid table as CSV."""
        return self.frame.to_csv(index=False)

    def row(self) -> int:
        """Return a row that the command uses, except the last."""
        return self.random.randrange(len(self.frame) - self.look_back, len(self.frame) - 1)

    def column(self) -> str:
        """Return a column that the model was trained on."""
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
