"""Measure how often a report's verdicts and intervals are wrong, on errors that are drawn instead of trained.

`python -m benchmarks.studies.verdicts --write docs/explanation/comparisons.md` simulates sweeps of one mechanism under
four names, and intervals of a mean difference of 0. It writes both records and the tables of that page.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.signal import lfilter

from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import table, write_between
from forecast.evaluation.significance import block_means, mean_interval, surely_below_zero
from forecast.report.comparisons import BETTER, WORSE, Windows, compare_all
from forecast.report.groups import RunGroup, Setting
from forecast.runs.read import FinishedRun
from tests.report.made import START, result_of

RECORDS = Path("benchmarks/records/verdicts")

BEGIN, END = "<!-- error rates: begin -->", "<!-- error rates: end -->"

NAMES = ("full", "probsparse", "linear", "mean")
"""Names of the mechanisms of a sweep, all of which have the same error."""

COEFFICIENTS = (0.0, 0.9, 0.99)
"""Autoregression of the differences from one step to the next."""

SIZES = ((24, 600), (24, 2000), (96, 1000), (96, 2800))
"""Horizon and number of test windows."""

SPREAD, SEED_SPREAD = 0.02, 0.01
"""Relative standard deviation of a difference over the windows at one step, and of the error over the seeds."""

SHARED, OWN = "mechanism", "run"
"""Whether all seeds of a mechanism have the same differences over the windows, or each run has its own."""

CONFIDENCE = 0.9
"""Confidence level of the rule of validation."""

Row = dict[str, Any]


def moving_means(draws: np.random.Generator, rows: int, count: int, horizon: int, coefficient: float) -> np.ndarray:
    """Return means over the horizon of autoregressions with variance 1, like the errors of windows, (rows, count)."""
    noise = draws.standard_normal((rows, count + horizon - 1))
    noise[:, 1:] *= math.sqrt(1 - coefficient**2)
    sums = np.pad(lfilter([1.0], [1.0, -coefficient], noise, axis=1).cumsum(1), ((0, 0), (1, 0)))
    means: np.ndarray = (sums[:, horizon:] - sums[:, :-horizon]) / horizon
    return means


def simulate(draws: np.random.Generator, seeds: int, coefficient: float, horizon: int, count: int, noise: str) -> Row:
    """Return the verdicts on a simulated sweep: comparisons, false verdicts, and intervals marked as too narrow."""
    difficulty = np.exp(0.4 * moving_means(draws, 1, count, horizon, 0.98)[0])
    rows = len(NAMES) * (seeds if noise == OWN else 1)
    own = moving_means(draws, rows, count, horizon, coefficient).reshape(len(NAMES), -1, count)
    level = 1 + SEED_SPREAD * draws.standard_normal((len(NAMES), seeds))
    errors = difficulty * (level[:, :, None] + SPREAD * own)  # (mechanism, seed, window)
    settings, windows = [], {}
    origins = pd.date_range(START, periods=count, freq="h")
    for name, runs in zip(NAMES, errors, strict=True):
        results = [
            result_of(name, seed=seed, mse=float(run.mean()), windows=count, config={"horizon": horizon})
            for seed, run in enumerate(runs)
        ]
        finished = tuple(FinishedRun(name, Path(), result, "") for result in results)
        settings.append(Setting(name, 512, finished))
        series: Windows = pd.Series(runs.mean(0), index=origins)
        windows[name, 512] = series
    pairs = compare_all(RunGroup("simulated", tuple(settings)), windows).every
    return {
        "comparisons": len(pairs),
        "false": sum(pair.verdict in (BETTER, WORSE) for pair in pairs),
        "marked": sum(pair.interval is not None and pair.interval.capped for pair in pairs),
    }


def sweeps(count: int) -> Iterator[Row]:
    """Yield one row per kind of sweep, with sums over about `count` sweeps in all."""
    kinds = list(product((1, 2, 3), COEFFICIENTS, SIZES, (OWN, SHARED)))
    for number, (seeds, coefficient, (horizon, windows), noise) in enumerate(kinds):
        draws = np.random.default_rng(number)
        each = -(-count // len(kinds))
        found = [simulate(draws, seeds, coefficient, horizon, windows, noise) for _ in range(each)]
        yield {
            **{"seeds": seeds, "coefficient": coefficient, "horizon": horizon, "windows": windows, "noise": noise},
            **{"sweeps": each, **{key: sum(row[key] for row in found) for key in found[0]}},
            "sweeps_with_false": sum(row["false"] > 0 for row in found),
        }


def intervals(count: int, draws: int = 1999) -> Iterator[Row]:
    """Yield one row per kind of series: how often its interval misses 0, and how often validation accepts nothing."""
    for number, (coefficient, (horizon, windows)) in enumerate(product(COEFFICIENTS, SIZES)):
        series = moving_means(np.random.default_rng(number), count, windows, horizon, coefficient)
        found = [mean_interval(one, horizon, draws=draws) for one in series]
        missed = [one is not None and not one.low <= 0 <= one.high for one in found]
        lasting = [one is not None and one.lasting for one in found]
        rule = [surely_below_zero(block_means(torch.tensor(one), horizon), CONFIDENCE) is True for one in series]
        yield {
            **{"coefficient": coefficient, "horizon": horizon, "windows": windows, "series": count},
            "missed": sum(missed),
            "missed_unmarked": sum(one and not other for one, other in zip(missed, lasting, strict=True)),
            "marked": sum(one is not None and one.capped for one in found),
            "accepted": sum(rule),
        }


def tables(of_sweeps: pd.DataFrame, of_intervals: pd.DataFrame) -> str:
    """Return the Markdown tables of the page: verdicts by seeds and coefficient, and intervals."""
    groups = [(f"{seeds}", f"{phi:g}", group) for (seeds, phi), group in of_sweeps.groupby(["seeds", "coefficient"])]
    rows = []
    for seeds, coefficient, group in [*groups, ("all", "all", of_sweeps)]:
        sweeps, pairs = group["sweeps"].sum(), group["comparisons"].sum()
        shares = _per_cent(group["false"].sum(), pairs), _per_cent(group["sweeps_with_false"].sum(), sweeps)
        rows.append([seeds, coefficient, f"{sweeps:,}", *shares, _per_cent(group["marked"].sum(), pairs)])
    columns = ("seeds", "coefficient", "sweeps", "false verdicts, %", "sweeps with one, %", "perhaps too narrow, %")
    verdicts = table(columns, rows)
    headings = (
        *("coefficient", "horizon", "windows", "interval misses, %", "and decides, %", "perhaps too narrow, %"),
        "validation rule wrong, %",
    )
    cells = [
        [
            *(f"{row['coefficient']:g}", f"{row['horizon']:,}", f"{row['windows']:,}"),
            *(_per_cent(row[key], row["series"]) for key in ("missed", "missed_unmarked", "marked", "accepted")),
        ]
        for row in of_intervals.to_dict("records")
    ]
    return f"{verdicts}\n\n{table(headings, cells)}"


def _per_cent(part: float, of: float) -> str:
    return f"{100 * part / of:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, write both records and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=2000, help="simulated sweeps (default: %(default)s)")
    parser.add_argument("--series", type=int, default=1000, help="series of each kind (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=RECORDS, help="folder of the records (default: %(default)s)")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    frames = [pd.DataFrame(rows) for rows in (sweeps(options.sweeps), intervals(options.series))]
    for name, frame in zip(("sweeps", "intervals"), frames, strict=True):
        with replacing(options.output / f"{name}.csv") as file:
            write_frame(file, frame, index=False)
    text = tables(*frames)
    print(text)
    if options.write:
        write_between(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
