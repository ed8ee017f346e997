"""A measured case as one flat row: what stands in the CSV file, and what every table is made from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from forecast.attention._mechanisms import reference_label
from forecast.benchmark.limits import Limits
from forecast.benchmark.measure import Measured
from forecast.common.tables import Row


def row_of(measured: Measured, reference: Measured, limits: Limits, dtype: torch.dtype) -> Row:
    """Return a case's row: its shape, times in milliseconds, bytes, and its shares of the machine's limits.

    `reference` is the fused softmax of the same group; `times_fused` says how many times its median this
    case takes. What is not known is None.
    """
    case, shape, spread = measured.case, measured.case.shape, measured.spread
    operations, moved = case.operations(), case.least_bytes(dtype)
    seconds = None if spread is None else spread.median
    fused = None if reference.spread is None else reference.spread.median
    return {
        "table": measured.table,
        "mechanism": case.variant.label,
        "passes": shape.passes,
        "causal": shape.causal,
        "length": shape.length,
        "batch": shape.batch,
        "heads": shape.num_heads,
        "head_dim": shape.head_dim,
        "d_model": shape.d_model,
        "repetitions": None if spread is None else spread.repetitions,
        "mean_ms": None if spread is None else 1e3 * spread.mean,
        "median_ms": None if seconds is None else 1e3 * seconds,
        "lower_ms": None if spread is None else 1e3 * spread.lower,
        "upper_ms": None if spread is None else 1e3 * spread.upper,
        "shortest_ms": None if spread is None else 1e3 * spread.shortest,
        "peak_bytes": measured.peak_bytes,
        "times_fused": None if seconds is None or fused is None else seconds / fused,
        "operations": operations,
        "least_bytes": moved,
        "share_of_product": _share(operations, seconds, limits.operations),
        "share_of_copy": _share(moved, seconds, limits.bytes),
        "skipped": measured.skipped,
        "other_processors": None if math.isnan(measured.load.others) else measured.load.others,
        "disturbed": measured.load.disturbed,
    }


def rows_of(group: Sequence[Measured], limits: Limits, dtype: torch.dtype, facts: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a group, which holds the fused softmax; `facts` of the machine end each of them."""
    fused = reference_label()
    reference = next(measured for measured in group if measured.case.variant.label == fused)
    ends = {"product_gflops": limits.operations / 1e9, "copy_gbs": limits.bytes / 1e9, **facts}
    return [row_of(measured, reference, limits, dtype) | ends for measured in group]


def _share(work: float | None, seconds: float | None, limit: float) -> float | None:
    return None if work is None or seconds is None else work / seconds / limit
