"""Ways to compute gradients other than one call of backward, over several chunks."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from forecast.attention import _chunks
from forecast.attention._recurrent import RecurrentAttention
from tests.attention.cases import CASES, Case, tensors

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
LENGTH = 200


@pytest.fixture(autouse=True)
def _many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)


def first_order(case: Case) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return an output with added inputs, so that each has a gradient, and the inputs."""
    inputs = tensors(length=LENGTH)
    return case.build()(*inputs) + sum(inputs), inputs


@every_case
def test_activation_checkpointing_does_not_change_the_gradient(case: Case) -> None:
    attention, inputs = case.build(), tensors(length=LENGTH)
    query = inputs[0]
    plain = torch.autograd.grad(attention(query, query, query).square().sum(), query)
    again = checkpoint(attention, query, query, query, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.square().sum(), query), plain)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@every_case
def test_several_backward_passes_at_once_equal_one_after_the_other(case: Case) -> None:
    output, inputs = first_order(case)
    above = torch.randn(3, *output.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def gradients(gradient: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(output, inputs, gradient, retain_graph=True)

    expected = [torch.stack(each) for each in zip(*map(gradients, above), strict=True)]
    torch.testing.assert_close([*torch.func.vmap(gradients)(above)], expected)
    if case.name not in ("full", "probsparse", "linformer"):  # torch cannot batch the others' kernels
        batched = torch.autograd.grad(output, inputs, above, is_grads_batched=True, retain_graph=True)
        torch.testing.assert_close([*batched], expected)


class Stopped(torch.autograd.Function):
    """The identity, whose gradient is undefined."""

    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> None:
        return None


@every_case
def test_an_undefined_gradient_adds_nothing(case: Case) -> None:
    inputs = tensors(length=LENGTH)
    stopped = Stopped.apply(case.build()(*inputs)).sum() + sum(x.sum() for x in inputs)
    for gradient in torch.autograd.grad(stopped, inputs):
        torch.testing.assert_close(gradient, torch.ones_like(gradient))


@every_case
def test_tensors_without_data_give_the_shape(case: Case) -> None:
    with FakeTensorMode():
        inputs = [torch.empty(2, 2, LENGTH, 8) for _ in range(3)]
        attention = case.build()
        assert attention(*inputs).shape == (2, 2, LENGTH, 8)


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ("linear", "taylor", "mean")], ids=lambda c: c.label)
def test_values_may_have_more_digits_than_keys(case: Case) -> None:
    query, key, value = tensors(length=LENGTH)
    output = case.build()(query.float(), key.float(), value)
    assert output.dtype == torch.float64
    torch.testing.assert_close(output, case.build()(query, key, value), rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in CASES if c.causal], ids=lambda c: c.label)
def test_the_state_of_steps_does_not_keep_the_positions_in_memory(case: Case) -> None:
    attention = case.build()
    if not isinstance(attention, RecurrentAttention):
        pytest.skip("it has no steps")
    sizes = []
    for length in (10, 1000):
        _, state = attention.step(*(x.detach() for x in tensors(length=length)))
        sizes.append(sum(x.untyped_storage().nbytes() for x in state))
    assert sizes[0] == sizes[1]
