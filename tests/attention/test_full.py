import pytest
import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention import build, full
from tests.attention.cases import gradients, prefix, tensors


def built(implementation: str, causal: bool = False) -> torch.nn.Module:
    return build("full", num_heads=2, head_dim=8, causal=causal, implementation=implementation)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "by row", "by query"])
def test_fused_and_explicit_agree(causal: bool, kind: str) -> None:
    inputs = tensors(length=33)
    by_query = torch.rand(2, 33, 33, generator=torch.Generator().manual_seed(0)) < 0.3
    by_query[1, 5] = False
    mask = {"none": None, "by row": prefix([33, 8], 33), "by query": by_query}[kind]
    outputs = [built(implementation, causal)(*inputs, mask) for implementation in ("fused", "explicit")]
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*(gradients(output, *inputs) for output in outputs))


def test_each_implementation_takes_its_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Tensor:
        raise RuntimeError("fused kernel called")

    monkeypatch.setattr(full.functional, "scaled_dot_product_attention", refuse)
    built("explicit")(*tensors())
    with pytest.raises(RuntimeError, match="fused kernel called"):
        built("fused")(*tensors())


def test_no_kernel_gets_a_row_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = torch.nn.functional.scaled_dot_product_attention
    masks = []

    def recorded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **named: object) -> Tensor:
        masks.append(mask)
        return fused(query, key, value, mask, **named)

    monkeypatch.setattr(full.functional, "scaled_dot_product_attention", recorded)
    mask = prefix([0, 3], 9)
    built("fused")(*tensors(), mask)
    built("fused", causal=True)(*tensors(), ~mask)
    built("fused")(*tensors(), mask[:, None].expand(2, 9, 9) & torch.eye(9, dtype=torch.bool))
    assert all(mask.any(dim=-1).all() for mask in masks)
    assert len(masks) == 3


@pytest.mark.parametrize("implementation", ["fused", "explicit"])
def test_masked_softmax_accepts_lengths_per_row_or_per_query(implementation: str) -> None:
    query, key, value = tensors(length=3, key_length=5)
    lengths = torch.tensor([[1, 5, 0], [4, 2, 3]])
    mask = torch.arange(5) < lengths[..., None]
    output = built(implementation)(query, key, value, mask)
    for row, query_number in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        valid = int(lengths[row, query_number])
        scores = query[row, :, query_number, None] @ key[row, :, :valid].transpose(-1, -2) / 8**0.5
        expected = (scores.softmax(dim=-1) @ value[row, :, :valid])[:, 0]
        torch.testing.assert_close(output[row, :, query_number], expected)
    by_row = built(implementation)(query, key, value, prefix([2, 5], 5))
    torch.testing.assert_close(by_row[:1], built(implementation)(query[:1], key[:1, :, :2], value[:1, :, :2]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_batches_too_large_for_a_kernel_are_split(monkeypatch: pytest.MonkeyPatch, causal: bool, masked: bool) -> None:
    inputs = tensors(batch=5, length=6)
    mask = prefix([6, 3, 0, 5, 1], 6) if masked else None
    whole = built("fused", causal)(*inputs, mask)
    fused = torch.nn.functional.scaled_dot_product_attention
    sizes = []

    def counted(query: Tensor, *rest: object, **named: object) -> Tensor:
        sizes.append(len(query))
        return fused(query, *rest, **named)

    monkeypatch.setattr(full, "MAX_BATCH_HEADS", 5)
    monkeypatch.setattr(full, "LIMITED_DEVICES", {"cpu"})
    monkeypatch.setattr(full.functional, "scaled_dot_product_attention", counted)
    torch.testing.assert_close(built("fused", causal)(*inputs, mask), whole)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("implementation", ["fused", "explicit"])
def test_keys_of_padded_queries_alone_reach_neither_output_nor_gradient(implementation: str) -> None:
    query, key, value = tensors(length=6)
    query_mask = prefix([6, 4], 6)
    mask = torch.ones(6, 6, dtype=torch.bool).tril().expand(2, 6, 6)  # one a query, as lengths 1 to 6 make it
    poisoned = [x.detach().clone() for x in (query, key, value)]
    for x in poisoned:
        x[1, :, 4:] = torch.nan
        x.requires_grad_()
    attention = built(implementation)
    output = attention(*poisoned, mask, query_mask)
    torch.testing.assert_close(output, attention(query, key, value, mask, query_mask), rtol=0, atol=0)
    assert all(gradient.isfinite().all() for gradient in gradients(output, *poisoned))
    assert attention.attention_map(*poisoned[:2], mask, query_mask).isfinite().all()


@pytest.mark.parametrize(
    ("threads", "keys", "dtype", "causal", "plain"),
    [
        (2, full.FEW_KEYS, torch.float32, False, True),
        (2, full.FEW_KEYS + 1, torch.float32, False, False),
        (1, full.FEW_KEYS, torch.float32, False, False),
        (2, full.FEW_KEYS, torch.bfloat16, False, False),
        (2, full.FEW_KEYS, torch.float32, True, False),
    ],
)
def test_few_keys_take_plain_products_on_several_threads(
    threads: int, keys: int, dtype: torch.dtype, causal: bool, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full, "has_bfloat16_products", lambda: True)  # without them, bfloat16 is computed in float32
    inputs = [tensor.to(dtype).detach().requires_grad_() for tensor in tensors(length=keys)]
    expected = built("fused", causal)(*inputs)
    fused, calls = functional.scaled_dot_product_attention, []
    monkeypatch.setattr(full.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(
        full.functional, "scaled_dot_product_attention", lambda *given, **how: calls.append(1) or fused(*given, **how)
    )
    output = built("fused", causal)(*inputs)
    assert bool(calls) == (not plain)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs))


def test_a_mask_and_compiled_graphs_keep_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full.torch, "get_num_threads", lambda: 2)
    kernel = functional.scaled_dot_product_attention
    calls = []
    monkeypatch.setattr(
        full.functional, "scaled_dot_product_attention", lambda *given, **how: calls.append(1) or kernel(*given, **how)
    )
    query, key, value = tensors(length=8)
    full.fused_softmax(query, key, value, torch.ones(1, 1, 1, 8, dtype=torch.bool))
    assert len(calls) == 1
    monkeypatch.setattr(full.torch.compiler, "is_compiling", lambda: True)
    full.fused_softmax(query, key, value, None)
    assert len(calls) == 2
