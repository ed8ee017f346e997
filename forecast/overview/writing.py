"""Writing of a table as it is understood."""

from pathlib import Path

import pandas as pd

from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table with its times in front, as Parquet or CSV by the ending of its name."""
    with replacing(path) as file:
        if path.suffix.lower() == ".csv":
            write_frame(file, frame)
        else:
            frame.reset_index().to_parquet(file, index=False)
