"""Steps of causal mechanisms, and lengths per query."""

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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_lengths_per_query_are_used_or_refused_with_a_cure(case: Case) -> None:
    attention = case.build()
    inputs = tensors(length=70, value_width=5)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 71, (2, 70), generator=generator)
    lengths[0, 60] = 0
    if not (attention.accepts_pair_mask or attention.accepts_lengths_per_query):
        with pytest.raises(ValueError, match=rf"{case.name} takes lengths of shape \(2,\).*such as full or linear"):
            attention(*inputs, lengths=lengths)
        return
    holes = torch.rand(2, 70, generator=generator) < 0.7
    for mask in (None, holes):
        output = attention(*inputs, mask, lengths=lengths)
        expected = attention.attention_map(*inputs[:2], mask, lengths=lengths) @ inputs[2]
        torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs), rtol=1e-8, atol=1e-10)
        assert not output[0, :, 60].any()
    i, count = 33, int(lengths[1, 33])
    if case.causal:
        count = min(count, i + 1)
    alone = attention.attention_map(*inputs[:2], lengths=lengths)[1, :, i]
    assert attention.local or (alone[:, :count] != 0).all()
    assert not alone[:, count:].any()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_length_per_batch_row_equals_its_mask(case: Case) -> None:
    attention = case.build()
    inputs = tensors(length=9)
    mask = torch.arange(9) < torch.tensor([[4], [9]])
    output = attention(*inputs, lengths=torch.tensor([4, 9]))
    torch.testing.assert_close(output, attention(*inputs, mask), rtol=0, atol=0)


@every_case
def test_keys_beyond_all_lengths_may_be_nan(case: Case) -> None:
    attention = case.build()
    inputs = tensors(length=6)
    lengths = torch.tensor([[1, 2, 3, 3, 0, 2]] * 2)
    bad = [x.detach().clone() for x in inputs]
    for x in bad[1:]:
        x[:, :, 3:] = torch.nan
    torch.testing.assert_close(attention(*bad, lengths=lengths), attention(*inputs, lengths=lengths))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [(torch.ones(2, 6), "integers"), (torch.ones(3, dtype=torch.int64), r"shape \(2,\) or \(2, 6\), not \(3,\)")],
)
def test_other_lengths_are_refused(lengths: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("linear", num_heads=2, head_dim=8)(*tensors(length=6), lengths=lengths)
