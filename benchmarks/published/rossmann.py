"""Rossmann, daily sales of 1,115 stores (fev-bench `rossmann_1D`): its full calendar, and the scores of a model.

`python -m benchmarks.published.rossmann` writes the table that `data=rossmann` reads; `--score full` trains on the rows
before the windows and scores the forecasts. Source: fev-bench, github.com/autogluon/fev (Apache-2.0).
"""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.published.contest import only_run
from benchmarks.published.lanes import Commands
from benchmarks.published.record import add_row
from benchmarks.published.tasks import LEVELS, Floats, data_folder
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json, replacing
from forecast.common.tables import Row
from forecast.predict.ensemble import load
from forecast.predict.panel import PanelForecaster
from forecast.runs.results import commit, device_name
from forecast.runs.run import MANIFEST, RESULT

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
    before the window; missing sales are left out.
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


def coverage(table: pd.DataFrame, forecasts: Sequence[Floats]) -> dict[str, float]:
    """Return the share of days inside the 80 % interval, of open days alone, and of stores with 60 to 95 % of these.

    A closed day is known ahead, so that its interval has no width and it is always inside.
    """
    values, days = sales(table)
    inside, counted, closed = np.zeros(len(values)), np.zeros(len(values)), 0
    for first, quantiles in zip(cutoffs(table), forecasts, strict=True):
        start = days.get_loc(first)
        assert isinstance(start, int)
        truth = values[:, start : start + HORIZON]
        inside += ((quantiles[..., 0] <= truth) & (truth <= quantiles[..., -1]) & (truth > 0)).sum(1)
        counted += (truth > 0).sum(1)
        closed += int(((truth == 0) & (quantiles[..., 0] <= 0)).sum())
    of_stores = inside / counted
    usual = (of_stores >= 0.6) & (of_stores <= 0.95)
    return {
        "covered_80": float((inside.sum() + closed) / (counted.sum() + closed)),
        "covered_80_open": float(inside.sum() / counted.sum()),
        "stores_60_to_95": float(usual.mean()),
    }


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


HALF_LIFE, YEAR = 90, 365
"""Days after which a day counts half in the table of means, and days whose residuals give its quantiles."""


def table_of_means(table: pd.DataFrame) -> list[Floats]:
    """Return the quantiles of each window by means of log sales, weighted by recency, and residuals of a year.

    The means are by store, weekday and promotion; a group without rows has the mean of its store and promotion, else
    of its store. Days known to be closed are 0.
    """
    found = []
    for first in cutoffs(table):
        past = table[(table[TIME] < first) & (table["Open"] == 1) & (table[TARGET] > 0)]
        age = (first - past[TIME]).dt.days.to_numpy()
        logs, weight = np.log(past[TARGET].to_numpy(np.float64)), 0.5 ** (age / HALF_LIFE)
        groups = [[STORE, "DayOfWeek", "Promo"], [STORE, "Promo"], [STORE]]
        means = [_means(past, logs, weight, names) for names in groups]
        recent = past[age <= YEAR]
        residuals = logs[age <= YEAR] - _looked_up(recent, groups, means)
        quantiles = pd.Series(residuals).groupby(recent[STORE].to_numpy()).quantile(np.array(LEVELS)).unstack()
        ahead = table[(table[TIME] >= first) & (table[TIME] < first + pd.Timedelta(days=HORIZON))]
        center = _looked_up(ahead, groups, means)
        spread = quantiles.reindex(ahead[STORE]).to_numpy()
        values = np.exp(center[:, None] + spread) * (ahead["Open"] == 1).to_numpy()[:, None]
        found.append(values.reshape(-1, HORIZON, len(LEVELS)))
    return found


def _means(rows: pd.DataFrame, values: Floats, weight: Floats, names: list[str]) -> pd.Series:
    keys = [rows[name].to_numpy() for name in names]
    sums = pd.DataFrame({"value": values * weight, "weight": weight}).groupby(keys).sum()
    return sums["value"] / sums["weight"]


def _looked_up(rows: pd.DataFrame, groups: list[list[str]], means: list[pd.Series]) -> Floats:
    """Return the mean of each row, of the first grouping that has one."""
    found = np.full(len(rows), np.nan)
    for names, mean in zip(groups, means, strict=True):
        key = pd.MultiIndex.from_frame(rows[names]) if len(names) > 1 else pd.Index(rows[names[0]])
        found = np.where(np.isnan(found), mean.reindex(key).to_numpy(), found)
    return found


INTERVALS = (20, 40, 60, 80)
"""Central intervals whose ends are the quantiles beside the median."""


def forecasts_of(
    run: Path, table: pd.DataFrame, windows: slice = slice(None), static: Sequence[str] = ()
) -> list[Floats]:
    """Return the quantiles (stores, 48, 9) of each of `windows` by a trained run, from the rows before the window.

    Of the window, the model gets the columns known ahead. `static` are the static columns that it reads.
    """
    model = load(run)
    assert isinstance(model, PanelForecaster)
    read, found = [STORE, TIME, TARGET, *PAST, *KNOWN, *static], []
    for first in cutoffs(table)[windows]:
        past, rest = table.loc[table[TIME] < first, read], table[table[TIME] >= first]
        ahead = rest.loc[rest[TIME] < first + pd.Timedelta(days=HORIZON), [STORE, TIME, *KNOWN]]
        values = model.predict(past, ahead if model.known_covariates else None, levels=INTERVALS, quantile=0.5)
        lower = [values[f"{TARGET}_lower_{level}"] for level in reversed(INTERVALS)]
        upper = [values[f"{TARGET}_upper_{level}"] for level in INTERVALS]
        order = values[STORE].astype(int).to_numpy().reshape(-1, HORIZON)[:, 0].argsort()
        quantiles = np.stack([*lower, values[TARGET], *upper], axis=1).reshape(-1, HORIZON, len(LEVELS))
        found.append(quantiles[order])
    return found


