"""Memory grows as declared, and no form loops over positions."""

import pytest
import torch
from torch import Tensor

from forecast.attention import _chunks, build
from forecast.attention._costs import cost_of
from forecast.attention.base import Attention
from forecast.common.memory import peak_bytes
from tests.attention.cases import CASES, Case
from tests.attention.watching import number_of_steps

SHORT, LONG = 512, 2048
CPU = torch.device("cpu")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)


def inputs_of(length: int) -> list[Tensor]:
    return [torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3)]


def peak(attention: Attention, length: int, backward: bool) -> int:
    inputs = inputs_of(length)
    leaves = [*inputs, *attention.parameters()]

    def forward() -> Tensor:
        with torch.no_grad():
            return attention(*inputs)

    def both() -> object:
        output = attention(*inputs)
        return output, torch.autograd.grad(output.sum(), leaves, allow_unused=True)

    return peak_bytes(both if backward else forward, CPU)


@every_case
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "both passes"])
def test_memory_grows_no_faster_than_declared(case: Case, backward: bool) -> None:
    words = {value for value in case.arguments.values() if isinstance(value, str)}
    cost = cost_of(case.build().memory_cost, words | ({"causal"} if case.causal else set()))
    assert cost is not None
    # the parameters of Linformer depend on the length: build one mechanism per length
    short, long = (peak(case.build(max_key_length=length), length, backward) for length in (SHORT, LONG))
    assert 0 < long <= 1.05 * cost.with_output().between(SHORT, LONG) * short


@every_case
def test_no_form_loops_over_positions(case: Case) -> None:
    attention = case.build(max_key_length=LONG)
    assert number_of_steps(lambda: attention(*inputs_of(LONG))) < LONG / 2


@pytest.mark.parametrize(
    ("name", "causal", "outputs"),
    [
        ("linear", False, 1.4),
        ("efficient", False, 1.4),
        ("taylor", False, 1.4),
        ("linear", True, 1.9),
        ("efficient", True, 1.9),
    ],
)
def test_a_forward_pass_stores_its_output_and_one_chunk(
    name: str, causal: bool, outputs: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, length, width = 2, 2048, 8
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", heads * width * _chunks.BLOCK_LENGTH)
    attention = build(name, num_heads=heads, head_dim=width, causal=causal)
    inputs = [torch.randn(1, heads, length, width) for _ in range(3)]
    assert peak_bytes(lambda: attention(*inputs), CPU) < outputs * heads * length * width * 4
