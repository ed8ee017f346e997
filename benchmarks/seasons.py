"""Coverage of interval forms in other seasons than that of validation: `python -m benchmarks.seasons`.

The forecaster is the ridge regression of every run. The rows before each test split chose the form; the test splits
were looked at once. `--part before` cuts the test split off and splits the rest 60/10/30 %. `--part trained` trains the
model of the default command and scores its test split.
"""

import argparse
import shlex
import subprocess
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
from benchmarks.processes import run_to_its_end
from benchmarks.published.contest import only_run
from forecast.common.cli import finish
from forecast.common.conf_files import configuration_folder, load_choice
from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.processes import environment
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import table, write_between
from forecast.data.datamodule import ForecastData
from forecast.data.settings import DataSettings
from forecast.data.sources import Source, load_source
from forecast.data.split import split_rows
from forecast.evaluation.adaptive import Adaptive, Forms
from forecast.evaluation.evaluate import Forecaster, evaluate
from forecast.evaluation.holdout import best_power, split_residuals
from forecast.evaluation.interval_scores import IntervalSums
from forecast.evaluation.intervals import Calibration
from forecast.evaluation.limits import Limits
from forecast.evaluation.ridge import fit_ridge
from forecast.evaluation.scoring import network_forecaster, scaled_limits
from forecast.predict.facts import calibration_of_run
from forecast.runs.resume import read_config
from forecast.runs.run import Architecture, Run
from forecast.runs.settings import Settings
from forecast.tables.download import data_folders
from forecast.tables.roles import Roles
from forecast.tables.series import series_from_frame
from forecast.training.prepare import make_data

SEASONS = RECORD.with_name("seasons.csv")
BEGIN = "<!-- seasons: written by python -m benchmarks.seasons --write docs/measurements/intervals.md -->"
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

TRAINED = "trained"
RUNS = Path("outputs/seasons")
"""Folder of the runs of `--part trained`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seasons", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--part", choices=("before", "test", TRAINED), default="before", help="rows that are scored")
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
        row = {"data": name, "part": part, **(compare_trained(name) if part == TRAINED else compare_ridge(name, part))}
        print(", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
        rows = pd.read_csv(record) if record.is_file() else pd.DataFrame(columns=["data", "part"])
        others = rows[(rows["data"] != name) | (rows["part"] != part)]
        with replacing(record) as file:
            joined = pd.concat([others, pd.DataFrame([row])], ignore_index=True).sort_values(["part", "data"])
            write_frame(file, joined, index=False)


def tables(rows: pd.DataFrame) -> str:
    """Return the table of the test splits, those of trained models last."""
    headings = (
        "data",
        "forecaster",
        "power",
        "plain: coverage",
        "by quarter",
        "by default: coverage",
        "by quarter",
        "interval score",
    )
    cells = []
    for row in rows[rows["part"] != "before"].to_dict("records"):
        shares = [
            text
            for form in ("plain", "default")
            for text in (
                f"{100 * row[f'{form}_coverage']:.1f} %",
                f"{100 * row[f'{form}_lowest']:.0f} to {100 * row[f'{form}_highest']:.0f} %",
            )
        ]
        forecaster = "ridge" if row["part"] == "test" else f"trained, weight {100 * row['mixing_weight']:.0f} %"
        change = f"{100 * row['change_of_winkler']:+.1f} %"
        cells.append([f"`{row['data']}`", forecaster, f"{row['power']:g}", *shares, change])
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
    stop = split_rows(len(source.series.frame), **borders, unit=source.series.unit).validation.stop
    series = source.series
    observed = None if series.observed is None else series.observed[:stop]
    return replace(source, series=replace(series, frame=series.frame.iloc[:stop], observed=observed)), BEFORE


def compare_ridge(name: str, part: str) -> dict[str, float]:
    """Return the scores of the ridge regression on a part of a series."""
    source, split = source_of(name, part)
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
    adaptive = None if adapted is None else Adaptive(residuals.residuals.typical, power, adapted.calibration(()))
    return compare(ridge, data, Forms(residuals.calibration(()), adaptive), power)


def compare_trained(name: str) -> dict[str, float]:
    """Return the scores of the model that the default command trains on a series; train it if it is not there."""
    run = _trained_run(name)
    settings = Settings.parse(read_config(run.path))
    data = make_data(settings, load_source(settings.data), torch.device("cpu"))
    network = run.load_model()
    forms = calibration_of_run(run.path, Architecture.from_dict(run.manifest()["architecture"]).sizes)
    power = 0.0 if forms.adaptive is None else forms.adaptive.power
    scores = compare(network_forecaster(network), data, forms, power, scaled_limits(data))
    return {**scores, "mixing_weight": float("nan") if network.mixing_weight is None else network.mixing_weight}


def _trained_run(name: str) -> Run:
    """Train by the public command unless a finished run is there, and return the run."""
    folder = RUNS / name
    words = [f"data={name}"]
    if name == "victoria":
        words = ["data=csv", f"data.path={data_folders()[0] / 'vic_electricity.csv'}", "data.time_column=Time"]
        words.append("data.targets=[Demand]")
    elif name in SPREADS:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{name}.csv") as file:
            write_frame(file, generated(name), index=False)
        words = ["data=csv", f"data.path={folder / name}.csv"]
    words += [f"output_dir={folder}", "resume=auto", "training.progress=false"]
    print(shlex.join(["python", "train.py", *words]), flush=True)
    command = [sys.executable, "-m", "forecast.training", *words]
    if run_to_its_end(command, env=environment(), stdout=subprocess.DEVNULL) or (path := only_run(folder)) is None:
        raise InputError(f"{name}: the training failed")
    return Run.open(path)


def compare(
    forecaster: Forecaster, data: ForecastData, forms: Forms, power: float, limits: Limits | None = None
) -> dict[str, float]:
    """Return coverage and interval score of 80 % intervals, plain and by default, with the range over quarters."""
    row = {"power": power}
    places = _quarters(data)
    least = pd.Timedelta(days=LEAST_DAYS) / (data.index[1] - data.index[0])
    for form, adaptive in (("plain", None), ("default", forms.adaptive)):
        quarters = {
            quarter: _sums(forecaster, data, own, forms.plain, adaptive, limits) for quarter, own in places.items()
        }
        whole = sum(list(quarters.values())[1:], start=next(iter(quarters.values())))
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
    forecaster: Forecaster,
    data: ForecastData,
    places: torch.Tensor,
    calibration: Calibration,
    adaptive: Adaptive | None,
    limits: Limits | None,
) -> IntervalSums:
    """Return the sums of the test windows at some places."""
    test, validation = data.parts["test"], data.parts["validation"]
    own = replace(test, starts=test.starts[places])
    before = replace(test, starts=torch.cat([validation.starts, test.starts[: int(places[0])]]))
    options = {"calibration": calibration, "adaptive": adaptive, "before": before, "limits": limits}
    sums = evaluate(forecaster, own, BATCH, **options).intervals  # type: ignore[arg-type]  # one type each
    assert sums is not None
    return sums


def _coverage(sums: IntervalSums) -> float:
    return float(sums.inside[0].sum() / sums.count.sum())


if __name__ == "__main__":
    sys.exit(main())
