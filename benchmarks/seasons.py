"""Coverage of interval forms in other seasons than that of validation: `python -m benchmarks.seasons`.

The forecaster is the ridge regression of every run. The rows before each test split chose the form; the test splits
were looked at once. `--part before` cuts the test split off and splits the rest 60/10/30 %.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf

from benchmarks.intervals import RECORD
from forecast.common.cli import finish
from forecast.common.conf_files import configuration_folder, load_choice
from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import table, write_between
from forecast.data.datamodule import ForecastData
from forecast.data.download import data_folders
from forecast.data.roles import Roles
from forecast.data.series import series_from_frame
from forecast.data.settings import DataSettings
from forecast.data.sources import Source, load_source
from forecast.data.split import split_rows
from forecast.evaluation.adaptive import Adaptive
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import best_power, split_residuals
from forecast.evaluation.interval_scores import IntervalSums
from forecast.evaluation.intervals import Calibration
from forecast.evaluation.ridge import Ridge, fit_ridge

SEASONS = RECORD.with_name("seasons.csv")
BEGIN = "<!-- seasons: written by python -m benchmarks.seasons --write docs/explanation/intervals.md -->"
END = "<!-- /seasons -->"

CONTEXT, HORIZON, BATCH = 512, 96, 256
YEARS, YEAR = 10, 8766
"""Length of a generated load, in years, and the hours of a year."""

LEAST_DAYS = 30
"""Days with origins that a calendar quarter needs."""

BORDERS = {"train": 0.7, "validation": 0.1, "test": 0.2}
BEFORE = {"train": 0.6, "validation": 0.1, "test": 0.3}

FILES = ("etth1", "pjme", "weather", "synthetic")
VICTORIA = {"name": "victoria", "time_column": "Time", "targets": ["Demand"]}

SPREADS = {
    "load_summer": lambda angle: 1 - 0.6 * np.cos(angle - 0.05 * np.pi),
    "load_winter": lambda angle: 1 + 0.6 * np.cos(angle),
    "load_strong": lambda angle: 1.2 - np.cos(angle - 0.05 * np.pi),
    "load_flat": lambda angle: np.ones_like(angle),
}
"""Spread of a generated load over the year, by its name; the angle is 0 at New Year."""

NAMES = [*FILES, "victoria", *SPREADS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seasons", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--part", choices=("before", "test"), default="before", help="rows that are scored")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table between its marks in this file")
    options = parser.parse_args(arguments)
    if options.write is not None:
        return finish(lambda: write_between(options.write, BEGIN, END, tables(pd.read_csv(SEASONS))))
    return finish(lambda: run(options.data, options.part))


def run(names: Sequence[str], part: str) -> None:
    """Score the forms on each series, print a row for each and add it to the record."""
    record = SEASONS
    if not record.parent.is_dir():
        raise InputError(f"{record.parent}: no such folder: run this in the checkout")
    for name in names:
        row = {"data": name, "part": part, **compare(*source_of(name, part))}
        print(", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
        rows = pd.read_csv(record) if record.is_file() else pd.DataFrame(columns=["data", "part"])
        others = rows[(rows["data"] != name) | (rows["part"] != part)]
        with replacing(record) as file:
            joined = pd.concat([others, pd.DataFrame([row])], ignore_index=True).sort_values(["part", "data"])
            write_frame(file, joined, index=False)


def tables(rows: pd.DataFrame) -> str:
    """Return the table of the test splits."""
    headings = (
        "data",
        "power",
        "plain: coverage",
        "by quarter",
        "by default: coverage",
        "by quarter",
        "interval score",
    )
    cells = []
    for row in rows[rows["part"] == "test"].to_dict("records"):
        shares = [
            text
            for form in ("plain", "default")
            for text in (
                f"{100 * row[f'{form}_coverage']:.1f} %",
                f"{100 * row[f'{form}_lowest']:.0f} to {100 * row[f'{form}_highest']:.0f} %",
            )
        ]
        cells.append([f"`{row['data']}`", f"{row['power']:g}", *shares, f"{100 * row['change_of_winkler']:+.1f} %"])
    return table(headings, cells)


def generated(name: str, seed: int = 0) -> pd.DataFrame:
    """Return ten years of an hourly load with a yearly cycle in level and spread, and fast and slow noise."""
    rows = YEARS * YEAR
    hour = np.arange(rows)
    angle = 2 * np.pi * hour / YEAR
    noise = np.zeros(rows)
    random = np.random.default_rng(seed)
    for persistence, size in ((0.8, 0.3), (0.995, 0.1)):
        shocks, state = size * random.standard_normal(rows), 0.0
        for row in range(rows):
            state = persistence * state + shocks[row]
            noise[row] += state
    day = 8 * (1 + 0.3 * np.cos(angle)) * np.sin(2 * np.pi * (hour - 7) / 24)
    weekend = hour // 24 % 7 >= 5
    load = 100 + 15 * np.cos(angle) + day - 4 * weekend + 5 * SPREADS[name](angle) * noise
    return pd.DataFrame({"date": pd.date_range("2012-01-01", periods=rows, freq="h"), "load": load})


def source_of(name: str, part: str) -> tuple[Source, dict[str, float | int]]:
    """Return a series, and the split that scores a part of it."""
    borders: dict[str, float | int] = BORDERS
    if name in SPREADS:
        series = series_from_frame(generated(name), Roles(["load"]), source=name)
        source = Source(series, Roles(["load"]))
    else:
        file = configuration_folder() / "data" / f"{'csv' if name == 'victoria' else name}.yaml"
        choice: dict[str, Any] = dict(OmegaConf.to_container(load_choice(file)))  # type: ignore[arg-type]  # a group
        if name == "victoria":
            choice |= {**VICTORIA, "path": str(data_folders()[0] / "vic_electricity.csv")}
        settings = DataSettings.parse(choice)
        source, borders = load_source(settings), dict(settings.split)
    if part == "test":
        return source, borders
    stop = split_rows(len(source.series.frame), **borders).validation.stop
    series = source.series
    observed = None if series.observed is None else series.observed[:stop]
    return replace(source, series=replace(series, frame=series.frame.iloc[:stop], observed=observed)), BEFORE


def compare(source: Source, split: dict[str, float | int]) -> dict[str, float]:
    """Return coverage and interval score of 80 % intervals, plain and by default, with the range over quarters."""
    data = ForecastData(
        source,
        split,
        context_length=CONTEXT,
        horizon=HORIZON,
        batch_size=BATCH,
        evaluation_batch_size=BATCH,
        seed=1,
    )
    windows = data.parts["validation"]
    ridge = fit_ridge(data.parts["train"], windows)
    validation = evaluate(ridge, windows, BATCH, keep_residuals=True)
    residuals = split_residuals(validation, windows, selected=False)
    power = best_power(ridge, data.parts["train"], BATCH)
    adapted = residuals.adapted(power)
    forms: dict[str, Adaptive | None] = {"plain": None}
    forms["default"] = (
        None if adapted is None else Adaptive(residuals.residuals.typical, power, adapted.calibration(()))
    )
    row = {"power": power}
    for form, adaptive in forms.items():
        places = _quarters(data)
        quarters = {
            quarter: _sums(ridge, data, own, residuals.calibration(()), adaptive) for quarter, own in places.items()
        }
        whole = sum(list(quarters.values())[1:], start=next(iter(quarters.values())))
        least = pd.Timedelta(days=LEAST_DAYS) / (data.index[1] - data.index[0])
        own = [_coverage(sums) for quarter, sums in quarters.items() if len(places[quarter]) >= least]
        row |= {f"{form}_coverage": _coverage(whole), f"{form}_lowest": min(own), f"{form}_highest": max(own)}
        row[f"{form}_winkler"] = float(whole.winkler[0].sum() / whole.count.sum())
    row["change_of_winkler"] = row["default_winkler"] / row["plain_winkler"] - 1
    return row


def _quarters(data: ForecastData) -> dict[str, torch.Tensor]:
    """Return the places of the test windows by the calendar quarter of their origin."""
    windows = data.parts["test"]
    origins = data.index[(windows.starts + windows.context_length).numpy()].tz_localize(None).to_period("Q")
    return {str(quarter): torch.from_numpy(np.flatnonzero(origins == quarter)) for quarter in origins.unique()}


def _sums(
    ridge: Ridge, data: ForecastData, places: torch.Tensor, calibration: Calibration, adaptive: Adaptive | None
) -> IntervalSums:
    """Return the sums of the test windows at some places."""
    test, validation = data.parts["test"], data.parts["validation"]
    own = replace(test, starts=test.starts[places])
    before = replace(test, starts=torch.cat([validation.starts, test.starts[: int(places[0])]]))
    sums = evaluate(ridge, own, BATCH, calibration=calibration, adaptive=adaptive, before=before).intervals
    assert sums is not None
    return sums


def _coverage(sums: IntervalSums) -> float:
    return float(sums.inside[0].sum() / sums.count.sum())


if __name__ == "__main__":
    sys.exit(main())
