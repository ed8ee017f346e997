"""What a sweep says of each mechanism: its exponents beside the declared ones, and where it passes the softmax."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from forecast.attention._mechanisms import Variant, reference_label
from forecast.benchmark.costs import Growth, cost_of, growth_of, memory_growth_of
from forecast.common.tables import Row
from forecast.evaluation.crossing import crossing, crossing_text, exponent


@dataclass(frozen=True)
class Sweep:
    """The rows of all mechanisms over all lengths, for the same passes, causal or not."""

    passes: str
    causal: bool
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """What was measured, as tables say it."""
        return self.passes + (", causal" if self.causal else "")

    @property
    def lengths(self) -> list[int]:
        """All lengths, rising."""
        return sorted({row["length"] for row in self.rows})

    @property
    def labels(self) -> list[str]:
        """All mechanisms, in the order of the run."""
        return list(dict.fromkeys(row["mechanism"] for row in self.rows))

    def column(self, label: str, key: str) -> dict[int, Any]:
        """Return a mechanism's figures by length, where it was measured."""
        rows = [row for row in self.rows if row["mechanism"] == label and not row["skipped"]]
        return {row["length"]: row[key] for row in rows}


def sweeps_of(rows: Sequence[Row]) -> Iterator[Sweep]:
    """Give the sweeps among `rows`, in the order of the run."""
    swept = (row for row in rows if row["table"] == "lengths")
    for (passes, causal), members in groupby(swept, lambda row: (row["passes"], row["causal"])):
        yield Sweep(passes, causal, list(members))


def summarise(sweep: Sweep, variant: Variant, fit_from: int) -> Row:
    """Return one mechanism's line: exponents over the lengths from `fit_from` on, and the crossing.

    `passes_fused_at` is the length from which it is faster than the fused softmax, None where it never is
    (`passes_fused` says up to which length, in words).
    """
    label, words = variant.label, variant.words(sweep.causal)
    time, memory = (variant.time_cost, words), (variant.memory_cost, words)
    times, peaks = sweep.column(label, "median_ms"), sweep.column(label, "peak_bytes")
    fused = sweep.column(reference_label(), "median_ms")
    is_fused = label == reference_label()
    longest = max(times, default=None)

    def last(key: str) -> Any:
        return None if longest is None else sweep.column(label, key)[longest]

    return {
        "mechanism": label,
        "passes": sweep.passes,
        "causal": sweep.causal,
        **_exponents("time", times, growth_of(*time), cost_of(*time), fit_from),
        **_exponents("memory", peaks, memory_growth_of(*memory), cost_of(*memory), fit_from),
        "passes_fused_at": None if is_fused else crossing(times, fused),
        "passes_fused": "" if is_fused else crossing_text(times, fused),
        "longest": longest,
        "operations_at_longest": last("operations"),
        "times_fused_at_longest": last("times_fused"),
        "share_of_product_at_longest": last("share_of_product"),
        "share_of_copy_at_longest": last("share_of_copy"),
    }


def _exponents(kind: str, costs: dict[int, Any], growth: Growth | None, cost: str | None, fit_from: int) -> Row:
    found = exponent(costs, fit_from)
    return {
        f"{kind}_declared": None if cost is None else f"O({cost})",
        f"{kind}_expected": None if found is None or growth is None else growth.exponent(found.lengths),
        f"{kind}_exponent": None if found is None else found.value,
        f"{kind}_fitted_from": None if found is None else found.lengths[0],
        f"{kind}_fitted_to": None if found is None else found.lengths[-1],
    }
