"""Feature maps of linear attention, normalized or not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention import _chunks, build
from forecast.common.errors import InputError
from tests.attention.cases import gradients, prefix, tensors

MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda x: functional.elu(x) + 1,
    "relu": functional.relu,
    "softplus": functional.softplus,
    "exp": torch.exp,
}

every_map = pytest.mark.parametrize("name", MAPS)
both_forms = pytest.mark.parametrize("causal", [False, True])


def built(name: str, causal: bool, normalize: bool = True) -> torch.nn.Module:
    return build("linear", num_heads=2, head_dim=8, causal=causal, feature_map=name, normalize=normalize)


@both_forms
@pytest.mark.parametrize("normalize", [True, False])
@every_map
def test_output_gradient_and_map_are_those_of_the_features(
    name: str, normalize: bool, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)
    attention = built(name, causal, normalize)
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
    attention = built(name, causal)
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
    output = built("relu", causal)(*inputs)
    assert not output.any()
    assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@pytest.mark.parametrize(
    ("argument", "message"),
    [({"feature_map": "gelu"}, "feature_map must be one of elu, relu, softplus, exp"), ({"normalize": 1}, "true or f")],
)
def test_other_values_are_refused(argument: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build("linear", num_heads=2, head_dim=8, **argument)
