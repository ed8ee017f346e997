"""A mechanism costs what it declares: memory as the allocator sees it, and no form that goes step by step."""

import pytest
import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.benchmarking.costs import memory_growth_of
from forecast.benchmarking.peak import peak_bytes
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
    growth = memory_growth_of(case.build().memory_cost, words | ({"causal"} if case.causal else set()))
    assert growth is not None
    # parameters of Linformer belong to the length, so that each length has a mechanism of its own
    short, long = (peak(case.build(max_key_length=length), length, backward) for length in (SHORT, LONG))
    assert 0 < long <= 1.05 * growth.between(SHORT, LONG) * short


@every_case
def test_no_form_goes_position_by_position(case: Case) -> None:
    attention = case.build(max_key_length=LONG)
    assert number_of_steps(lambda: attention(*inputs_of(LONG))) < LONG / 2