VARIANTS: dict[str, tuple[str, ...]] = {
    "full": (),
    "mean": ("attention=mean",),
    "no_known": ("data.known_covariates=[]", "data.categorical=[]"),
    "updated": ("training.max_steps=1600",),
}
"""Overrides of each trained row, by its name in the record; `updated` trains again before later windows."""

UPDATES = {3: 300, 5: 300, 7: 300}
"""Steps of the trainings that continue the weights of the last one, by the number of the window that follows."""


def words(variant: str, past: Path, folder: Path) -> list[str]:
    """Return the overrides of a training on the rows before the first window."""
    return ["data=rossmann", f"data.path={past}", *RECIPE, *VARIANTS[variant], f"output_dir={folder}"]


def update_words(past: Path, folder: Path, run: Path, window: int, days: int) -> list[str]:
    """Return the overrides of a training that begins with the weights of `run`, on the `days` before a window."""
    split = f"data.split={{train:{days - VALIDATION},validation:{VALIDATION},test:0}}"
    return [*words("full", past, folder), f"start_from={run}", f"training.max_steps={UPDATES[window]}", split]


VALIDATION = 96
"""The newest days of a training, which choose its weights."""


RECIPE = ("experiment=rossmann", "data.split.test=0", "data.static_covariates=[]", "training.progress=false")
"""Overrides of the training; it was chosen without static columns."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published.rossmann",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the table (default: data)")
    parser.add_argument("--score", nargs="+", choices=list(SCORED), default=[], help="train and score these rows")
    parser.add_argument("--folder", type=Path, default=Path("outputs/published/rossmann"), help="folder of the runs")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    source = data_folder() / "rossmann.parquet"
    if not source.is_file():
        raise InputError(f"{source}: no such file: get the competition's data, and set FORECAST_DATA_DIR to its folder")
    table = full_calendar(pd.read_parquet(source))
    print(f"rossmann_1D: MASE of the seasonal naive forecast {check(table):.5f}, as published", flush=True)
    options.data.mkdir(parents=True, exist_ok=True)
    with replacing(options.data / FILE) as file:
        table.to_parquet(file, index=False)
    print(f"{options.data / FILE}: {len(table):,} rows of {table[STORE].nunique():,} stores")
    if options.score and str(commit(JUDGED_BY)).endswith("+changes"):
        raise InputError("the program or the recipe has changes: commit them first, since a score names its commit")
    for name in options.score:
        row = row_of(name, table, options.folder)
        add_row(options.record, row)
        print(f"{name}: SQL {row['SQL']:.4f}, MASE {row['MASE']:.4f}, {row['minutes']:.1f} minutes", flush=True)


RECORD = Path("benchmarks/records/published/panels.csv")

JUDGED_BY = ("forecast", "conf", "benchmarks/published")
"""Files whose commit a score names."""


def row_of(name: str, table: pd.DataFrame, folder: Path) -> Row:
    """Return the row of the record: the scores of a baseline, or of a model trained on the rows before the windows."""
    began, command, peak = time.monotonic(), "", None
    if name in VARIANTS:
        starts = (0, *UPDATES) if name == "updated" else (0,)
        run, forecasts = None, []
        for start, end in zip(starts, (*starts[1:], WINDOWS), strict=True):
            run = trained(name, table, folder, start, run)
            forecasts += forecasts_of(run, table, slice(start, end))
            result = read_json(run / RESULT)
            command = command or str(result["command"])
            peak = max(peak or 0.0, look_up(result, "speed.peak_memory_mib"))
    else:
        forecasts = BASELINES[name](table)
    return {
        "task": "rossmann_1D",
        "row": name,
        **{key: round(score, 5) for key, score in scores(table, forecasts).items()},
        "minutes": round((time.monotonic() - began) / 60, 2),
        "peak_mib": peak,
        "command": command,
        "commit": commit(),
        "machine": device_name(torch.device("cpu")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def trained(name: str, table: pd.DataFrame, folder: Path, window: int, start: Path | None) -> Path:
    """Return the finished run on the rows before a window, which begins with the weights of `start`; train it first."""
    past, place = folder / f"before_{window}.parquet", folder / f"{name}_{window}"
    if not any(place.glob(f"*/*/{MANIFEST}")):
        rows = table[table[TIME] < cutoffs(table)[window]]
        place.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(past, index=False)
        if start is None:
            overrides = words(name, past, place)
        else:
            overrides = update_words(past, place, start, window, rows[TIME].nunique())
        Commands().run(["-m", "forecast.training", *overrides])
    run = only_run(place)
    assert run is not None
    return run


BASELINES = {"seasonal_naive": seasonal_naive, "table_of_means": table_of_means}
SCORED = (*VARIANTS, *BASELINES)


if __name__ == "__main__":
    sys.exit(main())
