"""The checks, each with its bound, in the order of the table."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getsourcefile
from pathlib import Path
from traceback import extract_tb

import torch

from forecast.check import exactness, masks
from forecast.check.candidate import Candidate

# Errors are relative to the largest expected value, so that bounds do not depend on the scale of a mechanism.
EXACT = 0.0  # bitwise equal, or a count
FLOAT64 = 1e-9  # float64 rounds at 1e-16: sums and exponentials pass, another formula does not
FLOAT32 = 1e-5  # float32 rounds at 6e-8; also the bound between a row alone and in a batch
GRADIENT = 1e-4  # a gradient passes through the products twice, and large terms cancel
BFLOAT16 = 2.0**-5  # eight roundings of 2⁻⁸: weights, products and output are rounded, sums are not
FLOAT16 = 2.0**-8  # eight roundings of 2⁻¹¹
TWO_ROUNDINGS = 2.0**-7  # only weights and output are rounded to bfloat16


@dataclass(frozen=True)
class Check:
    """A promise of the contract: it is kept if `measure` returns at most `bound`, or None if it does not apply."""

    name: str
    bound: float
    measure: Callable[[Candidate], float | None]

    @property
    def promise(self) -> str:
        """Text of the promise: the first line of the docstring of `measure`."""
        return (self.measure.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Finding:
    """Result of a check on a mechanism: a value, or an error message with its file and line."""

    mechanism: str
    check: Check
    value: float | None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether the promise is kept or does not apply."""
        return self.value is None or self.value <= self.check.bound  # False for NaN


CHECKS = (
    Check("output, float32", FLOAT32, exactness.output_error),
    Check("gradient, float32", GRADIENT, exactness.gradient_error),
    Check("output, bfloat16", BFLOAT16, exactness.error_in_bfloat16),
    Check("output, float16", FLOAT16, exactness.error_in_float16),
    Check("long sums, half", TWO_ROUNDINGS, exactness.long_sums),
    Check("masked = cut", FLOAT64, masks.masked_is_cut),
    Check("mask per query", FLOAT64, masks.mask_per_query),
    Check("empty row", EXACT, masks.empty_row),
    Check("empty inputs", EXACT, masks.empty_inputs),
    Check("masked NaN", FLOAT64, masks.masked_nan),
    Check("refusals", EXACT, masks.refusals),
    Check("causal", FLOAT32, masks.causality),
    Check("cross lengths", FLOAT64, exactness.cross_lengths),
    Check("batch rows", FLOAT32, masks.batch_independence),
    Check("repeatable, eval", EXACT, masks.repeatable_evaluation),
    Check("repeatable, train", EXACT, masks.repeatable_training),
    Check("B = H = L = 1", FLOAT64, exactness.single_elements),
    Check("odd sizes", FLOAT64, exactness.odd_sizes),
    Check("layout", FLOAT64, exactness.non_contiguous),
    Check("|k| = 140", FLOAT32, exactness.far_keys),
    Check("q = k = -20", FLOAT32, exactness.small_features),
    Check("k' = -q'", FLOAT32, exactness.opposite_keys),
    Check("x = 100, bfloat16", BFLOAT16, exactness.large_in_bfloat16),
)


def examine(candidate: Candidate) -> list[Finding]:
    """Run all checks on a mechanism; the states of torch's random generators do not change."""
    on_cuda = candidate.device.type == "cuda"
    with torch.random.fork_rng(devices=[candidate.device] if on_cuda else []):
        torch.default_generator.manual_seed(0)
        if on_cuda:
            torch.cuda.manual_seed(0)
        return [_measure(check, candidate) for check in CHECKS]


def _measure(check: Check, candidate: Candidate) -> Finding:
    # The only place that catches everything: a mechanism that raises fails this check, and the others still run.
    try:
        return Finding(candidate.name, check, check.measure(candidate))
    except Exception as error:
        message = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return Finding(candidate.name, check, torch.nan, f"{message}, {_place(error, candidate)}")


def _place(error: Exception, candidate: Candidate) -> str:
    """Return file and line of the last call in the mechanism's own file, or else of the last call of all."""
    own = getsourcefile(candidate.kind.attend)
    frames = extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if frame.filename == own), frames[-1])
    return f"{Path(frame.filename).name} line {frame.lineno}"
