"""Steps of causal mechanisms."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from forecast.attention import build
from forecast.attention._recurrent import RecurrentAttention
from tests.attention.cases import CASES, Case, gradients, tensors

RECURRENT = [case for case in CASES if isinstance(case.build(), RecurrentAttention)]
every_case = pytest.mark.parametrize("case", RECURRENT, ids=lambda case: case.label)


def in_steps(attention: RecurrentAttention, inputs: tuple[Tensor, ...], ends: list[int]) -> Tensor:
    state, outputs = None, []
    for start, end in pairwise([0, *ends]):
        output, state = attention.step(*(x[:, :, start:end] for x in inputs), state)
        outputs.append(output)
    return torch.cat(outputs, dim=2)


@pytest.mark.parametrize("case", [case for case in RECURRENT if case.causal], ids=lambda case: case.label)
@pytest.mark.parametrize("ends", [[1, 2, 3, 4], [1, 71, 74, 140]], ids=["ones", "some"])
def test_steps_equal_one_call_for_all_positions(case: Case, ends: list[int]) -> None:
    attention = case.build()
    assert isinstance(attention, RecurrentAttention)
    inputs = tensors(length=ends[-1], value_width=5)
    output, expected = in_steps(attention, inputs, ends), attention(*inputs)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs), rtol=0, atol=1e-11)


def test_only_a_causal_mechanism_has_steps() -> None:
    attention = build("linear", num_heads=2, head_dim=8)
    assert isinstance(attention, RecurrentAttention)
    with pytest.raises(ValueError, match="linear was built with causal=False"):
        attention.step(*tensors(length=3))
