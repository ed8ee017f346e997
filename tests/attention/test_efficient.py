import pytest
import torch
from torch import Tensor

from forecast.attention import _chunks, build
from tests.attention.cases import gradients, prefix, tensors
from tests.attention.watching import largest_tensor

SIZE = _chunks.BLOCK_LENGTH


def built(causal: bool = False) -> torch.nn.Module:
    return build("efficient", num_heads=2, head_dim=8, causal=causal)


def quadratic(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute the softmax over past positions for each query and feature."""
    future = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).triu(1)[..., None]
    weights = key[:, :, None].masked_fill(future, -torch.inf).softmax(dim=3)  # (B, H, L, S, E)
    return torch.einsum("bhie,bhije,bhjv->bhiv", query.softmax(dim=-1), weights, value)


@pytest.mark.parametrize("length", [1, 2, 3, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 3 * SIZE + 1])
def test_the_blocked_form_equals_the_quadratic_form(length: int) -> None:
    inputs = tensors(length=length, value_width=5)
    output, expected = built(causal=True)(*inputs), quadratic(*inputs)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs))


PATTERNS = {
    "near": [100.0],
    "far": [-100.0],
    "mixed": [-100.0, 0.0, 100.0],
    "rising": [-100.0, -50.0, 0.0, 50.0, 100.0],
    "falling": [100.0, 50.0, 0.0, -50.0, -100.0],
    "a step in the middle of a block": [-100.0] * (SIZE // 2 + 3) + [100.0] * SIZE,
    "thousands": [-3000.0, 2000.0, 2001.0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("parts", ["one", "many"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_adjacent_keys_of_any_size_neither_overflow_nor_underflow(
    pattern: str, parts: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts == "many":
        monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS", 1)
        monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)
    length = 2 * SIZE + 7
    query, noise, value = tensors(length=length, dtype=torch.float32)
    steps = torch.tensor(PATTERNS[pattern]).repeat(length)[:length, None]
    key = noise + torch.stack([steps.roll(feature, 0)[:, 0] for feature in range(8)], dim=-1)
    inputs = [x.detach().to(dtype).requires_grad_() for x in (query, key, value)]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    output, expected = built(causal=True)(*inputs), quadratic(*exact)
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=1e-5)
    for actual, gradient in zip(gradients(output, *inputs), gradients(expected, *exact), strict=True):
        torch.testing.assert_close(actual.double(), gradient, rtol=1e-4, atol=1e-5)


def test_keys_are_masked_before_their_softmax() -> None:
    query, key, value = tensors(length=6)
    key = torch.cat([key[:, :, :4], key[:, :, 4:] + 1e4], dim=2)  # masked afterwards, they would have all the weight
    output = built()(query, key, value, prefix([4, 4], 6))
    torch.testing.assert_close(output, built()(query, key[:, :, :4], value[:, :, :4]))
    assert output.abs().sum(dim=-1).all()


def test_query_features_are_not_scaled() -> None:
    query, key, _ = tensors(length=6)
    torch.testing.assert_close(built().attention_map(query, key).sum(dim=-1), torch.ones(2, 2, 6, dtype=torch.float64))


def test_the_last_causal_row_equals_the_row_without_causality() -> None:
    inputs = tensors(length=2 * SIZE + 5)
    torch.testing.assert_close(built(causal=True)(*inputs)[:, :, -1], built()(*inputs)[:, :, -1])


def test_the_causal_form_stores_no_state_per_position() -> None:
    length, width = 16 * SIZE, 32
    inputs = [torch.randn(1, 1, length, width) for _ in range(3)]
    largest = largest_tensor(lambda: build("efficient", num_heads=1, head_dim=width, causal=True)(*inputs))
    assert length * width <= largest <= length * SIZE


@pytest.mark.parametrize("length", [1, 63, 65, 130])
def test_the_causal_output_is_contiguous(length: int) -> None:
    inputs = tensors(length=length)
    assert build("efficient", num_heads=2, head_dim=8, causal=True)(*inputs).is_contiguous()


@pytest.mark.parametrize("causal", [False, True])
def test_the_scaled_query_divides_output_and_map_by_the_root_of_the_width(causal: bool) -> None:
    plain, scaled = (
        build("efficient", num_heads=2, head_dim=16, causal=causal, scale_query=scale) for scale in (False, True)
    )
    query, key, value = tensors(length=40, width=16)
    torch.testing.assert_close(scaled(query, key, value), plain(query, key, value) / 4)
    torch.testing.assert_close(scaled.attention_map(query, key), plain.attention_map(query, key) / 4)


def test_the_context_of_the_causal_form_is_that_of_the_last_position() -> None:
    attention = build("efficient", num_heads=2, head_dim=8, causal=True)
    query, key, value = tensors(length=70, value_width=5)
    mask = prefix([70, 66], 70)
    context = attention.global_context(key, value, mask)  # (B, H, E, V)
    expected = attention(query, key, value, mask)[:, :, -1]
    torch.testing.assert_close((query[:, :, -1:].softmax(dim=-1) @ context).squeeze(2), expected)


@pytest.mark.parametrize("first", [0, 1, 70, 128, 199])
@pytest.mark.parametrize("chunk", [1, 2**17])
def test_rows_before_and_after_the_first_large_key_are_exact(
    first: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", chunk)
    attention = build("efficient", num_heads=2, head_dim=8, causal=True)
    query, key, value = (x.detach() for x in tensors(length=200, dtype=torch.float32))
    key[:, :, first] += 200
    key[0, 0, -1] = -300
    inputs = [x.requires_grad_() for x in (query, key, value)]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    mask = prefix([200, 150], 200)
    output, expected = attention(*inputs, mask), attention.attention_map(*exact[:2], mask) @ exact[2]
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=1e-5)
    found, right = gradients(output, *inputs), gradients(expected, *exact)
    torch.testing.assert_close([x.double() for x in found], [*right], rtol=0, atol=1e-4)
