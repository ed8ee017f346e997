import pytest
import torch
from torch import Tensor

from forecast.attention import _chunks, build, taylor
from tests.attention.cases import gradients, prefix, tensors
from tests.attention.watching import largest_tensor

SIZE = _chunks.BLOCK_LENGTH


def built(causal: bool = False, head_dim: int = 8) -> torch.nn.Module:
    return build("taylor", num_heads=2, head_dim=head_dim, causal=causal)


def written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query, key = (x / x.square().sum(dim=-1, keepdim=True).sqrt() for x in (query, key))
    total = key.shape[2] + (query * key.sum(dim=2, keepdim=True)).sum(dim=-1, keepdim=True)
    return (value.sum(dim=2, keepdim=True) + query @ (key.transpose(-1, -2) @ value)) / total


def test_the_output_is_the_quotient_of_the_paper() -> None:
    inputs = tensors(length=40, key_length=23, value_width=5)
    output, expected = built()(*inputs), written_out(*inputs)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs))


def test_only_the_direction_of_vectors_matters() -> None:
    query, key, value = tensors(length=12)
    torch.testing.assert_close(built()(query * 1e6, key * 1e-6, value), built()(query, key, value))
    assert (built()(query, -key, value) - built()(query, key, value)).abs().max() > 0.01


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_one_key_opposite_to_the_query_gives_its_value(causal: bool, dtype: torch.dtype) -> None:
    query, _, value = tensors(length=1, dtype=dtype)
    inputs = [query, (-3 * query).detach().requires_grad_(), value]
    output = built(causal)(*inputs)
    torch.testing.assert_close(output, value)
    assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@pytest.mark.parametrize("nearness", [0.0, 1e-6, 1e-4, 1e-2, 1.0])
def test_the_first_causal_step_gives_its_value_for_any_angle_to_the_key(nearness: float) -> None:
    query, _, value = tensors(length=5, dtype=torch.float32)
    inputs = [query, (-query + nearness * query.flip(-1)).detach().requires_grad_(), value]
    output = built(causal=True)(*inputs)
    torch.testing.assert_close(output[:, :, 0], value[:, :, 0], rtol=1e-6, atol=1e-7)
    assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@pytest.mark.parametrize("causal", [False, True])
def test_all_keys_opposite_to_the_query_give_the_mean_of_the_allowed_values(causal: bool) -> None:
    _, _, value = tensors(length=70, dtype=torch.float32)
    query, key = torch.full_like(value, 2.0), torch.full_like(value, -0.5)
    mask = prefix([70, 33], 70)
    output = built(causal)(query, key, value, mask)
    for row, length in enumerate([70, 33]):
        allowed = value[row, :, :length]
        mean = allowed.cumsum(dim=1) / torch.arange(1, length + 1)[:, None]
        expected = mean if causal else allowed.mean(dim=1, keepdim=True).expand_as(mean)
        torch.testing.assert_close(output[row, :, :length], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_a_zero_vector_gives_all_keys_the_same_weight_with_finite_gradients(causal: bool) -> None:
    query, key, value = tensors(length=9)
    zeros = torch.zeros_like(query, requires_grad=True)
    mean = (
        value.cumsum(dim=2) / torch.arange(1, 10)[:, None] if causal else value.mean(2, keepdim=True).expand_as(value)
    )
    for inputs in ([zeros, key, value], [query, zeros, value]):
        output = built(causal)(*inputs)
        torch.testing.assert_close(output, mean)
        assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


def test_weights_are_never_negative_and_their_sum_stays_above_the_threshold() -> None:
    query, key, _ = tensors(length=200, width=2, dtype=torch.float32)  # in a plane opposites are frequent
    weights = built(causal=True, head_dim=2).attention_map(query, key)
    assert weights.min() >= -taylor.SMALLEST_MEAN_WEIGHT
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 200))


def test_the_causal_form_stores_no_state_per_position() -> None:
    length, width = 16 * SIZE, 32
    inputs = [torch.randn(1, 1, length, width) for _ in range(3)]
    largest = largest_tensor(lambda: build("taylor", num_heads=1, head_dim=width, causal=True)(*inputs))
    assert length * SIZE <= largest <= 2 * length * SIZE


@pytest.mark.parametrize(("mean_weight", "first"), [(2e-4, 0.25), (5e-5, 0.5)])
def test_weights_below_the_threshold_are_equal(mean_weight: float, first: float) -> None:
    # 1 + cos of the angle between query and key: half and one and a half times the mean weight
    cosine = torch.tensor([0.5, 1.5], dtype=torch.float64) * mean_weight - 1
    key = torch.stack([cosine, (1 - cosine**2).sqrt()], dim=-1).expand(1, 2, 2, 2)
    query = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(1, 2, 1, 2)
    value = torch.eye(2, dtype=torch.float64).expand(1, 2, 2, 2)
    expected = torch.tensor([first, 1 - first], dtype=torch.float64).expand(1, 2, 1, 2)
    torch.testing.assert_close(built(head_dim=2)(query, key, value), expected)
    torch.testing.assert_close(built(head_dim=2).attention_map(query, key), expected)
