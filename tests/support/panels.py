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


STORES = {str(place + 1): 240 + 5 * place for place in range(10)}
"""Rows of each store of `stores`, the rows of the future included."""

ENDED = ("3", "8")
"""Stores that end two days before the others."""

FUTURE = 12
"""Rows of each store whose sales are not known yet."""


def stores(*, future: bool = True) -> pd.DataFrame:
    """Return hourly sales of ten stores that answer to known columns, and the empty sales of the next hours."""
    table = long_table(STORES, names=("store", "date", "sales"), ends_alike=True)
    table.loc[table["store"].isin(ENDED), "date"] -= pd.Timedelta(days=2)
    random = np.random.default_rng(1)
    promo, kind = random.random(len(table)) < 0.3, random.choice(["a", "b"], len(table))
    sales = table["sales"] + 2 * promo + (kind == "a")
    last = table.groupby("store")["date"].transform("max") - pd.Timedelta(hours=FUTURE)
    ahead = (table["date"] > last).to_numpy()
    table = table.assign(store=table["store"].astype(int), sales=sales.mask(ahead), promo=promo, kind=kind)
    return table if future else table[~ahead].reset_index(drop=True)
