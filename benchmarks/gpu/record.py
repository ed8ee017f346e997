"""The record of a GPU: a CSV file with a row per figure, written as the figures are measured, and its table."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.gpu.targets import Record, Target, table_of
from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.spreadsheet import csv_bytes, read_rows
from forecast.runs.results import commit, device_name

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "benchmarks" / "records"
FOLDER = RECORDS / "gpu"
RESULTS, TABLE = "results.csv", "table.md"
COLUMNS = (
    *("part", "case", "value", "unit", "required", "aim", "error"),
    *("device", "torch", "commit", "seconds"),
)


def source() -> str:
    """Return the commit; without a checkout, a digest of the package's files."""
    if (name := commit()) is not None:
        return name
    digest = hashlib.sha256()
    for path in sorted((ROOT / "forecast").rglob("*.py")):
        digest.update(path.read_bytes())
    return f"files {digest.hexdigest()[:12]}"


class Book:
    """The rows of `folder`, None: kept nowhere. Figures of the same commit and device are finished."""

    def __init__(self, folder: Path | None, device: torch.device) -> None:
        self.folder = folder
        self.facts = {"device": device_name(device), "torch": str(torch.__version__), "commit": source()}
        self.rows: list[Record] = []
        if folder is not None and (folder / RESULTS).is_file():
            names, lines = read_rows(folder / RESULTS)
            if tuple(names) != COLUMNS:
                raise InputError(f"{folder / RESULTS}: wrong columns: the record has {','.join(COLUMNS)}")
            self.rows = [dict(zip(COLUMNS, cells, strict=True)) for _, cells in lines]

    def has(self, target: Target) -> bool:
        """Return whether the figure is finished; delete a row to measure it again."""
        mine = (*target.key, self.facts["device"], self.facts["commit"])
        return any((row["part"], row["case"], row["device"], row["commit"]) == mine for row in self.rows)

    def add(self, targets: Sequence[Target], values: Mapping[str, float], seconds: float, error: str = "") -> None:
        """Add a row for each figure, and write the record and its table."""
        for target in targets:
            row = {"part": target.part, "case": target.case, "unit": target.unit, "error": error, **self.facts}
            row |= {"value": "" if error else f"{values[target.case]:.6g}", "seconds": f"{seconds:.1f}"}
            bounds = {"required": target.required, "aim": target.aim}
            self.rows.append(row | {name: "" if x is None else f"{x:g}" for name, x in bounds.items()})
        self.write()

    def write(self) -> None:
        """Write the rows, if there are any, and the table."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.rows:
            with replacing(self.folder / RESULTS) as file:
                file.write(csv_bytes(self.rows, COLUMNS))
        with replacing(self.folder / TABLE) as file:
            file.write(table_of(self.rows).encode())


def folder_for(wanted: Path | None, device: torch.device, small: bool) -> Path | None:
    """Return where the rows go: the record for a whole run on a GPU, else the folder `wanted` alone."""
    is_whole = device.type == "cuda" and not small
    if wanted is None:
        return FOLDER if is_whole else None
    if not is_whole and wanted.resolve().is_relative_to(RECORDS):
        raise InputError(f"--output {wanted}: the record holds whole runs on a GPU alone: choose another folder")
    return wanted
