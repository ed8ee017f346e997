"""The table of the page *choose an attention*: from which length a mechanism is faster than `full` on a GPU."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.gpu.record import RECORDS
from benchmarks.gpu.targets import CROSSING, NOT_MEASURED, PASSES, SUMS, Record
from forecast.common.tables import table
from forecast.common.text import three_digits

BEGIN = "<!-- gpu: written by python -m benchmarks.gpu --write docs/how-to/choose-an-attention.md -->"
END = "<!-- /gpu -->"

NAMES = (*SUMS, "probsparse")
PLAIN = (RECORDS / "attention" / "h100", RECORDS / "attention" / "h200")
"""Records of the plain forms, from `forecast.benchmark attention` on a GPU."""


def crossing_table(rows: Sequence[Record]) -> str:
    """Return the table, from the records of the plain forms and the `rows` of `benchmarks.gpu`."""
    headings = ("device, precision, form", "passes", *(f"`{name}`" for name in NAMES))
    return table(headings, [cells for folder in PLAIN for cells in _plain(folder)] + list(_kernels(rows)))


def _plain(folder: Path) -> Iterator[list[str]]:
    """Yield the rows of a record, forward and both passes."""
    case, summary = _read(folder / "cases.csv")[0], _read(folder / "summary.csv")
    for passes in ("forward", "forward+backward"):
        lengths = {row["mechanism"]: row["passes_fused"] for row in summary if row["passes"] == passes}
        title = f"{case['machine']}, {case['dtype']}, plain"
        yield [title, passes.replace("+backward", " and backward"), *(lengths[name] for name in NAMES)]


def _kernels(rows: Sequence[Record]) -> Iterator[list[str]]:
    """Yield the rows of the kernels, forward and both passes, on each device or on none."""
    newest = {(row["device"], row["case"]): row["value"] for row in rows if row["part"] == CROSSING}
    for device in dict.fromkeys([key[0] for key in newest] or [""]):
        for passes in PASSES:
            values = [newest.get((device, f"{name}, {passes}"), "") for name in NAMES]
            lengths = [three_digits(float(value)) if value else NOT_MEASURED for value in values]
            words = "forward" if passes == "forward" else "forward and backward"
            yield [f"{device}, bf16, kernels".removeprefix(", "), words, *lengths]


def _read(path: Path) -> list[Record]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
