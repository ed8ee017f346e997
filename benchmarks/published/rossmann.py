"""Rossmann, daily sales of 1,115 stores (fev-bench `rossmann_1D`): its full calendar, and the scores of a model.

`python -m benchmarks.published.rossmann` writes the table that `data=rossmann` reads. `--score RUN` scores a run that
was trained on the rows before the windows. Source: fev-bench, github.com/autogluon/fev (Apache-2.0).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.published.tasks import LEVELS, Floats, data_folder
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import replacing

FILE = "rossmann_calendar.parquet"
"""The table that this command writes and `data=rossmann` reads."""

HORIZON, WINDOWS, SEASON = 48, 10, 7
NAIVE_MASE = 0.78855
"""Published MASE of the seasonal naive forecast, to five digits."""

STORE, TIME, TARGET = "Store", "Date", "Sales"
OF_THE_DAY = ("Promo", "SchoolHoliday", "StateHoliday", "DayOfWeek")
"""Columns of an absent day that are those of most other stores."""

KNOWN, PAST = ("Open", *OF_THE_DAY), ("Customers",)
CLOSED = "2014-07-01", "2014-12-31"
"""First and last day of the months that 180 stores lack: their sales are missing there, not 0."""

STATIC = ("StoreType", "Assortment", "CompetitionDistance", "Promo2")


def full_calendar(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each store and day, sorted; an absent day is a closed one.

    Parameters
    ----------
    table
        The competition's training data, one row per store and open day, with the columns of the stores.
    """
    table = table.copy()
    table[TIME], table["StateHoliday"] = pd.to_datetime(table[TIME]), table["StateHoliday"].astype(str)
    days = pd.date_range(table[TIME].min(), table[TIME].max(), name=TIME)
    stores = np.sort(table[STORE].unique())
    whole = pd.MultiIndex.from_product([stores, days], names=[STORE, TIME])
    columns = [TARGET, *PAST, *KNOWN]
    full = table.set_index([STORE, TIME])[columns].reindex(whole).reset_index()
    absent = full["Open"].isna()
    for name in OF_THE_DAY:
        usual = table.groupby(TIME)[name].agg(lambda values: values.mode().iloc[0])
        full.loc[absent, name] = full.loc[absent, TIME].map(usual)
    full.loc[absent, "Open"] = 0
    full.loc[absent, [TARGET, *PAST]] = 0.0
    inside = full[TIME].between(*CLOSED)
    present = table[table[TIME].between(*CLOSED)][STORE].unique()
    lacking = inside & ~full[STORE].isin(present)
    full.loc[lacking, [TARGET, *PAST]] = np.nan
    full = full.astype(dict.fromkeys(("Open", "Promo", "SchoolHoliday", "DayOfWeek"), np.int64))
    static = table.groupby(STORE)[list(STATIC)].first()
    return full.join(static, on=STORE)


def cutoffs(table: pd.DataFrame) -> list[pd.Timestamp]:
    """Return the first day of each window, the oldest first."""
    last = table[TIME].max()
    return [last - pd.Timedelta(days=HORIZON * number - 1) for number in range(WINDOWS, 0, -1)]


def sales(table: pd.DataFrame) -> tuple[Floats, pd.DatetimeIndex]:
    """Return the sales (stores, days) and the days."""
    wide = table.pivot(index=STORE, columns=TIME, values=TARGET)
    return wide.to_numpy(np.float64), pd.DatetimeIndex(wide.columns)


def scores(table: pd.DataFrame, forecasts: Sequence[Floats]) -> dict[str, float]:
    """Return SQL, MASE and WQL of quantiles (stores, 48, 9) of each window, the oldest first, as fev averages them.

    They are means over series and steps, then windows, then levels. The seasonal error of a series is that of its days
    before the window; missing sales are left out. `--judge` compares them with those of the package `fev`.
    """
    values, days = sales(table)
    levels, rows = np.array(LEVELS), []
    for first, quantiles in zip(cutoffs(table), forecasts, strict=True):
        start = days.get_loc(first)
        assert isinstance(start, int)
        past, truth = values[:, :start], values[:, start : start + HORIZON]
        season = np.nanmean(np.abs(past[:, SEASON:] - past[:, :-SEASON]), axis=1)[:, None]
        error = truth[..., None] - quantiles
        losses = 2 * np.maximum(levels * error, (levels - 1) * error)
        absolute = np.abs(error[..., LEVELS.index(0.5)])
        rows.append(
            (
                np.nanmean(losses / season[..., None]),
                np.nanmean(absolute / season),
                np.nansum(losses.mean(-1)) / np.nansum(np.abs(truth)),
            )
        )
    return dict(zip(("SQL", "MASE", "WQL"), np.mean(rows, axis=0).tolist(), strict=True))


def seasonal_naive(table: pd.DataFrame) -> list[Floats]:
    """Return the seasonal naive forecast of each window, from sales whose gaps repeat the last value."""
    values, days = sales(table)
    filled = pd.DataFrame(values).ffill(axis=1).to_numpy()
    found = []
    for first in cutoffs(table):
        start = days.get_loc(first)
        assert isinstance(start, int)
        step = np.arange(HORIZON) % SEASON - SEASON
        found.append(np.repeat(filled[:, start + step][..., None], len(LEVELS), axis=2))
    return found


def check(table: pd.DataFrame) -> float:
    """Return the MASE of the seasonal naive forecast; raise InputError unless it is the published one."""
    mase = scores(table, seasonal_naive(table))["MASE"]
    if round(mase, 5) != NAIVE_MASE:
        raise InputError(f"rossmann_1D: MASE of the seasonal naive forecast {mase:.5f}, published {NAIVE_MASE}")
    return mase


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published.rossmann",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("data"), help="folder of the table (default: data)")
    parser.add_argument("--before", help="keep the rows before this day alone, such as the first window")
    options = parser.parse_args(arguments)
    return finish(lambda: _write(options.folder, options.before))


def _write(folder: Path, before: str | None) -> None:
    source = data_folder() / "rossmann.parquet"
    if not source.is_file():
        raise InputError(f"{source}: no such file: get the competition's data, and set FORECAST_DATA_DIR to its folder")
    table = full_calendar(pd.read_parquet(source))
    print(f"rossmann_1D: MASE of the seasonal naive forecast {check(table):.5f}, as published")
    if before is not None:
        table = table[table[TIME] < pd.Timestamp(before)]
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / FILE) as file:
        table.to_parquet(file, index=False)
    print(f"{folder / FILE}: {len(table):,} rows of {table[STORE].nunique():,} stores")


if __name__ == "__main__":
    sys.exit(main())
