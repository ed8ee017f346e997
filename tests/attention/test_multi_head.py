from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from forecast.attention import _few_queries as few_queries
from forecast.attention import build
from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention.base import Attention
from forecast.common.errors import InputError
from tests.attention.cases import CASES, Case, gradients, prefix

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)


def layer(
    case: Case, d_model: int = 12, num_heads: int = 3, head_dim: int | None = None, **options: Any
) -> MultiHeadAttention:
    attention = case.build(num_heads=num_heads, head_dim=head_dim or d_model // num_heads)
    return MultiHeadAttention(d_model, num_heads, attention, head_dim, **options).double().eval()


def loop_over_heads(heads: MultiHeadAttention, single: Attention, inputs: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Return the output of `heads` from one head after the other; `single` is its mechanism with one head."""
    projections = heads.query_projection, heads.key_projection, heads.value_projection
    outputs = []
    for head in range(heads.num_heads):
        projected = []
        for x, projection in zip(inputs, projections, strict=True):
            width = projection.out_features // heads.num_heads
            rows = slice(width * head, width * (head + 1))
            rest = 0 if projection.bias is None else projection.bias[rows]
            projected.append((x @ projection.weight[rows].T + rest)[:, None])
        outputs.append(single(*projected, mask)[:, 0])
    output: Tensor = heads.output_projection(torch.cat(outputs, dim=-1))
    if heads.output_norm is not None:
        norm = heads.output_norm
        output = (output - output.mean(-1, True)) / (output.var(-1, False, keepdim=True) + norm.eps).sqrt()
        output = output * norm.weight + norm.bias
    return output


@pytest.mark.parametrize(
    ("d_model", "num_heads", "head_dim", "options"),
    [
        (12, 3, 5, {}),
        (512, 2, 32, {}),
        (12, 3, 5, {"value_head_dim": 2}),
        (12, 3, 4, {"value_head_dim": 9, "bias": False}),
        (12, 3, 4, {"normalize_output": True}),
    ],
)
@every_case
def test_all_heads_together_equal_a_loop_over_heads(
    case: Case, d_model: int, num_heads: int, head_dim: int, options: dict[str, Any]
) -> None:
    heads = layer(case, d_model, num_heads, head_dim, **options)
    query = torch.randn(2, 7, d_model, dtype=torch.float64, requires_grad=True)
    num_keys = 7 if case.causal or not heads.attention.cross else 9
    key, value = (query, query) if case.causal else torch.randn(2, 2, num_keys, d_model, dtype=torch.float64)
    mask = prefix([key.shape[1], 4], key.shape[1])
    expected = loop_over_heads(heads, case.build(num_heads=1, head_dim=head_dim), (query, key, value), mask)
    actual = heads(query, key, value, mask)
    torch.testing.assert_close(actual, expected)
    leaves = [query, *heads.query_projection.parameters(), *heads.value_projection.parameters()]
    torch.testing.assert_close(gradients(actual, *leaves), gradients(expected, *leaves))


OPTIONS = [{"value_head_dim": 24}, {"bias": False}, {"value_head_dim": 7, "bias": False}, {"normalize_output": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_kernel_for_few_queries_equals_a_loop_over_heads(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(case for case in CASES if case.label == "probsparse-1")
    heads = layer(case, 12, 3, 16, **options)
    x = torch.randn(2, 61, 12, dtype=torch.float64, requires_grad=True)
    used = []
    attend = few_queries.attend_few
    monkeypatch.setattr(few_queries, "attend_few", lambda *inputs: used.append(1) or attend(*inputs))
    actual = heads(x, x, x)
    assert used == [1]
    single = case.build(num_heads=1, head_dim=16)
    expected = loop_over_heads(heads, single, (x, x, x), torch.ones(2, 61, dtype=torch.bool))
    leaves = [x, *heads.parameters()]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradients(actual, *leaves), gradients(expected, *leaves))


def test_projections_without_bias_have_weights_only() -> None:
    heads = layer(CASES[0], bias=False, value_head_dim=7)
    shapes = {name: tuple(each.shape) for name, each in heads.named_parameters() if "projection" in name}
    assert shapes == {
        "query_projection.weight": (12, 12),
        "key_projection.weight": (12, 12),
        "value_projection.weight": (21, 12),
        "output_projection.weight": (12, 21),
    }


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3, 4, 8),), r"query must have shape \(B, L, D\), not \(2, 3, 4, 8\)"),
        (((2, 4, 8), (4, 8)), r"key must have shape \(B, S, D\), not \(4, 8\)"),
        (((2, 4, 8), (2, 4, 8), (8,)), r"value must have shape \(B, S, D\), not \(8,\)"),
        (((2, 4, 6),), r"query must have width D = 8, not \(2, 4, 6\)"),
        (((2, 4, 8), (2, 4, 8), (2, 3, 8)), r"do not match: \(2, 4, 8\), \(2, 4, 8\), \(2, 3, 8\)"),
        (((2, 4, 8), (1, 4, 8), (1, 4, 8)), r"do not match: \(2, 4, 8\), \(1, 4, 8\), \(1, 4, 8\)"),
    ],
)
def test_tensors_of_another_shape_are_refused_with_the_shape_to_use(
    shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    heads = MultiHeadAttention(8, 2, build("mean", num_heads=2, head_dim=4))
    inputs = [torch.ones(shape) for shape in shapes]
    with pytest.raises(ValueError, match=message):
        heads(*inputs, *[torch.ones(2, 4, 8)] * (3 - len(inputs)))


def test_a_width_of_the_values_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="value_head_dim 0 must be at least 1"):
        MultiHeadAttention(8, 2, build("mean", num_heads=2, head_dim=4), value_head_dim=0)


def test_the_width_of_a_head_need_not_divide_the_model() -> None:
    attention = build("mean", num_heads=2, head_dim=32)
    heads = MultiHeadAttention(512, 2, attention, head_dim=32)
    assert heads.query_projection.weight.shape == (64, 512)
    x = torch.randn(1, 5, 512)
    assert heads(x, x, x).shape == (1, 5, 512)


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(InputError, match="d_model 10 is not divisible by num_heads 4"):
        MultiHeadAttention(10, 4, build("mean", num_heads=4, head_dim=2))


@pytest.mark.parametrize(("num_heads", "head_dim"), [(2, 4), (4, 3)])
def test_a_mechanism_built_for_other_heads_is_refused(num_heads: int, head_dim: int) -> None:
    with pytest.raises(ValueError, match="the layer has 4 of 4"):
        MultiHeadAttention(16, 4, build("mean", num_heads=num_heads, head_dim=head_dim))


@every_case
def test_masked_nan_reaches_neither_output_nor_weights(case: Case) -> None:
    heads = layer(case)
    mask = prefix([6, 3], 6)
    clean = torch.randn(2, 6, 12, dtype=torch.float64)
    poisoned = clean.masked_fill(~mask[..., None], torch.nan)
    results = []
    for x in (clean, poisoned):
        heads.zero_grad()
        output = heads(x, x, x, mask, mask)
        output[mask].pow(2).sum().backward()
        results.append([output[mask].detach(), *(p.grad.clone() for p in heads.parameters() if p.grad is not None)])
    assert all(x.isfinite().all() for x in results[1])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


def test_keys_of_padded_queries_alone_reach_neither_output_nor_weights() -> None:
    heads = layer(next(case for case in CASES if case.name == "full"))
    query_mask = prefix([6, 4], 6)
    mask = torch.ones(6, 6, dtype=torch.bool).tril().expand(2, 6, 6)
    x = torch.randn(2, 6, 12, dtype=torch.float64).masked_fill(~query_mask[..., None], torch.nan)
    output = heads(x, x, x, mask, query_mask)
    output.sum().backward()
    assert output.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in heads.parameters())


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(2, 5, dtype=torch.bool), r"linear takes a mask of shape \(2, 6\), not \(2, 5\)"),
        (torch.ones(2, 6, 6, dtype=torch.bool), r"linear takes a mask of shape \(2, 6\), not \(2, 6, 6\)"),
        (torch.ones(2, 6), "mask must be boolean"),
        (torch.ones(2, 6, dtype=torch.int64), "mask must be boolean"),
    ],
)
def test_a_mask_that_does_not_match_is_refused(mask: torch.Tensor, message: str) -> None:
    heads = MultiHeadAttention(8, 2, build("linear", num_heads=2, head_dim=4))
    x = torch.randn(2, 6, 8)
    with pytest.raises(ValueError, match=message):
        heads(x, x, x, mask)
    with pytest.raises(ValueError, match="query_mask"):
        heads(x, x, x, None, mask)


def test_the_mechanism_is_a_submodule() -> None:
    class Weighted(type(build("mean", num_heads=1, head_dim=1))):  # type: ignore[misc]
        pass

    attention: Attention = Weighted(num_heads=2, head_dim=4)
    attention.register_parameter("scale", torch.nn.Parameter(torch.ones(1)))
    heads = MultiHeadAttention(8, 2, attention)
    assert "attention.scale" in dict(heads.named_parameters())
    assert not heads.eval().attention.training
