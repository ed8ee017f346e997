"""What the latency benchmark leaves: a row a form and number of windows, and a table for a person."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from forecast.benchmark.latency_forms import Form
from forecast.common.files import replacing
from forecast.common.tables import Row, Sheet, markdown, to_csv
from forecast.common.text import NONE, three_digits
from forecast.export.capture import words_of
from forecast.runs.run import Architecture

CASES, TABLE = "latency.csv", "latency.md"


def rows_of(
    ready: Mapping[str, Form],
    taken: Mapping[str, Sequence[float]],
    batch: int,
    reference: Tensor,
    scale: Tensor,
    facts: Mapping[str, Any],
) -> list[Row]:
    """Give the rows of `batch` windows.

    Parameters
    ----------
    ready, taken
        Each form by name, and its measured seconds where it was measured.
    reference
        What the model as trained forecasts of the same windows.
    scale
        Shape (C_out,): differences are told in this unit.
    facts
        What every row ends with.
    """
    rows: list[Row] = []
    for name, form in ready.items():
        middle, late = np.percentile(taken[name], [50, 95]) if name in taken else (None, None)
        far = None if form.forecast is None else float(((form.forecast - reference).abs() / scale).max())
        rows.append(
            {
                "form": name,
                "batch": batch,
                "repetitions": len(taken.get(name, ())) or None,
                "p50_ms": None if middle is None else 1e3 * float(middle),
                "p95_ms": None if late is None else 1e3 * float(late),
                "shortest_ms": 1e3 * min(taken[name]) if name in taken else None,
                "windows_per_s": None if middle is None else batch / float(middle),
                "ready_seconds": form.ready_seconds,
                "difference": far,
                "skipped": form.skipped,
                **facts,
            }
        )
    return rows


def write_report(folder: Path, rows: Sequence[Row], architecture: Architecture, facts: Mapping[str, Any]) -> Sheet:
    """Write the rows and the table; give the table."""
    sheet = sheet_of(rows, architecture)
    heading = (
        "# Latency of a forecast\n\n"
        f"{facts['machine']}, torch {facts['torch']}, {facts['dtype']}, {facts['date']}, commit {facts['commit']}.\n"
        f"`{facts['command']}`\n"
    )
    for name, content in ((CASES, to_csv(rows)), (TABLE, f"{heading}\n{markdown(sheet)}".encode())):
        with replacing(folder / name) as file:
            file.write(content)
    return sheet


def sheet_of(rows: Sequence[Row], architecture: Architecture) -> Sheet:
    """Give the table of all forms."""
    sizes = architecture.sizes
    channels = sizes.num_targets + sizes.num_past_covariates
    title = f"{sizes.context_length} steps of {channels} channels to {sizes.horizon} of {sizes.num_targets}"
    notes = [
        words_of(architecture),
        "from a checked tensor of the last rows to original units; predict: from a checked table, dates included",
        "ready: until the first forecast was there, compiling or exporting included; differs: from eager, at most, "
        "in training deviations; an exported one is ready from its file",
    ]
    notes += [f"{row['form']}, {row['batch']} at a time: {row['skipped']}" for row in rows if row["skipped"]]
    headings = ("form", "windows", "p50 ms", "p95 ms", "windows/s", "ready s", "differs")
    return Sheet(title, headings, [_cells(row) for row in rows], tuple(notes))


def _cells(row: Row) -> list[str]:
    times = [three_digits(row[key]) for key in ("p50_ms", "p95_ms", "windows_per_s", "ready_seconds")]
    return [row["form"], str(row["batch"]), *times, NONE if row["difference"] is None else f"{row['difference']:.1g}"]
