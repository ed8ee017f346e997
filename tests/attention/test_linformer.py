from typing import Any

import pytest
import torch

from forecast.attention import build
from forecast.attention.linformer import LinformerAttention
from forecast.common.errors import InputError
from tests.attention.cases import gradients, prefix, tensors


def built(max_key_length: int | None = 30, rank: int = 6, **arguments: Any) -> LinformerAttention:
    torch.manual_seed(0)
    mechanism = build("linformer", num_heads=2, head_dim=8, max_key_length=max_key_length, rank=rank, **arguments)
    assert isinstance(mechanism, LinformerAttention)
    return mechanism.double()


def test_the_output_is_the_softmax_over_projected_keys_and_values() -> None:
    query, key, value = tensors(length=12, key_length=30, value_width=5)
    attention = built()
    keys, values = attention.key_projection @ key, attention.value_projection @ value
    assert keys.shape == (2, 2, 6, 8)
    expected = (query @ keys.transpose(-1, -2) / 8**0.5).softmax(dim=-1) @ values
    torch.testing.assert_close(attention(query, key, value), expected)
    leaves = [query, key, value, attention.key_projection, attention.value_projection]
    torch.testing.assert_close(gradients(attention(query, key, value), *leaves), gradients(expected, *leaves))


def test_a_shorter_input_uses_the_first_columns() -> None:
    query, key, value = tensors(length=30)
    attention, output = built(), built()(query, key[:, :, :11], value[:, :, :11])
    with torch.no_grad():
        attention.key_projection[:, 11:], attention.value_projection[:, 11:] = torch.nan, torch.nan
    torch.testing.assert_close(attention(query, key[:, :, :11], value[:, :, :11]), output)


def test_masked_keys_are_zero_before_the_projection() -> None:
    query, key, value = tensors(length=30)
    mask = prefix([30, 11], 30)
    zeroed = [x * mask[:, None, :, None] for x in (key, value)]
    torch.testing.assert_close(built()(query, key, value, mask), built()(query, *zeroed))


def test_a_longer_input_is_refused_with_the_cure() -> None:
    inputs = tensors(length=31)
    message = "linformer was built for keys of at most 30 positions, not 31: build it with max_key_length=31"
    with pytest.raises(ValueError, match=message):
        built()(*inputs)
    with pytest.raises(ValueError, match=message):
        built().attention_map(*inputs[:2])
    assert built()(inputs[0], inputs[1][:, :, :30], inputs[2][:, :, :30]).shape == (2, 2, 31, 8)


def test_causal_is_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match="attention=linformer cannot be causal: set attention@decoder_attention=full"):
        built(causal=True)


def test_a_missing_max_key_length_is_refused() -> None:
    with pytest.raises(InputError, match="attention=linformer needs max_key_length"):
        built(max_key_length=None)


def test_a_rank_above_the_longest_input_is_reduced_to_it() -> None:
    attention = built(rank=31)
    assert attention.rank == 30
    assert attention.key_projection.shape == attention.value_projection.shape == (30, 30)
    assert "rank=30" in repr(attention)


def test_initial_projections_differ_and_keep_the_size_of_keys() -> None:
    attention = built(max_key_length=1000, rank=200)
    key = torch.randn(1, 2, 1000, 8, dtype=torch.float64)
    for projection in attention.parameters():
        assert (projection @ key).std().item() == pytest.approx(1, rel=0.1)
        assert projection.mean().abs() < 1e-3
    assert not torch.equal(attention.key_projection, attention.value_projection)
