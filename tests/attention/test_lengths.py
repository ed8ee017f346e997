import math

import pytest
import torch
from torch import Tensor

from forecast.attention import build, mask_from_lengths, masked_softmax
from tests.attention.cases import gradients, tensors

LENGTHS = {"per row": torch.tensor([4, 0, 6]), "per query": torch.tensor([[1, 6], [0, 3], [5, 0]])}


def loop_over_rows(scores: Tensor, lengths: Tensor) -> Tensor:
    """Return the masked softmax of scores (B, H, L, S), one row at a time."""
    batch, heads, length, num_keys = scores.shape
    rows = []
    for b, h, i in torch.cartesian_prod(*map(torch.arange, (batch, heads, length))).tolist():
        valid = int(lengths[b] if lengths.ndim == 1 else lengths[b, i])
        exponentials = [scores[b, h, i, j].exp() for j in range(valid)]
        zeros = [scores.new_zeros(())] * (num_keys - valid)
        rows.append(torch.stack([x / sum(exponentials) for x in exponentials] + zeros))
    return torch.stack(rows).view(scores.shape)


def test_one_length_per_batch_row_gives_a_key_mask() -> None:
    mask = mask_from_lengths(torch.tensor([2, 0, 3]), 3)
    assert mask is not None
    assert mask.tolist() == [[True, True, False], [False] * 3, [True] * 3]


def test_one_length_per_query_gives_a_pair_mask() -> None:
    lengths = torch.tensor([[1, 2], [3, 0]])
    mask = mask_from_lengths(lengths, 3)
    assert mask is not None
    assert mask.tolist() == [[[True, False, False], [True, True, False]], [[True] * 3, [False] * 3]]
    query, key, value = tensors(length=2, key_length=3)
    output = build("full", num_heads=2, head_dim=8, implementation="fused")(query, key, value, mask)
    torch.testing.assert_close(output[0, :, 0], value[0, :, 0])
    assert not output[1, :, 1].any()


def test_no_lengths_give_no_mask() -> None:
    assert mask_from_lengths(None, 3) is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_lengths_of_small_integers_do_not_overflow(dtype: torch.dtype) -> None:
    mask = mask_from_lengths(torch.tensor([120, 3], dtype=dtype), 300)
    assert mask is not None
    assert mask.sum(1).tolist() == [120, 3]


# the last batch row and head, of the release in which a mechanism took the lengths themselves
NUMBERS = {
    ("full", "per row"): [
        *([0.137786325875, 0.634513727868], [0.345153441056, 0.139052017657], [0.424441735404, 0.378935074275]),
        *([0.114497447321, -0.085896897197], [0.199861153251, -0.257567168543]),
    ],
    ("full", "per query"): [
        *([0.479686064845, 0.172947955506], [0.0, 0.0], [1.129886898335, 1.130786268129]),
        *([-0.066504052283, -0.395936611306], [0.199861153251, -0.257567168543]),
    ],
    ("full", "none"): [
        *([0.479686064845, 0.172947955506], [0.422851194579, 0.053004276894], [0.804463625962, -0.195800060675]),
        *([0.187784773723, -0.135604558308], [0.547394756537, -0.455040736871]),
    ],
    ("linear", "per row"): [
        *([0.551195795264, 0.64420781108], [0.557615523633, 0.595016362147], [0.545501592647, 0.582601088469]),
        *([0.53925518098, 0.590604055637], [0.476754214957, 0.456193718972]),
    ],
    ("linear", "none"): [
        *([0.751028148303, 0.208197387769], [0.730305758317, 0.2272132398], [0.73828742012, 0.182702297046]),
        *([0.731904480488, 0.192362707225], [0.706579801149, 0.061135581839]),
    ],
}


@pytest.mark.parametrize(("name", "kind"), NUMBERS)
def test_the_mask_of_lengths_gives_the_outputs_of_before(name: str, kind: str) -> None:
    lengths = {"per row": torch.tensor([2, 4]), "per query": torch.tensor([[1, 2, 3, 4, 5], [5, 0, 2, 1, 4]])}.get(kind)
    attention = build(name, num_heads=2, head_dim=8, **({"implementation": "fused"} if name == "full" else {}))
    output = attention(*tensors(length=5, value_width=2), mask_from_lengths(lengths, 5))
    expected = torch.tensor(NUMBERS[name, kind], dtype=torch.float64)
    torch.testing.assert_close(output[1, 1], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["linear", "efficient", "taylor", "mean"])
