"""Coverage and width of intervals on real series: `python -m benchmarks.intervals`.

Each run is one public command. Beside our intervals stand plain residual quantiles and the split conformal intervals of
`crepes`, of the same model. A run that the record has is not made again; an interrupted one is resumed.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.processes import run_to_its_end
from benchmarks.published.contest import only_run
from benchmarks.run_data import data_of
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import folder_lock, look_up, read_json, replacing
from forecast.common.processes import environment
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import table, write_between
from forecast.evaluation.evaluate import MAX_RESIDUALS, Forecaster, evaluate
from forecast.evaluation.interval_scores import LEVELS, QUANTILES
from forecast.evaluation.intervals import interval_levels
from forecast.evaluation.ridge import fit_ridge
from forecast.evaluation.scoring import network_forecaster, units_of
from forecast.runs.run import RESULT, Run
from forecast.training.sweep.sweep import JOBS_LEFT

RECORD = Path("benchmarks/records/intervals/intervals.csv")
FOLDER = Path("outputs/intervals")

KNOWN_AHEAD = ("experiment=known_ahead", "context_length=168")
TASKS: dict[tuple[str, int], tuple[str, ...]] = {
    **{(name, horizon): () for name in ("etth1", "etth2", "ettm1", "weather", "pjme") for horizon in (96, 336)},
    ("epf_np", 24): KNOWN_AHEAD,
    ("epf_de", 24): KNOWN_AHEAD,
}
"""Data sets and horizons, with the words beside them: the defaults, and the recipe of prices."""

ARMS: dict[str, tuple[str, ...]] = {"defaults": (), "quantile": ("loss=quantile",)}
"""Kinds of run, with their words."""

KEY = ["data", "horizon", "arm"]

FACTS = {
    **{
        f"ours_{name}_{percent}": f"test.intervals.{name}_{percent}"
        for percent in LEVELS
        for name in ("coverage", "width", "winkler")
    },
    **{f"held_out_coverage_{percent}": f"validation.intervals.coverage_{percent}" for percent in LEVELS},
    "ours_sql": "test.intervals.sql",
    "ours_wql": "test.intervals.wql",
    "ours_crps": "test.intervals.crps",
    "ridge_sql": "baselines.linear.test.intervals.sql",
    "naive_sql": "baselines.seasonal_naive.test.intervals.sql",
    "test_mse": "test.scaled.mse",
    "test_mae": "test.scaled.mae",
    "ridge_mse": "baselines.linear.test.scaled.mse",
    "method": "calibration.method",
    "calibration_windows": "calibration.windows",
    "test_windows": "data.windows.test",
    "share": "model.mixing_weight",
    "seconds": "speed.fit_seconds",
    "commit": "commit",
    "machine": "device",
}
"""Columns of the record and their paths in `result.json`; widths and losses on z-scores."""

BEGIN = "<!-- intervals: written by python -m benchmarks.intervals --write docs/measurements/intervals.md -->"
END = "<!-- /intervals -->"


@dataclass(frozen=True)
class Cell:
    """One run: a data set, a horizon and a kind of run."""

    data: str
    horizon: int
    arm: str

    @property
    def words(self) -> list[str]:
        """The overrides of its command."""
        return [f"data={self.data}", f"horizon={self.horizon}", *TASKS[self.data, self.horizon], *ARMS[self.arm]]

    @property
    def folder(self) -> Path:
        """The folder that holds its run alone."""
        return FOLDER / f"{self.data}_{self.horizon}_{self.arm}"

    @property
    def run(self) -> Path | None:
        """The folder of its finished run; raise InputError if there are several, as after a change of the defaults."""
        return only_run(self.folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code, 1 if a run failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.intervals",
        description="Run what the record lacks, one training at a time, or write its tables into a Markdown file. Run "
        "the same command again to continue.",
    )
    names = [f"{data}:{horizon}" for data, horizon in TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, metavar="DATA:HORIZON")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=["defaults"])
    parser.add_argument("--minutes", type=float, help="time after which no run starts")
    parser.add_argument("--dry-run", action="store_true", help="print the missing commands; run nothing")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables between their marks in this file")
    options = parser.parse_args(arguments)
    codes: list[int] = []
    return finish(lambda: codes.append(_run(options))) or codes[0]


def _run(options: argparse.Namespace) -> int:
    """Run or write; return the exit code."""
    if options.write is not None:
        write_between(options.write, BEGIN, END, tables(read()))
        return 0
    if not RECORD.parent.is_dir():
        raise InputError(f"{RECORD.parent}: no such folder: run this in the checkout")
    if not options.dry_run and find_spec("crepes") is None:
        raise InputError("the comparison needs the extra: pip install -e '.[test]'")
    tasks = [task.split(":") for task in options.tasks]
    wanted = [Cell(data, int(horizon), arm) for arm in options.arms for data, horizon in tasks]
    started, failed = time.monotonic(), False
    for cell in wanted:
        if tuple(vars(cell).values()) in {tuple(key) for key in read()[KEY].to_numpy().tolist()}:
            continue
        words = [*cell.words, f"output_dir={cell.folder}", "resume=auto"]
        print(shlex.join(["python", "train.py", *words]), flush=True)
        if options.dry_run:
            continue
        _ = cell.run  # several finished runs are refused before a training
        if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
            print(f"time limit of {options.minutes:g} minutes reached: run the same command again to continue")
            return JOBS_LEFT
        training = [sys.executable, "-m", "forecast.training", *words, "training.progress=false"]
        code = run_to_its_end(training, env=environment(), stdout=subprocess.DEVNULL)
        failed = failed or code != 0
        if code == 0 and cell.run is not None:
            _add(cell, cell.run)
    return int(failed)


def read() -> pd.DataFrame:
    """Return the record; an empty table if there is none yet."""
    return pd.read_csv(RECORD) if RECORD.is_file() else pd.DataFrame(columns=KEY)


def _add(cell: Cell, run: Path) -> None:
    result = read_json(run / RESULT)
    facts: dict[str, Any] = {column: look_up(result, path) for column, path in FACTS.items()}
    for percent in LEVELS:
        coverage = [step[f"coverage_{percent}"] for step in result["test"]["by_step"]]
        if None not in coverage:
            facts |= {f"ours_lowest_step_{percent}": min(coverage), f"ours_highest_step_{percent}": max(coverage)}
    command = shlex.join(["python", "train.py", *cell.words])
    row = {**vars(cell), **facts, **compare(Run.open(run)), "command": command}
    with folder_lock(RECORD.parent, wait=True), replacing(RECORD) as file:
        rows = pd.concat([read(), pd.DataFrame([row])], ignore_index=True).sort_values(KEY)
        write_frame(file, rows, index=False)


@dataclass(frozen=True)
class Errors:
    """Future minus forecast on z-scores, (W, h, C), NaN where not observed, on validation and test."""

    validation: np.ndarray
    test: np.ndarray

    def scores(self, low: np.ndarray, high: np.ndarray) -> dict[str, float]:
        """Return coverage, width and the range of the coverage by step of intervals (h, C) around the forecast."""
        measured = np.isfinite(self.test)
        inside = np.where(measured, (self.test >= low) & (self.test <= high), False)
        by_step = inside.sum((0, 2)) / measured.sum((0, 2))
        width = np.broadcast_to(high - low, self.test.shape)[measured].mean()
        return {
            "coverage": float(inside.sum() / measured.sum()),
            "width": float(width),
            "lowest_step": float(by_step.min()),
            "highest_step": float(by_step.max()),
        }

    def scaled_loss(self, factor: np.ndarray) -> float:
        """Return the scaled quantile loss of plain residual quantiles; `factor` (C,) is scale over seasonal error."""
        losses = []
        for level in QUANTILES:
            error = self.test - np.nanquantile(self.validation, level, axis=0)
            losses.append(2 * np.nanmean(np.maximum(level * error, (level - 1) * error), axis=(0, 1)))
        return float(np.nanmean(np.mean(losses, axis=0) * factor))


@torch.inference_mode()
def compare(run: Run) -> dict[str, float]:
    """Return the scores of plain residual quantiles and of `crepes` for the run's model, and of its ridge."""
    data = data_of(run)
    units = units_of(data)
    factor = np.where(units.seasonal_error > units.least, units.scale / units.seasonal_error, np.nan)
    model = _errors(network_forecaster(run.load_model()), data)
    ridge = _errors(fit_ridge(data.parts["train"], data.parts["validation"]), data)
    facts = {"plain_sql": model.scaled_loss(factor), "ridge_plain_sql": ridge.scaled_loss(factor)}
    for percent in LEVELS:
        ends = np.nanquantile(model.validation, interval_levels(percent), axis=0)
        width = _crepes(model.validation, percent / 100)
        for name, scores in (("plain", model.scores(*ends)), ("crepes", model.scores(-width, width))):
            facts |= {f"{name}_{score}_{percent}": value for score, value in scores.items()}
    return facts


