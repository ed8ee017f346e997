"""Records as CSV files: rows are read, and a new row is added at the end."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from forecast.common.files import folder_lock, replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Row


def read_rows(record: Path, *columns: str) -> pd.DataFrame:
    """Return the rows of the record; an empty table with these columns if there is no file."""
    return pd.read_csv(record) if record.is_file() else pd.DataFrame(columns=list(columns))


def add_row(record: Path, row: Row | Callable[[pd.DataFrame], Row]) -> None:
    """Write the record with one more row, or with what a function returns for the rows that are there.

    Rows that another command added in the meantime stay; other commands wait until the row is written.
    """
    record.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(record.parent, wait=True):
        rows = read_rows(record)
        new = pd.DataFrame([row(rows) if callable(row) else row])
        with replacing(record) as file:
            write_frame(file, new if rows.empty else pd.concat([rows, new], ignore_index=True), index=False)
