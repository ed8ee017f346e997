"""Share of the temperature in forecasts of Victoria by season: `python -m benchmarks.studies.temperature --run latest`.

Every n-th day of a year is forecast at midnight and explained. The share of a column is its mean size of contribution,
relative to that of all columns. Writes a row for each day and column, and a picture.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.common.cli import finish
from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.predict.contributions import sizes
from forecast.predict.explanation import COLUMN
from forecast.predict.forecaster import Forecaster
from forecast.tables.files import read_table

SEASONS = {"summer": (12, 1, 2), "autumn": (3, 4, 5), "winter": (6, 7, 8), "spring": (9, 10, 11)}
"""Months of the seasons of the southern hemisphere."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.temperature", description=__doc__)
    parser.add_argument("--run", default="latest", help="a run of data=victoria")
    parser.add_argument("--input", required=True, type=Path, help="vic_electricity.csv")
    parser.add_argument("--year", default=2014, type=int)
    parser.add_argument("--every", default=15, type=int, metavar="DAYS")
    parser.add_argument("--output", required=True, type=Path, help="a .csv file; a .png is written next to it")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    table = explained(Forecaster.load(options.run), read_table(options.input), options.year, options.every)
    with replacing(options.output) as file:
        write_frame(file, table, index=False)
    draw(options.output.with_suffix(".png"), table)
    print(by_season(table).round(3).to_string())


def explained(model: Forecaster, frame: pd.DataFrame, year: int, every: int) -> pd.DataFrame:
    """Return the size of the contribution of each column to the forecasts of every n-th day: date, part, size."""
    times, days = pd.to_datetime(frame[model.time_column]), pd.date_range(f"{year}-01-01", f"{year}-12-31")[::every]
    if times.dt.tz is not None:
        days = days.tz_localize(times.dt.tz)
    values = [name for name in frame if name not in (model.time_column, *model.known_covariates)]
    rows = []
    for day in days:
        place = int((times < day).sum())
        own = frame.iloc[max(0, place - 2 * model.context_length) : place + model.horizon].copy()
        own.loc[np.asarray(times.loc[own.index] >= day), values] = np.nan
        found = sizes(model.explain(own), COLUMN)["size"]
        rows += [{"date": f"{day:%Y-%m-%d}", "part": part, "size": size} for part, size in found.items()]
    return pd.DataFrame(rows)


def by_season(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share of each part by season."""
    shares = table.assign(share=table["size"] / table.groupby("date")["size"].transform("sum"))
    names = {month: season for season, months in SEASONS.items() for month in months}
    season = pd.DatetimeIndex(shares["date"]).month.map(names)
    return shares.groupby([season, "part"])["share"].mean().unstack().loc[list(SEASONS)]


def draw(path: Path, table: pd.DataFrame) -> None:
    """Write a PNG: the share of each part by season."""
    shares = 100 * by_season(table)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panel, bottom = figure.subplots(), np.zeros(len(shares))
    for part in shares.mean().sort_values(ascending=False).index:
        panel.bar(shares.index, shares[part], bottom=bottom, label=part, width=0.6)
        bottom += shares[part].to_numpy()
    panel.set_ylabel("share of the contributions, %")
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, frameon=False, loc="outside right center")
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())