def _errors(forecaster: Forecaster, data: Any) -> Errors:
    """Return the errors of all windows: `evaluate` keeps those of few windows only where a split is large."""
    splits = []
    for part in ("validation", "test"):
        windows, pieces = data.parts[part], []
        several = max(1, MAX_RESIDUALS // (windows.horizon * windows.num_targets))
        for chunk in windows.starts.split(several):
            some = replace(windows, starts=chunk)
            kept = evaluate(forecaster, some, data.evaluation_batch_size, keep_residuals=True).residuals
            assert kept is not None
            pieces.append(kept[..., kept.shape[-1] // 2])
        splits.append(np.concatenate(pieces))
    return Errors(*splits)


def _crepes(residuals: np.ndarray, confidence: float) -> np.ndarray:
    """Return the half-widths (h, C) of split conformal intervals: one regressor for each step and series."""
    from crepes import ConformalRegressor

    _, horizon, series = residuals.shape
    widths = np.empty((horizon, series))
    for step in range(horizon):
        for place in range(series):
            column = residuals[:, step, place]
            regressor = ConformalRegressor().fit(residuals=column[np.isfinite(column)])
            widths[step, place] = regressor.predict_int(y_hat=np.zeros(1), confidence=confidence)[0, 1]
    return widths


def tables(rows: pd.DataFrame) -> str:
    """Return the tables of the record: coverage and width, and the scaled quantile loss."""
    if rows.empty:
        return "No run yet."
    return "\n\n".join([_coverage(rows, 80), _coverage(rows, 95), _losses(rows)])


def _coverage(rows: pd.DataFrame, percent: int) -> str:
    headings = (
        *(f"data, horizon: {percent} % intervals", "coverage", "by step", "width", "plain: coverage", "width"),
        *("crepes: coverage", "width", "held-out coverage on validation"),
    )
    cells = []
    for row in rows.sort_values(KEY).to_dict("records"):
        if pd.isna(row[f"ours_coverage_{percent}"]):
            continue
        names = [f"{kind}_{score}_{percent}" for kind in ("plain", "crepes") for score in ("coverage", "width")]
        numbers = [_percent(row[name]) if "coverage" in name else f"{row[name]:.3f}" for name in names]
        steps = [_percent(row[f"ours_{end}_step_{percent}"]) for end in ("lowest", "highest")]
        cells.append(
            [
                _name(row),
                _percent(row[f"ours_coverage_{percent}"]),
                " to ".join(steps),
                f"{row[f'ours_width_{percent}']:.3f}",
                *numbers,
                _percent(row[f"held_out_coverage_{percent}"]),
            ]
        )
    return table(headings, cells)


def _losses(rows: pd.DataFrame) -> str:
    headings = (
        "data, horizon",
        "model",
        "model, plain",
        "ridge",
        "ridge, plain",
        "seasonal naive",
        "model against ridge, plain",
    )
    cells = []
    for row in rows.sort_values(KEY).to_dict("records"):
        names = ("ours_sql", "plain_sql", "ridge_sql", "ridge_plain_sql", "naive_sql")
        gain = row["ours_sql"] / row["ridge_plain_sql"] - 1
        cells.append([_name(row), *(f"{row[name]:.3f}" for name in names), f"{100 * gain:+.1f} %"])
    return table(headings, cells)


def _name(row: Mapping[Any, Any]) -> str:
    arm = "" if row["arm"] == "defaults" else f", `{' '.join(ARMS[row['arm']])}`"
    return f"`{row['data']}`, {row['horizon']}{arm}"


def _percent(share: float) -> str:
    return "-" if pd.isna(share) else f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
