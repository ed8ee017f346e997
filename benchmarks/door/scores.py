"""Scores of a table's forecasts, the demands on them, and the page with all tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from benchmarks.door.series import TABLES, Floats, Table
from forecast.common.tables import table as markdown

SLACK = 0.03
"""Share by which the model's error may be above the best baseline's."""

CONFIDENCE = 0.9
"""Confidence of the paired interval of the difference."""

COVERAGE, POOLED = (0.70, 0.90), (0.77, 0.84)
"""Limits of the coverage of 80 % intervals: of one table, and of all origins."""

MOST_MASS = 0.5
"""Share of one value from which an interval may cover more than the upper limit: it holds the value or misses it."""

DEMANDS = ("trains", "error", "coverage", "bounds")


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of one file from its origins, each array (origins, h, C) in original units.

    `errors` are future minus forecast of each baseline; `scale` (C,) is the standard deviation of the file.
    """

    truth: Floats
    forecast: Floats
    lower: Floats
    upper: Floats
    errors: Mapping[str, Floats]
    scale: Floats

    def mean_squares(self) -> dict[str, Floats]:
        """Return the mean squared error of the model and each baseline at each origin, on z-scores."""
        errors = {"model": self.truth - self.forecast, **self.errors}
        return {name: np.square(error / self.scale).mean((1, 2)) for name, error in errors.items()}

    def covered(self) -> Floats:
        """Return the share of the values of each origin that the interval holds; NaN without intervals."""
        inside = (self.truth >= self.lower) & (self.truth <= self.upper)
        return np.asarray(np.where(np.isnan(self.lower), np.nan, inside).mean((1, 2)))


def scores(files: Sequence[Forecasts], drawn: Table) -> dict[str, Any]:
    """Return the scores of a table over the origins of its files."""
    squares = [each.mean_squares() for each in files]
    errors = {name: np.concatenate([each[name] for each in squares]) for name in squares[0]}
    baselines = {name: values for name, values in errors.items() if name != "model"}
    best = min(baselines, key=lambda name: float(baselines[name].mean()))
    low, high = paired_interval(errors["model"] - errors[best])
    covered = np.concatenate([each.covered() for each in files])
    truth = np.concatenate([each.truth.ravel() for each in files])
    return {
        "origins": len(covered),
        "best_baseline": best,
        "model_error": float(errors["model"].mean()),
        "best_error": float(errors[best].mean()),
        "difference_low": low,
        "difference_high": high,
        "coverage": float(covered.mean()),
        "one_value": float(np.unique(truth, return_counts=True)[1].max() / truth.size),
        "crossed": crossed(files, drawn.low, drawn.high),
    }


def paired_interval(differences: Floats) -> tuple[float, float]:
    """Return the interval of the mean of paired differences by Student's t; infinite for a single one."""
    count = len(differences)
    if count < 2:
        return -math.inf, math.inf
    half = stdtrit(count - 1, (1 + CONFIDENCE) / 2) * differences.std(ddof=1) / math.sqrt(count)
    return float(differences.mean() - half), float(differences.mean() + half)


def crossed(files: Sequence[Forecasts], low: float | None, high: float | None) -> float:
    """Return the share of forecasts and interval ends beyond a bound; rounding in float32 does not count."""
    every = np.concatenate([np.ravel(values) for each in files for values in (each.forecast, each.lower, each.upper)])
    ends = every[~np.isnan(every)]
    beyond = np.zeros(len(ends), dtype=bool)
    slack = 1e-6 * max(abs(ends).max(), 1.0)
    for bound, sign in ((low, -1), (high, 1)):
        if bound is not None:
            beyond |= sign * (ends - bound) > slack
    return float(beyond.mean())


def failures(row: Mapping[Any, Any]) -> list[str]:
    """Return the demands that a row of the record does not meet."""
    if not row["trains"]:
        return ["trains"]
    failed = []
    if row["model_error"] > (1 + SLACK) * row["best_error"] and row["difference_low"] > 0:
        failed.append("error")
    low, high = COVERAGE
    if not row["coverage"] >= low or (row["coverage"] > high and row["one_value"] <= MOST_MASS):
        failed.append("coverage")
    if row["crossed"] > 0:
        failed.append("bounds")
    return failed


def pooled(rows: pd.DataFrame) -> float:
    """Return the coverage over the origins of all rows; NaN without one."""
    scored = rows[rows["trains"] & rows["coverage"].notna()] if "coverage" in rows else rows[:0]
    return float(np.average(scored["coverage"], weights=scored["origins"])) if len(scored) else math.nan


def tables(record: pd.DataFrame) -> str:
    """Return the page's tables: the demands, and the rows of each program."""
    if record.empty:
        return "No row yet."
    parts = [summary(record)]
    for program in sorted(record["program"].unique(), key=lambda name: name != "now"):
        parts += [f"**{str(program).capitalize()}**", details(record[record["program"] == program])]
    return "\n\n".join(parts)


def summary(record: pd.DataFrame) -> str:
    """Return the table of how many tables meet each demand, with a row for each program."""
    rows = []
    for program, group in record.groupby("program", sort=True):
        failed = [failures(row) for row in group.to_dict("records")]
        met = [sum(demand not in names and "trains" not in names for names in failed) for demand in DEMANDS]
        whole = sum(not names for names in failed)
        rows.append([str(program), *(f"{number} of {len(group)}" for number in (*met, whole)), percent(pooled(group))])
    return markdown(("program", *DEMANDS, "all four", "pooled coverage"), rows)


def details(group: pd.DataFrame) -> str:
    """Return the table of one program, in the order of `TABLES`; names alone where the first command refuses."""
    rows, refused, found = [], [], {row["name"]: row for row in group.to_dict("records")}
    for drawn in TABLES:
        if (row := found.get(drawn.name)) is None:
            continue
        if not row["trains"]:
            refused.append(drawn.name)
            continue
        ratio = row["model_error"] / row["best_error"] if row["best_error"] else math.nan
        ends = [100 * row[f"difference_{end}"] / row["best_error"] for end in ("low", "high")]
        rows.append(
            [
                drawn.name,
                f"{row['context_length']:.0f}, {row['horizon']:.0f}",
                f"{row['origins']:.0f}",
                str(row["best_baseline"]).replace("_", " "),
                f"{100 * (ratio - 1):+.1f} %",
                " to ".join(f"{end:+.1f}" for end in ends),
                percent(row["coverage"]),
                percent(row["crossed"]),
                ", ".join(failures(row)) or "-",
            ]
        )
    headings = (
        *("table", "look-back, horizon", "origins", "best baseline", "error against it"),
        *("90 % interval", "coverage", "beyond a bound", "not met"),
    )
    parts = [markdown(headings, rows)]
    if refused:
        parts.append(markdown(["not trained by the first command"], [[", ".join(refused)]]))
    return "\n\n".join(parts)


def percent(share: float) -> str:
    """Format a share in per cent."""
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"
