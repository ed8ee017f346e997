"""The record: a CSV file with one row per run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.recipes import Cell, Key
from forecast.common.errors import InputError
from forecast.common.files import folder_lock, look_up, replacing
from forecast.common.spreadsheet import csv_bytes, read_rows

Record = dict[str, str]
"""A row, as text."""

KEY = ("dataset", "horizon", "attention", "seed", "recipe")

FACTS = {
    "context_length": "config.context_length",
    "test_mse": "test.scaled.mse",
    "test_mae": "test.scaled.mae",
    "validation_mse": "validation.scaled.mse",
    "windows": "data.windows.test",
    "seconds": "speed.fit_seconds",
    "parameters": "model.parameters",
    "command": "command",
    "commit": "commit",
    "machine": "device",
    "precision": "precision",
    "linear_mse": "baselines.linear.test.scaled.mse",
    "linear_mae": "baselines.linear.test.scaled.mae",
    "best_step": "model.best_step",
    "steps": "model.steps",
    "test_mase": "test.original.mase",
    "status": "status",
}
"""The other columns and their paths in `result.json`: scores on z-scores, seconds of the training alone."""

COLUMNS = (*KEY, *FACTS)


def row_of(cell: Cell, result: Mapping[str, Any]) -> Record:
    """Return the row of a run from its result; `command` trains this run alone."""
    facts = {column: look_up(result, path) for column, path in FACTS.items()}
    facts |= {"command": cell.command, "commit": result.get("commit") or "none"}
    if isinstance(facts["seconds"], float):
        facts["seconds"] = round(facts["seconds"], 1)
    texts = {column: "" if fact is None else str(fact) for column, fact in facts.items()}
    return {**dict(zip(KEY, cell.key, strict=True)), **texts}


def key_of(row: Record) -> Key:
    """Return the columns that identify a row."""
    dataset, horizon, attention, seed, recipe = (row[column] for column in KEY)
    return dataset, horizon, attention, seed, recipe


def read_record(path: Path) -> list[Record]:
    """Return the rows; an empty list if there is no file yet."""
    if not path.is_file():
        return []
    names, lines = read_rows(path)
    if tuple(names) != COLUMNS:
        raise InputError(f"{path}: wrong columns: the record has {','.join(COLUMNS)}")
    rows: dict[Key, Record] = {}
    for line, cells in lines:
        if len(cells) != len(COLUMNS):
            raise InputError(f"{path}: line {line}: needs {len(COLUMNS)} cells: delete the line")
        row = dict(zip(COLUMNS, cells, strict=True))
        if key_of(row) in rows:
            raise InputError(f"{path}: line {line}: {', '.join(key_of(row))} occurs twice: delete one")
        rows[key_of(row)] = row
    return list(rows.values())


def add(path: Path, rows: Sequence[Record]) -> list[Record]:
    """Add the rows that are not in the record yet, and return them; another command may add rows too."""
    with folder_lock(path.parent, wait=True):
        before = read_record(path)
        known = set(map(key_of, before))
        new = [row for row in rows if key_of(row) not in known]
        if new:
            write_record(path, [*before, *new])
    return new


def write_record(path: Path, rows: Sequence[Record]) -> None:
    """Write the whole record; without rows, its headings."""
    with replacing(path) as file:
        file.write(csv_bytes(rows, COLUMNS))
