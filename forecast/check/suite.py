"""The checks in the order of the table, each with its bound."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from forecast.check import exactness, masks
from forecast.check import exactness as extremes
from forecast.check import exactness as precision
from forecast.check import masks as independence
from forecast.check.candidate import Candidate

# Errors are shares of the largest number expected, so that no bound depends on a mechanism's scale.
EXACT = 0.0  # the same bits, or a count
FLOAT64 = 1e-9  # float64 rounds at 1e-16: this leaves room for sums and exponentials, for no other formula
FLOAT32 = 1e-5  # float32 rounds at 6e-8; the design promises 1e-5 between a row alone and in a batch
GRADIENT = 1e-4  # a gradient goes through the products twice, and large terms cancel in it
BFLOAT16 = 2.0**-5  # eight roundings of 2⁻⁸: weights, products and output are rounded, sums are not
FLOAT16 = 2.0**-8  # eight roundings of 2⁻¹¹
TWO_ROUNDINGS = 2.0**-7  # the weights and the output in bfloat16, nothing between


@dataclass(frozen=True)
class Check:
    """A promise: how it is measured, and up to what value it is kept; None where it does not apply."""

    name: str
    bound: float
    measure: Callable[[Candidate], float | None]

    @property
    def promise(self) -> str:
        """What the mechanism promises: the first line of the measure's docstring."""
        return (self.measure.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Finding:
    """What a check measured on a mechanism; an error stands in place of a value."""

    mechanism: str
    check: Check
    value: float | None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether the promise is kept, or not made."""
        return self.value is None or self.value <= self.check.bound  # NaN is no value that passes


CHECKS = (
    Check("output, float32", FLOAT32, exactness.output_error),
    Check("gradient, float32", GRADIENT, exactness.gradient_error),
    Check("output, bfloat16", BFLOAT16, precision.error_in_bfloat16),
    Check("output, float16", FLOAT16, precision.error_in_float16),
    Check("long sums, half", TWO_ROUNDINGS, precision.long_sums),
    Check("masked = cut", FLOAT64, masks.masked_is_cut),
    Check("mask a query", FLOAT64, masks.mask_of_each_query),
    Check("empty row", EXACT, masks.empty_row),
    Check("nothing given", EXACT, masks.nothing_given),
    Check("masked NaN", FLOAT64, masks.hidden_nan),
    Check("refusals", EXACT, masks.granted_requests),
    Check("causal", FLOAT32, independence.future),
    Check("cross lengths", FLOAT64, exactness.cross_lengths),
    Check("rest of batch", FLOAT32, independence.rest_of_batch),
    Check("repeats, eval", EXACT, independence.evaluation_repeats),
    Check("repeats, train", EXACT, independence.training_repeats),
    Check("B = H = L = 1", FLOAT64, exactness.one_of_each),
    Check("odd sizes", FLOAT64, exactness.odd_sizes),
    Check("layout", FLOAT64, exactness.other_layout),
    Check("|k| = 140", FLOAT32, extremes.far_keys),
    Check("q = k = -20", FLOAT32, extremes.small_features),
    Check("k' = -q'", FLOAT32, extremes.opposite_keys),
    Check("x = 100, bfloat16", BFLOAT16, extremes.large_in_bfloat16),
)


def examine(candidate: Candidate) -> list[Finding]:
    """Measure every promise of the mechanism; the state of torch's generators is left as it was."""
    on_cuda = candidate.device.type == "cuda"
    with torch.random.fork_rng(devices=[candidate.device] if on_cuda else []):
        torch.default_generator.manual_seed(0)
        if on_cuda:
            torch.cuda.manual_seed(0)
        return [_measure(check, candidate) for check in CHECKS]


def _measure(check: Check, candidate: Candidate) -> Finding:
    # The one place that catches everything: a mechanism that raises has broken this promise, and the next
    # check, and the next mechanism, still get their turn.
    try:
        return Finding(candidate.name, check, check.measure(candidate))
    except Exception as error:
        message = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return Finding(candidate.name, check, torch.nan, message)
