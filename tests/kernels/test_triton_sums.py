"""The kernels of `linear`, `efficient` and `taylor` against the formula in float64."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kernels.fused_cases import CAN_RUN, SUMS, Sizes, assert_matches, draw, holes, mechanism_of, planted

pytest.importorskip("triton", reason="needs the package triton")
pytestmark = pytest.mark.skipif(not CAN_RUN, reason="needs a GPU or Triton's interpreter")

EACH = [pytest.param(arguments, id=name) for name, arguments in SUMS.items()]
FEW = [pytest.param(SUMS[name], id=name) for name in ("linear-elu", "linear-exp", "efficient", "taylor")]


@pytest.mark.parametrize("arguments", EACH)
def test_output_and_gradients_match_the_formula_with_a_mask(arguments: dict[str, Any]) -> None:
    sizes = Sizes()
    assert_matches(arguments, sizes, draw(sizes, torch.float32), holes(sizes))


@pytest.mark.parametrize("arguments", [*FEW, pytest.param(SUMS["linear-relu"], id="linear-relu")])
def test_bfloat16_is_within_the_bounds_of_the_check(arguments: dict[str, Any]) -> None:
    sizes = Sizes(batch=1)
    assert_matches(arguments, sizes, draw(sizes, torch.bfloat16, heads_last=True), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "value_width"), [pytest.param(256, 20, marks=pytest.mark.exhaustive), (20, 150), (1, 1)]
)
@pytest.mark.parametrize("arguments", FEW)
def test_wide_and_narrow_heads_match(arguments: dict[str, Any], width: int, value_width: int) -> None:
    sizes = Sizes(batch=1, queries=9, keys=37, width=width, value_width=value_width)
    assert_matches(arguments, sizes, draw(sizes, torch.float32), None)


@pytest.mark.parametrize(("length", "heads"), [(64, 2), (129, 1)])
def test_full_blocks_and_several_heads_match(length: int, heads: int) -> None:
    sizes = Sizes(batch=1, heads=heads, queries=length, keys=length)
    assert_matches(SUMS["linear-elu"], sizes, draw(sizes, torch.float32, heads_last=True), None)


def test_one_program_per_head_needs_no_sum_over_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    from forecast.kernels import triton_rows, triton_sums

    monkeypatch.setattr(triton_rows, "_programs", lambda device: 1)
    monkeypatch.setattr(triton_sums, "_add_splits", None)
    sizes = Sizes(batch=1)
    assert_matches(SUMS["taylor"], sizes, draw(sizes, torch.float32), holes(sizes))
    assert_matches(SUMS["linear-exp"], sizes, draw(sizes, torch.float32), None)


@pytest.mark.parametrize("arguments", FEW)
def test_a_row_without_keys_is_zero_with_finite_gradients(arguments: dict[str, Any]) -> None:
    from forecast.kernels.fused import use

    sizes = Sizes(queries=3)
    inputs, mask = draw(sizes, torch.float32), holes(sizes)
    mask[1] = False
    with use(True):
        output = mechanism_of(arguments, sizes)(*inputs, mask)
    assert not output[1].any()
    for gradient in torch.autograd.grad(output.sum(), inputs):
        assert gradient.isfinite().all()
        assert not gradient[1].any()


def test_hidden_keys_may_hold_anything() -> None:
    from forecast.kernels.triton_sums import summed_means

    sizes = Sizes(queries=3)
    (query, key, value), mask = draw(sizes, torch.float32), holes(sizes)
    options = mask, "elu", True, 1.0
    hidden = ~mask[:, None, :, None]
    bad = [x.masked_fill(hidden, torch.nan) for x in (key, value)]
    assert torch.equal(summed_means(query, *bad, *options)[0], summed_means(query, key, value, *options)[0])


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 5, 5), (2, 0, 5), (2, 5, 0)])
def test_empty_inputs_give_empty_or_zero_outputs(batch: int, queries: int, keys: int) -> None:
    from forecast.kernels.triton_sums import summed_means

    inputs = draw(Sizes(batch=batch, queries=queries, keys=keys), torch.float32)
    output, _ = summed_means(*inputs, None, "elu", True, 1.0)
    assert output.shape == (batch, 1, queries, 5)
    assert not output.any()
    for gradient, x in zip(torch.autograd.grad(output.sum(), inputs), inputs, strict=True):
        assert gradient.shape == x.shape
        assert not gradient.any()


FAULTS = {
    "the mask is forgotten": ("is_key = is_key & (tl.load(mask", "unused = is_key & (tl.load(mask"),
    "an incomplete last block is left out": (
        "for row in range(first, stop, BLOCK):\n        rows = rows_from(row, BLOCK)\n        is_key = rows < stop",
        "for row in range(first, stop - BLOCK + 1, BLOCK):\n        rows = rows_from(row, BLOCK)\n        "
        "is_key = rows < stop",
    ),
    "the gradient of the divisor is forgotten": ("grad_features -= weights", "grad_features -= 0 * weights"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = planted("triton_sums", *FAULTS[fault], tmp_path)
    monkeypatch.setattr("forecast.kernels.triton_sums.summed_means", copy.summed_means)
    sizes = Sizes(keys=129)
    with pytest.raises(AssertionError):
        assert_matches(SUMS["linear-elu"], sizes, draw(sizes, torch.float32), holes(sizes))
