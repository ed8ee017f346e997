from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention import _chunks, build
from forecast.common.errors import InputError
from tests.attention.cases import gradients, prefix, tensors
from tests.attention.watching import largest_tensor

SIZE = _chunks.BLOCK_LENGTH

MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda x: functional.elu(x) + 1,
    "relu": functional.relu,
    "softplus": functional.softplus,
    "exp": torch.exp,
}

every_map = pytest.mark.parametrize("name", MAPS)
both_forms = pytest.mark.parametrize("causal", [False, True])


def built(causal: bool = False, name: str = "elu", normalize: bool = True) -> torch.nn.Module:
    return build("linear", num_heads=2, head_dim=8, causal=causal, feature_map=name, normalize=normalize)


def quadratic(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Write out all products of elu + 1 features and mask them."""
    weights = (functional.elu(query) + 1) @ (functional.elu(key) + 1).transpose(-1, -2)
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


@both_forms
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


@both_forms
@pytest.mark.parametrize("normalize", [True, False])
@every_map
def test_output_gradient_and_map_are_those_of_the_features(
    name: str, normalize: bool, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)
    attention = built(causal, name, normalize)
    query, key, value = tensors(length=150, value_width=5)
    mask = prefix([150, 90], 150)
    weights = (MAPS[name](query) @ MAPS[name](key).transpose(-1, -2)).masked_fill(~mask[:, None, None], 0)
    weights = weights.tril() if causal else weights
    if normalize:
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / total.where(total > 0, 1)
    output, expected = attention(query, key, value, mask), weights @ value
    torch.testing.assert_close(output, expected, rtol=1e-11, atol=1e-11)
    actual = gradients(output, query, key, value)
    torch.testing.assert_close(actual, gradients(expected, query, key, value), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(attention.attention_map(query, key, mask), weights, rtol=1e-11, atol=1e-11)


@both_forms
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@every_map
def test_large_inputs_give_weighted_means_with_finite_gradients(name: str, dtype: torch.dtype, causal: bool) -> None:
    attention = built(causal, name)
    _, _, value = tensors(length=90, dtype=dtype)
    mixed = torch.tensor([-100.0, 0.0, 100.0]).repeat(30)[:, None].expand(2, 2, 90, 8)
    for query, key in [(1.0, -100.0), (-20.0, -20.0), (100.0, 100.0), (-100.0, 100.0), (0.25, mixed), (1.0, -1e6)]:
        inputs = [torch.as_tensor(x).expand(value.shape).to(dtype).clone().requires_grad_() for x in (query, key)]
        inputs.append(value)
        output = attention(*inputs)
        exact = [x.detach().double() for x in inputs]
        expected = attention.attention_map(*exact[:2]) @ exact[2]
        tolerance = 1e-5 if dtype == torch.float32 else 0.03
        torch.testing.assert_close(output.double(), expected, rtol=0, atol=tolerance, msg=f"{name} {key}")
        assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@both_forms
def test_queries_without_a_positive_feature_get_zeros(causal: bool) -> None:
    query, key, value = tensors(length=80, dtype=torch.float32)
    inputs = [(-query.abs()).detach().requires_grad_(), key, value]
    output = built(causal, "relu")(*inputs)
    assert not output.any()
    assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@pytest.mark.parametrize(
    ("argument", "message"),
    [({"feature_map": "gelu"}, "feature_map must be one of elu, relu, softplus, exp"), ({"normalize": 1}, "true or f")],
)
def test_other_values_are_refused(argument: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build("linear", num_heads=2, head_dim=8, **argument)
