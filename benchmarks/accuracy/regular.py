"""Weather as the published long-horizon tables read it: each row is a step, and -9999 is a value."""

from pathlib import Path

import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame

STEP = "10min"


def write_regular(source: Path, target: Path) -> None:
    """Write the table at `source` with the same rows and new dates, `STEP` apart from the first date on."""
    if not source.is_file():
        raise InputError(f"{source}: no such file: set FORECAST_DATA_DIR")
    rows = pd.read_csv(source, encoding="utf-8", encoding_errors="replace")
    rows["date"] = pd.date_range(rows["date"].iloc[0], periods=len(rows), freq=STEP)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        write_frame(file, rows, index=False)
