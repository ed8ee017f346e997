"""Fast parsing of long columns of times: each date and each time of day is parsed once."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

LEAST_ROWS = 50_000
"""Fewest rows that are parsed by their parts; of fewer, pandas parses each cell in no time."""

_CODES_OF_TIME, _CODES_OF_DATE = re.compile("%[HIMSfpzZ]"), re.compile("%[^HIMSfp]")


def parse_by_parts(text: pd.Series, pattern: str) -> pd.DatetimeIndex | None:
    """Return the times of text (N,) in a format, as `pandas.to_datetime` reads it; NaT for a cell that has another.

    A year of minutes has 366 dates and 1,440 times of day, but half a million cells. None: the format or a cell cannot
    be split into a date and a time of day.
    """
    mark = "T" if "T" in pattern else " "
    date, _, time = pattern.partition(mark)
    if not time or _CODES_OF_TIME.search(date) or _CODES_OF_DATE.search(time):
        return None
    parts = pc.split_pattern(pa.array(text.array, type=pa.large_string(), from_pandas=True), mark, max_splits=1)
    if parts.null_count or not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return None
    days = _parsed(pc.list_element(parts, 0), date)
    clock = _parsed(pc.list_element(parts, 1), time)
    return pd.DatetimeIndex(days + (clock - clock.astype("M8[D]")))


def _parsed(cells: pa.Array, pattern: str) -> np.ndarray:
    """Return the times (N,) of cells in a format; each different cell is parsed once."""
    coded = cells.dictionary_encode()
    read = pd.to_datetime(pd.Series(coded.dictionary.to_pylist()), format=pattern, errors="coerce")
    return np.asarray(read.to_numpy("M8[ns]")[coded.indices.to_numpy()])
