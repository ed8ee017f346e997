"""The record as the README shows it, kept between two marks of a file."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.ladder_table import ladder_table
from benchmarks.accuracy.main_table import main_tables
from benchmarks.accuracy.rows import Record
from benchmarks.accuracy.scores import Scores
from benchmarks.accuracy.share_table import share_table
from forecast.common.tables import write_between

BEGIN = "<!-- results: written by python -m benchmarks.accuracy --write README.md -->"
END = "<!-- /results -->"

EMPTY = "No run has been recorded yet."


def tables(rows: Sequence[Record]) -> str:
    """Return every table that there are rows for, as Markdown."""
    scores = Scores(rows)
    parts = [*main_tables(scores), *share_table(scores), *ladder_table(scores)]
    return "\n\n".join(parts) or EMPTY


def write_tables(path: Path, rows: Sequence[Record]) -> None:
    """Put the tables between the two marks in the file.

    Raises
    ------
    InputError
        If the file is not there or has not each mark once, in their order.
    """
    write_between(path, BEGIN, END, tables(rows))