def test_a_mechanism_without_pair_masks_accepts_only_a_key_mask(name: str) -> None:
    attention = build(name, num_heads=2, head_dim=8)
    query, key, value = tensors(length=4)
    cut = attention(query[1:], key[1:, :, :2], value[1:, :, :2])
    torch.testing.assert_close(attention(query, key, value, mask_from_lengths(torch.tensor([4, 2]), 4))[1:], cut)
    with pytest.raises(ValueError, match=rf"{name} takes a mask of shape \(2, 4\), not \(2, 4, 4\)"):
        attention(query, key, value, mask_from_lengths(torch.ones(2, 4, dtype=torch.int64), 4))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([1.0]), "integers, not torch.float32"),
        (torch.tensor([True]), "integers, not torch.bool"),
        (torch.tensor(3), r"shape \(B,\) or \(B, L\), not \(\)"),
        (torch.ones(1, 1, 1, dtype=torch.int64), r"not \(1, 1, 1\)"),
    ],
)
def test_invalid_lengths_are_refused(lengths: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mask_from_lengths(lengths, 3)


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("heads", [None, 3])
def test_masked_softmax_and_its_gradient_equal_those_of_a_loop(kind: str, heads: int | None) -> None:
    lengths = LENGTHS[kind]
    scores = torch.randn(3, heads or 1, 2, 6, dtype=torch.float64, requires_grad=True)
    expected = loop_over_rows(scores, lengths)
    actual = masked_softmax(scores if heads else scores[:, 0], lengths)
    expected = expected if heads else expected[:, 0]
    torch.testing.assert_close(actual, expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(gradients(actual, scores), gradients(expected, scores), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 2, 6), (3, 4, 2, 6)])
def test_masked_softmax_without_lengths_is_the_plain_softmax(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape).to(dtype).requires_grad_()
    actual, expected = masked_softmax(scores, None), scores.softmax(-1)
    assert torch.equal(actual, expected)
    if dtype != torch.bfloat16:  # rounded after the sum here, before it there
        torch.testing.assert_close(gradients(actual, scores), gradients(expected, scores))


@pytest.mark.parametrize("kind", LENGTHS)
def test_masked_softmax_gives_the_weights_of_full(kind: str) -> None:
    query, key, value = tensors(batch=3, length=2, key_length=6)
    weights = masked_softmax(query @ key.transpose(-1, -2) / math.sqrt(8), LENGTHS[kind])
    mask = mask_from_lengths(LENGTHS[kind], 6)
    for implementation in ("fused", "explicit"):
        attention = build("full", num_heads=2, head_dim=8, implementation=implementation)
        torch.testing.assert_close(attention(query, key, value, mask), weights @ value)
        torch.testing.assert_close(attention.attention_map(query, key, mask), weights)


def test_the_map_of_full_is_computed_by_the_function_behind_masked_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors()
    monkeypatch.setattr("forecast.attention.full.softmax_over", lambda scores, allowed: torch.zeros_like(scores))
    attention = build("full", num_heads=2, head_dim=8, implementation="explicit")
    assert not attention(query, key, value).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masked_softmax_is_finite_at_the_ends_of_each_dtype(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    rows = [[largest, -largest, 1.0], [-largest, largest, largest], [-largest / 2, -largest / 2, 1.0]]
    scores = torch.tensor([rows], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[2, 0, 2]]))
    assert weights.dtype == dtype
    assert weights.tolist() == [[[1, 0, 0], [0, 0, 0], [0.5, 0.5, 0]]]
    assert all(gradient.isfinite().all() for gradient in gradients(weights, scores))


def test_scores_beyond_the_length_reach_neither_weights_nor_gradients() -> None:
    scores = torch.tensor([[[0.5, 1.5, math.nan], [math.nan, math.inf, 1.0]]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[2, 0]]))
    torch.testing.assert_close(weights[0, 0, :2], torch.tensor([0.5, 1.5]).softmax(0))
    assert weights[0, 0, 2] == 0
    assert not weights[0, 1].any()
    (gradient,) = gradients(weights, scores)
    assert gradient[0, 0, :2].all()
    assert not gradient[0, 0, 2].any()
    assert not gradient[0, 1].any()


@pytest.mark.parametrize(
    ("scores", "lengths", "message"),
    [
        (torch.ones(2, 3), torch.tensor([1, 2]), r"shape \(B, L, S\) or \(B, H, L, S\), not \(2, 3\)"),
        (torch.ones(2, 3, 4), torch.tensor([1, 2, 3]), r"valid_lengths must have shape \(2,\) or \(2, 3\), not \(3,\)"),
        (torch.ones(2, 5, 3, 4), torch.ones(2, 5).long(), r"shape \(2,\) or \(2, 3\), not \(2, 5\)"),
        (torch.ones(2, 3, 4), torch.ones(2), "integers, not torch.float32"),
        (torch.ones(2, 3, 4).long(), torch.tensor([1, 2]), "floating point, not torch.int64"),
    ],
)
def test_scores_and_lengths_that_do_not_match_are_refused(scores: Tensor, lengths: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masked_softmax(scores, lengths)
