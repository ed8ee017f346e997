"""What a run leaves in its folder, each file there whole or not at all, and what it prints."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from forecast.attention._mechanisms import Variant
from forecast.benchmark.picture import draw_sweeps
from forecast.benchmark.sheets import crossing_sheet, exponent_sheet, layer_sheets, sweep_sheets
from forecast.benchmark.summary import summarise, sweeps_of
from forecast.common.files import replacing
from forecast.common.tables import WIDTH, Row, Sheet, markdown, show, to_csv

CASES, SUMMARY, OPERATIONS = "cases.csv", "summary.csv", "operations.csv"
TABLES, PICTURE = "tables.md", "lengths.png"
UNFINISHED = "cases.unfinished.csv"
"""What is left of a run that was stopped: an earlier record in the same folder stays as it is."""


def write_unfinished(folder: Path, rows: Sequence[Row]) -> None:
    """Write what has been measured so far."""
    _write(folder / UNFINISHED, to_csv(rows))


def write_report(
    folder: Path, rows: Sequence[Row], variants: Sequence[Variant], fit_from: int, facts: Mapping[str, Any]
) -> list[Sheet]:
    """Write the cases, the tables and, where lengths were swept, the summary and the picture; give the tables."""
    sweeps = list(sweeps_of(rows))
    sheets = list(layer_sheets(rows))
    summaries: list[Row] = []
    for sweep in sweeps:
        lines = [summarise(sweep, variant, fit_from) for variant in variants]
        sheets += [*sweep_sheets(sweep), exponent_sheet(lines, sweep.title), crossing_sheet(lines, sweep.title)]
        summaries += lines
    write_record(folder, heading(rows[0], facts), sheets, {CASES: rows, SUMMARY: summaries})
    if sweeps:
        draw_sweeps(folder / PICTURE, sweeps, f"{facts['machine']}, {facts['dtype']}")
    return sheets


def write_record(folder: Path, head: str, sheets: Sequence[Sheet], files: Mapping[str, Sequence[Row]]) -> None:
    """Write rows as CSV by file name, those that there are, and the tables under `head`, over an earlier record."""
    for stale in (SUMMARY, OPERATIONS, PICTURE):  # of an earlier run that had them
        (folder / stale).unlink(missing_ok=True)
    for name, rows in files.items():
        if rows:
            _write(folder / name, to_csv(rows))
    _write(folder / TABLES, "\n".join([head, *map(markdown, sheets)]).encode())
    (folder / UNFINISHED).unlink(missing_ok=True)


def heading(row: Row, facts: Mapping[str, Any]) -> str:
    """Give the lines above the attention benchmark's tables: the machine, its limits of this run, the command."""
    limits = f"matrix product {row['product_gflops']:,.0f} GFLOP/s, copy {row['copy_gbs']:,.1f} GB/s (read and write)"
    said = f"Measured limits of the machine in this run: {limits}."
    return heading_of("Attention: time and memory", facts, said)


def heading_of(title: str, facts: Mapping[str, Any], *said: str) -> str:
    """Give the lines above a run's tables: the machine, what has to be said of all of them, the command."""
    machine = (
        f"{facts['machine']}, torch {facts['torch']}, {facts['dtype']}, {facts['date']}, commit {facts['commit']}."
    )
    return "\n".join([f"# {title}", "", machine, *said, f"`{facts['command']}`", ""])


def tell(folder: Path, sheets: Sequence[Sheet], *, quiet: bool, note: str = "") -> None:
    """Print the tables and a note unless `quiet`, and where the files are."""
    if not quiet:
        show(Console(width=max(Console().width, WIDTH)), sheets)
        print(note, end="\n" if note else "")
    written = [name for name in (CASES, SUMMARY, OPERATIONS, TABLES, PICTURE) if (folder / name).is_file()]
    print(f"{shlex.quote(str(folder))}: {', '.join(written)}")


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)
