"""The checks, each with its bound, in the order of the table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from inspect import getsourcefile
from pathlib import Path
from traceback import extract_tb
from typing import Literal

import torch

from forecast.check import costs, exactness, masks, symmetry
from forecast.check.candidate import Candidate
from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError, NotEnoughMemory, first_line

# Errors are relative to the largest expected value, so that bounds do not depend on the scale of a mechanism.
EXACT = 0.0  # bitwise equal, or a count
FLOAT64 = 1e-9  # float64 rounds at 1e-16: sums and exponentials pass, another formula does not
FLOAT32 = 1e-5  # float32 rounds at 6e-8; also the bound between a row alone and in a batch
GRADIENT = 1e-4  # a gradient passes through the products twice, and large terms cancel
BFLOAT16 = 2.0**-5  # eight roundings of 2⁻⁸: weights, products and output are rounded, sums are not
FLOAT16 = 2.0**-8  # eight roundings of 2⁻¹¹
TWO_ROUNDINGS = 2.0**-7  # only weights and output are rounded to bfloat16
EXPONENT = 0.1  # of the growth with L: a factor log L that is not declared gives 0.14

Against = Literal["formula", "oracle", "own map", "invariance", "count", "contract"]
"""What a check compares with. An oracle is the formula, or the own map of a mechanism without one."""


@dataclass(frozen=True)
class Check:
    """A promise of the contract: it is kept if `measure` returns at most `bound`, or None if it does not apply.

    `detail` returns facts that explain a value.
    """

    name: str
    bound: float
    measure: Callable[[Candidate], float | None]
    against: Against
    detail: Callable[[Candidate], Iterable[object]] = lambda candidate: ()

    @property
    def promise(self) -> str:
        """Text of the promise: the first line of the docstring of `measure`."""
        return (self.measure.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Finding:
    """Result of a check on a mechanism: a value, or an error message with its file and line.

    `has_formula` tells whether the mechanism's file has a formula; `detail` explains a value outside the bound.
    """

    mechanism: str
    check: Check
    value: float | None
    error: str = ""
    has_formula: bool = True
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the promise is kept or does not apply."""
        return self.value is None or self.value <= self.check.bound  # False for NaN

    @property
    def no_formula(self) -> bool:
        """Whether nothing was measured since the file has no formula."""
        return self.check.against == "formula" and not self.has_formula


CHECKS = (
    Check("formula", FLOAT64, exactness.formula_error, "formula"),
    Check("formula, masked", FLOAT64, exactness.masked_formula_error, "formula"),
    Check("formula, causal", FLOAT64, exactness.causal_formula_error, "formula"),
    Check("formula, gradient", FLOAT64, exactness.formula_gradient_error, "formula"),
    Check("map", FLOAT64, exactness.map_error, "own map"),
    Check("output, float32", FLOAT32, exactness.output_error, "oracle"),
    Check("gradient, float32", GRADIENT, exactness.gradient_error, "oracle"),
    Check("output, bfloat16", BFLOAT16, exactness.error_in_bfloat16, "oracle"),
    Check("output, float16", FLOAT16, exactness.error_in_float16, "oracle"),
    Check("long sums, half", TWO_ROUNDINGS, exactness.long_sums, "invariance"),
    Check("masked = cut", FLOAT64, masks.masked_is_cut, "invariance"),
    Check("mask per query", FLOAT64, masks.mask_per_query, "oracle"),
    Check("empty row", EXACT, masks.empty_row, "contract"),
    Check("empty inputs", EXACT, masks.empty_inputs, "contract"),
    Check("masked NaN", FLOAT64, masks.masked_nan, "invariance"),
    Check("refusals", EXACT, masks.refusals, "contract"),
    Check("causal", FLOAT32, masks.causality, "invariance"),
    Check("reach", EXACT, symmetry.reach, "invariance"),
    Check("heads permuted", FLOAT64, symmetry.permuted_heads, "invariance"),
    Check("one head changed", FLOAT64, symmetry.changed_head, "invariance"),
    Check("order of keys", FLOAT64, symmetry.order_of_keys, "invariance"),
    Check("shift of keys", FLOAT64, symmetry.shift_of_keys, "invariance"),
    Check("scale of keys", FLOAT64, symmetry.scale_of_keys, "invariance"),
    Check("scale of queries", FLOAT64, symmetry.scale_of_queries, "invariance"),
    Check("cross lengths", FLOAT64, exactness.cross_lengths, "oracle"),
    Check("batch rows", FLOAT32, masks.batch_independence, "invariance"),
    Check("repeatable, eval", EXACT, masks.repeatable_evaluation, "invariance"),
    Check("repeatable, train", EXACT, masks.repeatable_training, "invariance"),
    Check("B = H = L = 1", FLOAT64, exactness.single_elements, "oracle"),
    Check("odd sizes", FLOAT64, exactness.odd_sizes, "oracle"),
    Check("layout", FLOAT64, exactness.non_contiguous, "invariance"),
    Check("|k| = 140", FLOAT32, exactness.far_keys, "oracle"),
    Check("q = k = -20", FLOAT32, exactness.small_features, "oracle"),
    Check("k' = -q'", FLOAT32, exactness.opposite_keys, "oracle"),
    Check("x = 100, bfloat16", BFLOAT16, exactness.large_in_bfloat16, "oracle"),
    Check("operations", EXPONENT, costs.operations_excess, "count", costs.operations_growths),
    Check("live bytes", EXPONENT, costs.memory_excess, "count", costs.memory_growths),
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
    # The only place that catches everything: a mechanism that raises fails this check, and the others still run. A lack
    # of memory is no fault of the mechanism and ends the command.
    has_formula = candidate.has_formula
    if check.against == "formula" and not has_formula:
        return Finding(candidate.name, check, None, has_formula=False)
    try:
        finding = Finding(candidate.name, check, check.measure(candidate), has_formula=has_formula)
        return finding if finding.passed else replace(finding, detail=", ".join(map(str, check.detail(candidate))))
    except InputError as error:  # its message names what to change
        return Finding(candidate.name, check, torch.nan, str(error), has_formula)
    except Exception as error:
        if ran_out_of_memory(error):
            raise NotEnoughMemory(
                f"{candidate.name}: not enough memory ({first_line(error)}): lower --length"
            ) from None
        message = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return Finding(candidate.name, check, torch.nan, f"{message}, {_place(error, candidate)}", has_formula)


def _place(error: Exception, candidate: Candidate) -> str:
    """Return file and line of the last call in the mechanism's own file, or else of the last call of all."""
    own = getsourcefile(candidate.kind.attend)
    frames = extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if frame.filename == own), frames[-1])
    return f"{Path(frame.filename).name} line {frame.lineno}"
