"""Records as CSV files: rows are read, and a new row is added at the end."""

from pathlib import Path

import pandas as pd

from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Row


def read_rows(record: Path, *columns: str) -> pd.DataFrame:
    """Return the rows of the record; an empty table with these columns if there is no file."""
    return pd.read_csv(record) if record.is_file() else pd.DataFrame(columns=list(columns))


def add_row(record: Path, row: Row) -> None:
    """Write the record with one more row; rows that another command added in the meantime stay."""
    record.parent.mkdir(parents=True, exist_ok=True)
    rows, new = read_rows(record), pd.DataFrame([row])
    with replacing(record) as file:
        write_frame(file, new if rows.empty else pd.concat([rows, new], ignore_index=True), index=False)
