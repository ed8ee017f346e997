"""The sparse kernel compared with the usual form through all keys and values."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from forecast.attention import _few_queries as few_queries
from forecast.attention import build
from forecast.attention._multi_head import MultiHeadAttention

ARGUMENTS = {"factor": 2, "sampling": "shared", "measure": "sampled_mean"}


def layer(causal: bool = False, **changes: object) -> MultiHeadAttention:
    torch.manual_seed(0)
    attention = build("probsparse", num_heads=3, head_dim=16, causal=causal, **{**ARGUMENTS, **changes})
    heads = MultiHeadAttention(10, 3, attention, head_dim=16).double()
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return heads.eval()


def output_and_gradients(heads: MultiHeadAttention, tokens: Tensor) -> tuple[Tensor, ...]:
    torch.manual_seed(3)
    output = heads(tokens, tokens, tokens)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    gradients = torch.autograd.grad((output * weights).sum(), [tokens, *heads.parameters()])
    return output.detach(), *gradients


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often the sparse kernel is used."""
    used: list[int] = []
    attend: Callable[..., Tensor] = few_queries.attend_few

    def counted(*arguments: object) -> Tensor:
        used.append(1)
        return attend(*arguments)

    monkeypatch.setattr(few_queries, "attend_few", counted)
    return used


@pytest.mark.parametrize("measure", ["sampled_mean", "published"])
@pytest.mark.parametrize("training", [False, True])
def test_output_and_gradients_equal_those_of_the_usual_form(
    measure: str, training: bool, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = layer(measure=measure).train(training)
    tokens = torch.randn(2, 61, 10, dtype=torch.float64, requires_grad=True)
    actual = output_and_gradients(heads, tokens)
    assert len(calls) == 1
    monkeypatch.setattr(few_queries, "is_cheaper", lambda *_: False)
    torch.testing.assert_close(actual, output_and_gradients(heads, tokens))
    assert len(calls) == 1


def test_the_compiled_form_gives_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    heads, tokens = layer(), torch.randn(2, 61, 10, dtype=torch.float64, requires_grad=True)
    expected = output_and_gradients(heads, tokens)
    monkeypatch.setattr("torch.compiler.is_compiling", lambda: True)
    torch.testing.assert_close(output_and_gradients(heads, tokens), expected)


def test_only_long_unmasked_self_attention_uses_the_kernel(calls: list[int]) -> None:
    short, tokens = torch.randn(2, 5, 10, dtype=torch.float64), torch.randn(2, 61, 10, dtype=torch.float64)
    mask = torch.ones(2, 61, dtype=torch.bool)
    layer()(short, short, short)
    layer()(tokens, tokens.clone(), tokens)
    layer()(tokens, tokens, tokens, mask)
    layer()(tokens, tokens, tokens, None, mask)
    layer(causal=True)(tokens, tokens, tokens)
    layer(sampling="per_query")(tokens, tokens, tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        single = layer().float()
        single(tokens.float(), *[tokens.float()] * 2)
    assert calls == []


def test_only_softmax_weights_are_stored_for_the_gradient() -> None:
    heads, tokens = layer(), torch.randn(2, 61, 10, dtype=torch.float64, requires_grad=True)
    stored: dict[int, int] = {}

    def look(tensor: Tensor) -> Tensor:
        stored[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(look, lambda tensor: tensor):
        heads(tokens, tokens, tokens)
    few = 2 * 3 * 10  # B·H·u, u = 2 ⌈ln 61⌉
    assert sum(stored.values()) == tokens.numel() + few + few * 61 + sum(each.numel() for each in heads.parameters())
