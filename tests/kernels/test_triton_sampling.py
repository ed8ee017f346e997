"""The kernels of `probsparse` against the formula in float64."""

from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.kernels.fused import use
from tests.kernels.fused_cases import CAN_RUN, DEVICE, SPARSE, Sizes, assert_matches, draw, holes, mechanism_of, planted

pytest.importorskip("triton", reason="needs the package triton")
pytestmark = pytest.mark.skipif(not CAN_RUN, reason="needs a GPU or Triton's interpreter")

EACH = [pytest.param(arguments, id=name) for name, arguments in SPARSE.items()]
USUAL = SPARSE["probsparse-shared-sampled_mean"]


@pytest.mark.parametrize("arguments", EACH)
def test_output_and_gradients_match_the_formula_with_a_mask(arguments: dict[str, Any]) -> None:
    sizes = Sizes()
    assert_matches(arguments, sizes, draw(sizes, torch.float32), holes(sizes))


def test_bfloat16_is_within_the_bounds_of_the_check() -> None:
    sizes = Sizes(batch=1)
    assert_matches(USUAL, sizes, draw(sizes, torch.bfloat16, heads_last=True), None)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "value_width"), [(256, 20), (20, 150), (1, 1)])
def test_wide_and_narrow_heads_match(width: int, value_width: int) -> None:
    sizes = Sizes(batch=1, queries=9, keys=37, width=width, value_width=value_width)
    assert_matches(USUAL, sizes, draw(sizes, torch.float32), None)


@pytest.mark.parametrize("sampling", ["shared", "per_query"])
def test_in_training_the_kernel_draws_the_sample_of_the_plain_form(sampling: str) -> None:
    sizes = Sizes(queries=70)
    query, key, _ = draw(sizes, torch.float32)
    mechanism = mechanism_of(SPARSE[f"probsparse-{sampling}-sampled_mean"], sizes).train()
    chosen = []
    for kernels in (False, True):
        torch.manual_seed(3)
        with use(kernels):
            chosen.append(mechanism.choose_active_queries(query, key))  # type: ignore[operator]
    assert torch.equal(*chosen)


def test_of_equal_measures_the_first_query_is_chosen() -> None:
    sizes = Sizes(batch=1, queries=40)
    query, key, _ = draw(sizes, torch.float32)
    mechanism = mechanism_of(USUAL, sizes)
    with use(True):
        chosen = mechanism.choose_active_queries(query * 0, key)  # type: ignore[operator]
    assert chosen.flatten().tolist() == list(range(8))


def test_padded_queries_are_chosen_last_and_get_no_softmax() -> None:
    sizes = Sizes()
    inputs, mask = draw(sizes, torch.float32), holes(sizes)
    query_mask = torch.arange(sizes.queries, device=DEVICE) < torch.tensor([[20], [2]], device=DEVICE)
    mechanism = mechanism_of(USUAL, sizes)
    outputs = []
    for kernels in (False, True):
        with use(kernels):
            outputs.append(mechanism(*inputs, mask, query_mask))
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-6)


def test_more_active_queries_than_a_block_holds_run_in_plain_form() -> None:
    from forecast.kernels.fused import watch

    sizes = Sizes(batch=1, queries=150, keys=150)
    arguments = {**USUAL, "factor": 30}
    inputs = draw(sizes, torch.float32)
    with use(True), watch() as forms:
        mechanism_of(arguments, sizes)(*inputs)
    assert forms == {"plain"}


FAULTS = {
    "the mask is forgotten": ("is_key = is_key & (tl.load(mask", "unused = is_key & (tl.load(mask"),
    "an incomplete last block is left out": (
        "for row in range(first, stop, BLOCK):\n        rows = rows_from(row, BLOCK)\n        is_key = rows < stop",
        "for row in range(first, stop - BLOCK + 1, BLOCK):\n        rows = rows_from(row, BLOCK)\n        "
        "is_key = rows < stop",
    ),
    "chosen rows reach the gradient of the mean": ("(rows < stop) & ~is_chosen", "rows < stop"),
    "the lowest queries are chosen": ("ordered.to(tl.int64) * 4294967296", "ordered.to(tl.int64) * -4294967296"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = planted("triton_sampling", *FAULTS[fault], tmp_path)
    for operation in ("informative_queries", "softmax_of_few"):
        monkeypatch.setattr(f"forecast.kernels.triton_sampling.{operation}", getattr(copy, operation))
    sizes = Sizes(batch=1, keys=129)
    with pytest.raises(AssertionError):
        assert_matches(USUAL, sizes, draw(sizes, torch.float32), holes(sizes))
