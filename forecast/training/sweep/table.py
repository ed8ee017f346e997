"""Table of the jobs of a sweep: printed, and written as `sweep.csv` (its rows) and `jobs.csv` (a row per job)."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table as TerminalTable

from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Table
from forecast.runs.read import ALL_ALIKE, COUNTS, WITHIN, read_jobs, summarise
from forecast.runs.summary import NO_TEST

HEADINGS = {
    "n": "n",
    "test_mse": "test MSE",
    "test_mae": "test MAE",
    "validation_mse": "val. MSE",
    "skill": "skill",
    "train_windows_per_s": "train/s",
    "inference_windows_per_s": "infer/s",
    "step_ms_p50": "step ms",
    "peak_memory_mib": "MiB",
    "fit_seconds": "min",
}
"""Printed columns; the files have all columns."""

OF_TEST = ("test_", "skill")
"""Beginnings of the columns that a search leaves out."""

BUSY = "!"
"""Marks a figure for which other processes used processors that the job needed, in at least one seed."""

DISTURBED = {
    "train_windows_per_s": "train_disturbed",
    "step_ms_p50": "train_disturbed",
    "inference_windows_per_s": "inference_disturbed",
}
"""Speed columns, each with the column that records a busy machine."""

SKILL = "skill: relative to seasonal naive, on test MSE; "

CAPTION = (
    f"MSE, MAE: on z-scores, mean ± standard deviation over n seeds; {SKILL}"
    "train/s, infer/s: windows per second; step ms: median; !: measured on a busy machine, too slow; MiB: peak memory; "
    "min: fitting time. All columns: sweep.csv"
)


def headings_of(*scored: str) -> dict[str, str]:
    """Return `HEADINGS`; without a test split, the scores of the validation split are named so."""
    if set(scored) <= {"test"}:
        return HEADINGS
    words = " or ".join({"test": "test", "validation": "val."}[split] for split in sorted(set(scored)))
    return {key: text.replace("test", words) for key, text in HEADINGS.items()}


def report(sweep: Path, *, search: bool = False) -> None:
    """Print the table of the jobs in a sweep's folder and write both files there, if there are jobs.

    The table and the files of a search have the best validation score first, and nothing of the test split.
    """
    jobs = read_jobs(sweep)
    if jobs.empty:
        return
    rows = summarise(jobs)
    if search:
        rows = rows[rows["row"].isin(("model", "job"))]
        jobs, rows = (_of_validation(table) for table in (jobs, rows))
    _write(rows, sweep / "sweep.csv")
    _write(jobs.drop(columns=WITHIN, errors="ignore"), sweep / "jobs.csv")
    Console(width=max(Console().width, 120)).print(sweep_table(rows, jobs, sweep.name))
    print_unfinished(jobs)
    print(f"sweep folder: {shlex.quote(str(sweep))} (sweep.csv, jobs.csv)", flush=True)


def _of_validation(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, the best validation score first, without the columns of the test split."""
    kept = [name for name in table if not str(name).startswith((*OF_TEST, "baselines"))]
    return table[kept].sort_values("validation_mse", kind="stable", ignore_index=True)


def print_unfinished(jobs: pd.DataFrame) -> None:
    """Print a line for each job without a counted result: its status, and its error if it has one."""
    for job in jobs[jobs["of"].isna()].to_dict("records"):
        print(f"{job['status']}: {job['job']}" + (f": {job['error']}" if isinstance(job["error"], str) else ""))


def sweep_table(rows: pd.DataFrame, jobs: pd.DataFrame, name: str) -> TerminalTable:
    """Return the printed table: configurations, baselines and unfinished jobs."""
    done = int(jobs["of"].notna().sum())
    title = f"{name}: {done} of {int((jobs['status'] != 'repeat').sum())} jobs finished{_scored(jobs)}"
    records = rows.to_dict("records")
    columns = [name for name in HEADINGS if name in rows]
    cells = [[row["configuration"] or ALL_ALIKE, *(cell(name, row) for name in columns)] for row in records]
    for row, texts in zip(records, cells, strict=True):
        if row["row"] == "job":
            texts[2] = row["status"]
    scored = set(jobs["scored_split"].dropna())
    headings = headings_of(*scored)
    no_test = [NO_TEST] if "validation" in scored else []
    text = CAPTION if "skill" in columns else CAPTION.replace(SKILL, "")
    caption = (text.replace("test MSE", headings["test_mse"]), *no_test)
    titles = ("configuration", *(headings[name] for name in columns))
    table = Table(title, titles, cells, caption).to_terminal(compact=True)
    for line, before, after in zip(table.rows, records, records[1:], strict=False):
        line.end_section = (before["row"] == "model") != (after["row"] == "model")
    return table


def _scored(jobs: pd.DataFrame) -> str:
    """Return which windows were scored, empty if all were."""
    strides = sorted({int(stride) for stride in jobs["evaluation_stride"].dropna()})
    return "" if strides in ([], [1]) else f", 1 of {' or '.join(map(str, strides))} validation and test windows scored"


def cell(name: str, row: Mapping[Any, Any]) -> str:
    """Return the text of a row's figure, empty if it has none."""
    value, spread = (row.get(key, math.nan) for key in (name, f"{name}_sd"))
    if value is None or math.isnan(value):
        return ""
    if name in ("test_mse", "test_mae"):
        return f"{value:.4f}" if math.isnan(spread) else f"{value:.4f} ± {spread:.4f}"
    match name:
        case "validation_mse":
            return f"{value:.4f}"
        case "skill":
            return f"{value:+.1%}"
        case "fit_seconds":
            return f"{value / 60:.2g}" if value < 5970 else f"{value / 60:,.0f}"
        case "step_ms_p50" | "train_windows_per_s" | "inference_windows_per_s":
            text = f"{value:.3g}" if value < 100 else f"{value:,.0f}"
            return f"{text}{BUSY}" if (row.get(DISTURBED[name]) or 0) > 0 else text  # NaN is unknown
        case _:
            return f"{value:,.0f}"


def _write(frame: pd.DataFrame, path: Path) -> None:
    whole = {name: "Int64" for name in ("n", "seed", *COUNTS) if name in frame}
    with replacing(path) as file:
        rounded = frame.round(dict.fromkeys(whole, 0)).astype(whole)
        write_frame(file, rounded, index=False, float_format="%.6g")
