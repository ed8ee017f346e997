"""The rows and the table of the max-context benchmark."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.attention._mechanisms import Variant
from forecast.benchmark.search import Trial, largest, smallest_failed
from forecast.common.tables import Row, Sheet
from forecast.common.text import NONE, mebibytes, three_digits

HEADINGS = ("mechanism", "look-back that fits", "that does not", "peak MiB", "seconds", "trials")


def trial_row(variant: Variant, trial: Trial, facts: Mapping[str, Any]) -> Row:
    """Give a trial's row."""
    return {
        "mechanism": variant.label,
        "look_back": trial.look_back,
        "fits": trial.fits,
        "peak_bytes": trial.peak_bytes,
        "seconds": trial.seconds,
        "why": trial.why,
        **facts,
    }


def summary_row(variant: Variant, trials: Sequence[Trial], facts: Mapping[str, Any]) -> Row:
    """Give a mechanism's row: the largest look-back that fits, with what its step took, and what came after it."""
    found, failed = largest(trials), smallest_failed(trials)
    return {
        "mechanism": variant.label,
        "look_back": None if found is None else found.look_back,
        "does_not_fit": None if failed is None else failed.look_back,
        "why": "" if failed is None else failed.why,
        "peak_bytes": None if found is None else found.peak_bytes,
        "seconds": None if found is None else found.seconds,
        "trials": len(trials),
        **facts,
    }


def context_sheet(rows: Sequence[Row], *, within: float, on_gpu: bool) -> Sheet:
    """Give the table of the mechanisms' rows."""
    first = rows[0]
    where = (
        "allocated by torch on the GPU, whose own context comes on top"
        if on_gpu
        else "of a process of its own, libraries included"
    )
    notes = (
        f"one training step in {first['dtype']}: forward, loss, backward, AdamW with its state; "
        f"batch {first['batch']}, {first['channels']} series, horizon {first['horizon']}; "
        f"{first['model']}",
        f"found by doubling, then by halving the gap to {100 * within:g} %; memory {where}; seconds: of that step, "
        "which is the first",
        *(f"{row['mechanism']}: {_ending(row)}" for row in rows),
    )
    title = f"The largest look-back within {first['memory_gib']:.2f} GiB"
    return Sheet(title, HEADINGS, [_cells(row) for row in rows], notes)


def _cells(row: Row) -> list[str]:
    return [
        row["mechanism"],
        _length(row["look_back"]),
        _length(row["does_not_fit"]),
        mebibytes(row["peak_bytes"]),
        three_digits(row["seconds"]),
        str(row["trials"]),
    ]


def _ending(row: Row) -> str:
    """Say what ended a mechanism's search."""
    if row["does_not_fit"] is None:
        return "fits as far as was asked"
    return f"{row['does_not_fit']:,}: {row['why']}"


def _length(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"
