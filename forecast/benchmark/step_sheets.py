"""The rows and tables of the step benchmark."""

from collections.abc import Iterator, Sequence

from forecast.benchmark.breakdown import KINDS, REST, Operation
from forecast.benchmark.models import Task
from forecast.benchmark.step_measure import StepFigures
from forecast.common.tables import Row, Sheet
from forecast.common.text import per_cent, spread, three_digits

LIMIT_HEADINGS = (
    "windows", "in", "windows/s", "step ms", "forward", "backward", "update", "% update", "GFLOP", "limit GFLOP/s",
    "% limit", "% without update",
)  # fmt: skip
OUTSIDE = "outside of operations"
"""What no operation explains: Python, launches, waiting."""


def figures_row(task: Task, precision: str, figures: StepFigures) -> Row:
    """Give a step's row; times in milliseconds."""
    row: Row = {
        "look_back": task.context_length,
        "horizon": task.horizon,
        "batch": task.batch,
        "channels": task.channels,
        "precision": precision,
        "repetitions": figures.step.repetitions,
        "windows_per_s": task.batch / figures.step.median,
    }
    for name in ("step", "forward", "backward", "update"):
        taken = getattr(figures, name)
        row |= {f"{name}_median_ms": 1e3 * taken.median}
        row |= {f"{name}_lower_ms": 1e3 * taken.lower, f"{name}_upper_ms": 1e3 * taken.upper}
    return row | {
        "operations": figures.operations,
        "product_gflops_before": figures.products[0] / 1e9,
        "product_gflops_after": figures.products[1] / 1e9,
        "share_of_product": figures.share,
        "share_of_product_without_update": figures.share_without_update,
        "update_share": figures.update_share,
    }


def operation_rows(task: Task, precision: str, found: Sequence[Operation], step_seconds: float) -> list[Row]:
    """Give a row for each operation, with its share of the step, and one for what no operation explains."""
    outside = max(0.0, step_seconds - sum(operation.seconds for operation in found))
    return [
        {
            "look_back": task.context_length,
            "horizon": task.horizon,
            "batch": task.batch,
            "precision": precision,
            "operation": operation.name,
            "kind": operation.kind,
            "calls": operation.calls,
            "ms": 1e3 * operation.seconds,
            "share_of_step": operation.seconds / step_seconds,
        }
        for operation in [*found, Operation(OUTSIDE, REST, 0, outside)]
        if operation.seconds > 0
    ]


def limit_sheet(rows: Sequence[Row]) -> Sheet:
    """Give the table of the steps beside the limit."""
    notes = (
        "limit: the fastest of the encoder layer's own products (projection, into d_ff, out of it) in the same "
        "arithmetic, timed right before the steps and right after; the higher of the two counts",
        "GFLOP: products, convolutions and attention of a step, forward and backward, a multiplication with its "
        "addition as 2; forward, backward and update are timed by themselves, in turn with whole steps",
    )
    title = f"Our training step beside the matrix product, batch {rows[0]['batch']}"
    return Sheet(title, LIMIT_HEADINGS, [_limit_cells(r) for r in rows], notes)


def operation_sheets(rows: Sequence[Row], top: int) -> Iterator[Sheet]:
    """Give for each step the `top` operations and, beneath, what the kinds come to."""
    headings = ("operation", "kind", "calls", "ms", "% of the step")
    for key in dict.fromkeys(_step_of(row) for row in rows):
        shown = [row for row in rows if _step_of(row) == key]
        longest = sorted(shown, key=lambda row: -row["ms"])[:top]
        cells = [
            [row["operation"], row["kind"], str(row["calls"]), three_digits(row["ms"]), per_cent(row["share_of_step"])]
            for row in longest
        ]
        kinds = {kind: sum(row["share_of_step"] for row in shown if row["kind"] == kind) for kind in (*KINDS, REST)}
        note = ", ".join(f"{kind} {per_cent(share)} %" for kind, share in kinds.items())
        said = (f"in all: {note}; by torch's profiler, which itself takes time, against the median of unwatched steps",)
        yield Sheet(f"Where a step's time goes, {key}", headings, cells, said)


def _step_of(row: Row) -> str:
    return f"{row['look_back']:,} → {row['horizon']:,}, batch {row['batch']}, {row['precision']}"


def _limit_cells(row: Row) -> list[str]:
    width = spread((row["step_upper_ms"] - row["step_lower_ms"]) / 2)
    return [
        f"{row['look_back']:,} → {row['horizon']:,}",
        row["precision"],
        three_digits(row["windows_per_s"]),
        f"{three_digits(row['step_median_ms'])} ±{width}",
        *(three_digits(row[f"{part}_median_ms"]) for part in ("forward", "backward", "update")),
        per_cent(row["update_share"]),
        three_digits(row["operations"] / 1e9),
        three_digits(max(row["product_gflops_before"], row["product_gflops_after"])),
        *(per_cent(row[key]) for key in ("share_of_product", "share_of_product_without_update")),
    ]
