"""The figures that a GPU must show, with their bounds, and the table of those that are measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forecast.common.tables import table
from forecast.common.text import three_digits

NOT_MEASURED = "not measured on a GPU"
SUMS = ("linear", "taylor", "efficient")
"""Mechanisms of the linear family."""

PASSES = ("forward", "both")
COPY, BOTH, CROSSING, STEP = "share of the copy limit", "against the plain form", "passes softmax", "step of 2,880"
COMPILED, PRODUCTS, ACCURACY, TESTS = "compiled", "share of products", "ETTh1-96 in bf16", "tests"

Record = dict[str, str]
"""A row of the record, as text."""


@dataclass(frozen=True)
class Target:
    """A figure of a part: its case, unit and bounds; `at_most`: lower is better. Without bounds it is only shown."""

    part: str
    case: str
    unit: str
    required: float | None = None
    aim: float | None = None
    at_most: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Part and case, which identify the figure."""
        return self.part, self.case

    def verdict(self, row: Mapping[str, str] | None) -> str:
        """Return how the measured value compares with the bounds."""
        if row is None:
            return ""
        if row["error"]:
            return "failed"
        if self.required is None:
            return "shown"
        value, sign = float(row["value"]), -1 if self.at_most else 1
        if sign * value < sign * self.required:
            return "below the requirement"
        reaches = self.aim is not None and sign * value >= sign * self.aim
        return "reaches the aim" if reaches else "reaches the requirement"


def _targets() -> Iterator[Target]:
    yield Target(TESTS, "failures", "tests", 0, at_most=True)
    yield from (Target(COPY, name, "of the copy", 0.3, 0.6) for name in SUMS)
    yield from (Target(BOTH, name, "times faster", 5, 12) for name in SUMS)
    bounds = {"forward": (2048, 1024), "both": (4096, 2048)}
    for name in SUMS:
        yield from (Target(CROSSING, f"{name}, {passes}", "tokens", *bounds[passes], True) for passes in PASSES)
    yield from (Target(CROSSING, f"probsparse, {passes}", "tokens", 4096, 2048, True) for passes in PASSES)
    yield Target(STEP, "linear against full", "times faster", 1.3, 2)
    yield Target(COMPILED, "against eager", "times faster", 2, 5)
    yield Target(COMPILED, "recompilations", "graphs", 0, at_most=True)
    yield Target(PRODUCTS, "training step", "of the product", 0.25, 0.45)
    yield from (
        Target(ACCURACY, name, "relative difference", 0.005, at_most=True) for name in ("full", "probsparse", "linear")
    )


TARGETS = tuple(_targets())
"""All figures, in the order of the table."""


def table_of(rows: Sequence[Record]) -> str:
    """Return the table of the newest row of each figure, on each device."""
    devices = list(dict.fromkeys(row["device"] for row in rows))
    newest = {(row["device"], row["part"], row["case"]): row for row in rows}
    cells = []
    for target in TARGETS:
        found: list[Record | None] = [
            newest[device, *target.key] for device in devices if (device, *target.key) in newest
        ]
        for row in found or [None]:
            measured = NOT_MEASURED if row is None else row["error"] or three_digits(float(row["value"]))
            cells.append(
                [
                    *(target.part, target.case, measured, target.unit),
                    *("" if bound is None else f"{bound:,g}" for bound in (target.required, target.aim)),
                    *(target.verdict(row), "" if row is None else f"{row['device']}, torch {row['torch']}"),
                ]
            )
    headings = ("part", "case", "measured", "unit", "required", "aim", "verdict", "device")
    note = "Batch 1, 8 heads of 64 and 16,384 tokens in bf16, unless the part says otherwise."
    return f"# A GPU\n\n{note}\n\n{table(headings, cells)}\n"
