"""Long tables: several series, one below the other."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

SHOPS = {"a": 40, "b": 30, "c": 35}
"""Rows of each series."""


def long_table(
    lengths: Mapping[object, int] = SHOPS,
    *,
    names: tuple[str, str, str] = ("unique_id", "ds", "y"),
    frequency: str = "h",
    start: str = "2024-01-01",
    ends_alike: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Return series of a daily period at levels of 10, 20, …, which begin alike, or with `ends_alike` end alike."""
    most, random = max(lengths.values()), np.random.default_rng(seed)
    times = pd.date_range(start, periods=most, freq=frequency)
    pieces = []
    for place, (name, rows) in enumerate(lengths.items()):
        step = np.arange(most - rows, most) if ends_alike else np.arange(rows)
        values = 10 * (place + 1) + np.sin(2 * np.pi * step / 24) + 0.1 * random.standard_normal(rows)
        pieces.append(pd.DataFrame({names[0]: [name] * rows, names[1]: times[step], names[2]: values.round(3)}))
    return pd.concat(pieces, ignore_index=True)
