"""Scores of forecasts without training on published tasks, with the rows before them, or with their windows.

`python -m benchmarks.zero_shot --part before` scores windows before the published ones, by which a generator or a
mixture may be chosen; `--part published` scores the published windows, once for each weights.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch

from benchmarks.published.record import add_row, read_rows
from benchmarks.published.rossmann import full_calendar, sales
from benchmarks.published.tasks import LEVELS, TASKS, Floats, data_folder, seasonal_error
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.predict import zero_shot as untrained
from forecast.predict.forecast import Question
from forecast.predict.zero_shot import forecast_columns
from forecast.pretrained import mixture as mixed_by
from forecast.pretrained.mixture import Mixture, choose
from forecast.pretrained.weights import FOLDER, Pretrained, open_pretrained
from forecast.runs.results import commit, device_name

RECORD = Path(__file__).parent / "records" / "published" / "zero_shot.csv"

BEFORE = 10
"""Windows before the published ones."""

UPRIGHT = "network, upright"
"""The network without the mirror image of the series, scored before the published windows alone."""

RIDGE = "ridge"
"""The ridge regression of the mixture alone, with the quantiles of its earlier errors, beside published windows."""

LEAST = 24
"""Fewest rows before a window."""


@dataclass(frozen=True)
class Table:
    """Columns of a task, (N, C), NaN where missing, with the windows that are scored."""

    name: str
    values: Floats
    frequency: str
    horizon: int
    windows: int
    season: int

    def cutoffs(self, part: str) -> list[int]:
        """Return the first row of each window of a part, the oldest first."""
        first = len(self.values) - self.horizon * self.windows
        if part == "published":
            return [first + self.horizon * number for number in range(self.windows)]
        earlier = [first - self.horizon * number for number in range(BEFORE, 0, -1)]
        return [cutoff for cutoff in earlier if cutoff >= LEAST]


def _task(name: str) -> Table:
    task = TASKS[name]
    table = task.table(data_folder())
    values = table[task.targets(table)].to_numpy(dtype=np.float64)
    values = np.where(values < task.floor, np.nan, values)
    frequency = str(pd.infer_freq(pd.DatetimeIndex(table.index[:20])))
    return Table(name, values, frequency, task.horizon, task.windows, task.season)


def _m4() -> Table:
    table = pd.read_parquet(data_folder() / "m4_hourly.parquet")
    series = [own["value"].to_numpy(np.float64) for _, own in table.groupby("series_id", sort=False)]
    values = np.full((max(map(len, series)), len(series)), np.nan)
    for place, own in enumerate(series):
        values[len(values) - len(own) :, place] = own
    return Table("m4_hourly", values, "h", 48, 1, 24)


def _rossmann() -> Table:
    values, _ = sales(full_calendar(pd.read_parquet(data_folder() / "rossmann.parquet")))
    return Table("rossmann_1D", values.T, "D", 48, 10, 7)


def _csv(name: str, file: str, horizon: int, windows: int, frequency: str, season: int, rows: int | None) -> Table:
    table = pd.read_csv(data_folder() / file, index_col=0, parse_dates=True).iloc[:rows].sort_index()
    table = table[~table.index.duplicated()].asfreq(frequency)
    return Table(name, table.to_numpy(np.float64), frequency, horizon, windows, season)


TABLES: dict[str, Callable[[], Table]] = {
    **{name: partial(_task, name) for name in TASKS},
    "m4_hourly": _m4,
    "rossmann_1D": _rossmann,
    "pjme": lambda: _csv("pjme", "PJME_hourly.csv", 24, 20, "h", 24, None),
    "ETTm1_96": lambda: _csv("ETTm1_96", "ETTm1.csv.gz", 96, 20, "15min", 96, 57_600),
}


def scores(table: Table, part: str, forecast: Callable[[Floats], Floats]) -> dict[str, float]:
    """Return SQL and MASE: means over steps, series and windows of errors over the seasonal error of the past."""
    levels, rows = np.array(LEVELS), []
    for cutoff in table.cutoffs(part):
        past, truth = table.values[:cutoff], table.values[cutoff : cutoff + table.horizon]
        error = truth[..., None] - forecast(past)
        scale = seasonal_error(past, table.season)
        losses = (2 * np.maximum(levels * error, (levels - 1) * error)).mean(-1)
        absolute = np.abs(error[..., LEVELS.index(0.5)])
        known = np.isfinite(scale) & (scale > 0)
        rows.append([np.nanmean(np.nanmean(each[:, known] / scale[known], 0)) for each in (losses, absolute)])
    return dict(zip(("SQL", "MASE"), np.mean(rows, axis=0).tolist(), strict=True))


def forecasts(
    table: Table, pretrained: Pretrained, note: list[str]
) -> Iterator[tuple[str, Callable[[Floats], Floats]]]:
    """Yield the name and the function of each forecast without training."""
    question = Question(tuple(round(100 * (1 - 2 * level)) for level in LEVELS[:4]))

    def mixture(past: Floats) -> Floats:
        found, mixed = forecast_columns(past, table.frequency, table.horizon, question, pretrained)
        note.append(mixed.words)
        return _rising(found)

    def alone(past: Floats) -> Floats:
        found, _ = forecast_columns(past, table.frequency, table.horizon, question, pretrained, mixes=False)
        return _rising(found)

    def upright(past: Floats) -> Floats:
        with mock.patch.object(mixed_by, "_mirrored", mixed_by._rolled):
            return alone(past)

    def ridge(past: Floats) -> Floats:
        with mock.patch.object(untrained, "choose", _ridge_alone), mock.patch.object(mixed_by, "_best_weights", _equal):
            found, _ = forecast_columns(past, table.frequency, table.horizon, question, pretrained)
        return _rising(found)

    yield "network", alone
    yield "mixture", mixture
    yield UPRIGHT, upright
    yield RIDGE, ridge


def _rising(found: Floats) -> Floats:
    """Return the quantiles (h, C, 9), the lowest first, of a median and the ends of four intervals."""
    lower, upper = found[..., 1::2], found[..., 2::2]
    return np.concatenate([lower, found[..., :1], upper[..., ::-1]], -1)


def _ridge_alone(*arguments: Any) -> Mixture:
    """Return the mixture with the whole weight on its ridge, and no margins; a short table has none."""
    mixed = choose(*arguments)
    if RIDGE not in mixed.names:
        raise InputError("the mixture has no ridge")
    weights = torch.zeros_like(mixed.weights)
    weights[:, mixed.names.index(RIDGE)] = 1
    return replace(mixed, weights=weights, margins=None)


def _equal(candidates: Sequence[torch.Tensor], *_: Any) -> torch.Tensor:
    return torch.full((candidates[0].shape[2], len(candidates)), 1 / len(candidates))


def run(names: Sequence[str], part: str, folder: Path, record: Path) -> None:
    """Score the tasks that the record lacks."""
    pretrained = open_pretrained(folder)
    weights = str(pretrained.card["sha256"])[:16]
    for name in names or list(TABLES):
        done = read_rows(record, "task", "part", "weights", "forecast")
        mine = done[(done.task == name) & (done.part == part) & (done.weights == weights)]
        table: Table | None = None
        note: list[str] = []
        for kind in ("network", "mixture", UPRIGHT if part == "before" else RIDGE):
            if kind in set(mine.forecast):
                continue
            table = TABLES[name]() if table is None else table
            forecast = dict(forecasts(table, pretrained, note))[kind]
            began = time.perf_counter()
            try:
                found = scores(table, part, forecast)
            except InputError as error:
                if kind != RIDGE:  # a short table has none
                    raise
                print(f"{name}, {kind}: {error}")
                continue
            seconds = (time.perf_counter() - began) / len(table.cutoffs(part))
            row: dict[str, object] = {"task": name, "part": part, "forecast": kind}
            row |= {key: round(value, 5) for key, value in found.items()}
            row |= {"windows": len(table.cutoffs(part)), "seconds_a_window": round(seconds, 2)}
            row |= {"newest_mixture": note[-1] if kind == "mixture" else "", "weights": weights, "commit": commit()}
            row |= {
                "machine": device_name(torch.device("cpu")),
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            add_row(record, row)
            print(*(f"{key}={value}" for key, value in row.items() if key not in ("machine", "date", "commit")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zero_shot", description=__doc__)
    parser.add_argument("--tasks", nargs="*", default=[], choices=list(TABLES), metavar="TASK")
    parser.add_argument("--part", choices=("before", "published"), default="before")
    parser.add_argument("--weights", type=Path, default=FOLDER, help="folder of the weights")
    parser.add_argument("--record", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    return finish(lambda: run(options.tasks, options.part, options.weights, options.record))


if __name__ == "__main__":
    sys.exit(main())
