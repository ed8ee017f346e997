"""What each input contributes to forecasts over a year: `python -m benchmarks.studies.year_of_contributions`.

A model of the electricity demand of Victoria is trained on two years, and explained on every fifth day of the third.
The record has the mean size of the contributions of each month, the picture their shares.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd

mpl.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.known_ahead import TASKS
from benchmarks.published.contest import only_run
from benchmarks.published.lanes import Commands
from benchmarks.published.tasks import data_folder
from forecast.common.cli import finish
from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.predict.ensemble import load
from forecast.predict.explanation import COLUMN, sizes
from forecast.predict.forecaster import Forecaster
from forecast.runs.results import commit

RECORD = Path("benchmarks/records/known-ahead/contributions.csv")
PICTURE = Path("docs/images/contributions-victoria.png")
FOLDER = Path("outputs/contributions")

WORDS = ("data=victoria", "experiment=known_ahead", *TASKS["victoria"])
SPLIT = "data.split={train: 0.6, validation: 0.06, test: 0.34}"
"""Two years before the explained one, the last weeks of them for validation."""

YEAR, EVERY, STEPS = "2014", 5, 48
"""The explained year, the days from one forecast to the next, and the half hours of a forecast."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.year_of_contributions", description=__doc__)
    parser.add_argument("--output", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options.output, options.picture))


def _run(output: Path, picture: Path) -> None:
    if (run := only_run(FOLDER)) is None:
        words = [*WORDS, SPLIT, "training.evaluation_stride=48", f"output_dir={FOLDER}", "training.progress=false"]
        Commands().run(["-m", "forecast.training", *words])
        run = only_run(FOLDER)
    assert run is not None
    model = load(run)
    assert isinstance(model, Forecaster)
    found = by_month(model, pd.read_csv(data_folder() / "vic_electricity.csv")).round(2)
    with replacing(output) as file:
        write_frame(file, found.assign(commit=commit()).reset_index(), index=False)
    draw(found, picture)
    print(found.to_string())


def by_month(model: Forecaster, table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean size of the contribution of each column, in its unit, by month (12, columns)."""
    rows = {}
    for day in pd.date_range(f"{YEAR}-01-01", f"{YEAR}-12-30", freq=f"{EVERY}D"):
        place = int((table["Date"] < day.strftime("%Y-%m-%d")).sum())
        ahead = table.iloc[place : place + STEPS]
        explained = model.explain(table.iloc[:place], ahead)
        rows[day] = sizes(explained, COLUMN)["size"]
    each = pd.DataFrame(rows).T
    return each.groupby(pd.DatetimeIndex(each.index).month.rename("month")).mean()


def draw(found: pd.DataFrame, path: Path) -> None:
    """Write a PNG of the shares of the columns by month."""
    shares = 100 * found.div(found.sum(axis=1), axis=0)
    figure, panel = plt.subplots(figsize=(8, 3.6), layout="constrained")
    below = 0.0 * shares.iloc[:, 0]
    for name in shares.columns:
        panel.bar(shares.index, shares[name], bottom=below, label=name, width=0.85)
        below = below + shares[name]
    panel.set_xticks(range(1, 13), [pd.Timestamp(2014, month, 1).strftime("%b") for month in range(1, 13)])
    panel.set_ylabel("share of contributions, %")
    panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
