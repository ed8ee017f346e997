import pytest
import torch
from torch import Tensor

from forecast.attention import _chunks, build
from tests.attention.cases import gradients, tensors
from tests.attention.watching import largest_tensor

SIZE = _chunks.BLOCK_LENGTH


def built(causal: bool = False) -> torch.nn.Module:
    return build("linear", num_heads=2, head_dim=8, causal=causal)


def quadratic(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Write out all products of elu + 1 features and mask them."""
    weights = (torch.nn.functional.elu(query) + 1) @ (torch.nn.functional.elu(key) + 1).transpose(-1, -2)
    weights = weights.tril()
    return weights / weights.sum(dim=-1, keepdim=True) @ value


@pytest.mark.parametrize("length", [1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 3 * SIZE + 1])
def test_the_blocked_form_equals_the_quadratic_form(length: int) -> None:
    inputs = tensors(length=length, value_width=5)
    output, expected = built(causal=True)(*inputs), quadratic(*inputs)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs))


def test_the_last_causal_row_equals_the_row_without_causality() -> None:
    inputs = tensors(length=2 * SIZE + 5)
    torch.testing.assert_close(built(causal=True)(*inputs)[:, :, -1], built()(*inputs)[:, :, -1])


def test_small_features_survive_bfloat16() -> None:
    # elu(x) + 1 is 0 in bfloat16 below -6, so all weights of these keys would be 0.
    query = torch.zeros(1, 2, 4, 8, dtype=torch.bfloat16)
    key = torch.tensor([-7.0, -8.0, -9.0, -20.0], dtype=torch.bfloat16)[:, None].expand(1, 2, 4, 8)
    value = torch.eye(4, dtype=torch.bfloat16).expand(1, 2, 4, 4)
    expected = torch.tensor([-7.0, -8.0, -9.0, -20.0]).softmax(dim=0)
    torch.testing.assert_close(built()(query, key, value)[0, 0, 0].float(), expected, rtol=0.01, atol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lowest", [-130.0, -140.0, -1000.0, torch.finfo(torch.float32).min])
def test_the_output_is_a_weighted_mean_for_keys_of_any_size(lowest: float, causal: bool) -> None:
    query, _, value = tensors(length=150, dtype=torch.float32)
    key = torch.full_like(query, lowest).requires_grad_()
    output = built(causal)(query, key, torch.ones_like(value))
    torch.testing.assert_close(output, torch.ones_like(value))
    assert all(gradient.isfinite().all() for gradient in gradients(built(causal)(query, key, value), query, key, value))


def test_a_low_key_has_no_weight_next_to_ordinary_keys() -> None:
    query, key, value = (x.detach() for x in tensors(length=70, dtype=torch.float32))
    low = key.clone()
    low[:, :, ::2] = -130
    expected = built()(query, key[:, :, 1::2], value[:, :, 1::2])
    torch.testing.assert_close(built()(query, low, value), expected, rtol=0, atol=1e-6)


def test_the_causal_form_stores_no_state_per_position() -> None:
    length, width = 16 * SIZE, 32
    inputs = [torch.randn(1, 1, length, width) for _ in range(3)]
    largest = largest_tensor(lambda: build("linear", num_heads=1, head_dim=width, causal=True)(*inputs))
    assert length * SIZE <= largest <= 2 * length * SIZE
