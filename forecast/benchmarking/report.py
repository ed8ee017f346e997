"""What a run leaves in its folder, each file there whole or not at all, and what it prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.benchmarking.mechanisms import Variant
from forecast.benchmarking.picture import draw_sweeps
from forecast.benchmarking.record import Row, to_csv
from forecast.benchmarking.sheets import Sheet, crossing_sheet, exponent_sheet, layer_sheets, sweep_sheets
from forecast.benchmarking.summary import summarise, sweeps_of
from forecast.files import replacing

CASES, SUMMARY, TABLES, PICTURE = "cases.csv", "summary.csv", "tables.md", "lengths.png"
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
    for stale in (SUMMARY, PICTURE):  # of an earlier run that swept lengths
        (folder / stale).unlink(missing_ok=True)
    _write(folder / CASES, to_csv(rows))
    _write(folder / TABLES, "\n".join([heading(rows[0], facts), *map(markdown, sheets)]).encode())
    if sweeps:
        _write(folder / SUMMARY, to_csv(summaries))
        draw_sweeps(folder / PICTURE, sweeps, f"{facts['machine']}, {facts['dtype']}")
    (folder / UNFINISHED).unlink(missing_ok=True)
    return sheets


def heading(row: Row, facts: Mapping[str, Any]) -> str:
    """Give the lines above the tables: the machine, its limits of this run, the command."""
    limits = f"matrix product {row['product_gflops']:,.0f} GFLOP/s, copy {row['copy_gbs']:,.1f} GB/s (read and write)"
    return (
        "# Attention: time and memory\n\n"
        f"{facts['machine']}, torch {facts['torch']}, {facts['dtype']}, {facts['date']}, "
        f"commit {facts['commit']}.\n"
        f"Measured limits of the machine in this run: {limits}.\n"
        f"`{facts['command']}`\n"
    )


def markdown(sheet: Sheet) -> str:
    """Give a table as Markdown, the notes as a list beneath."""
    lines = [f"## {sheet.title}", "", _line(sheet.headings), _line(["---", *["---:"] * (len(sheet.headings) - 1)])]
    lines += [_line(cells) for cells in sheet.cells]
    lines += ["", *(f"- {note}" for note in sheet.notes), ""] if sheet.notes else [""]
    return "\n".join(lines)


def show(console: Console, sheets: Sequence[Sheet]) -> None:
    """Print tables."""
    for sheet in sheets:
        table = Table(title=sheet.title, title_justify="left", caption="\n".join(sheet.notes), caption_justify="left")
        for place, heading in enumerate(sheet.headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=not place)
        for cells in sheet.cells:
            table.add_row(*cells)
        console.print(table)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)
