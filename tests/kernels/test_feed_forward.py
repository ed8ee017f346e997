"""The kernel compared with the plain formula; with dropout, compared with finite differences."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from forecast.kernels import feed_forward
from forecast.kernels.dropout import scale_of
from forecast.model.encoder import FeedForward

Parts = tuple[FeedForward, nn.LayerNorm, Tensor]


def parts(dropout: float = 0.0, d_ff: int = 10) -> Parts:
    torch.manual_seed(0)
    transform, norm = FeedForward(6, d_ff, dropout).double(), nn.LayerNorm(6).double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return transform, norm, torch.randn(3, 7, 6, dtype=torch.float64, requires_grad=True)


def by_kernel(transform: FeedForward, norm: nn.LayerNorm, tokens: Tensor, *, adds_normed: bool) -> Tensor:
    p = transform[4].p if transform.training else 0.0
    return feed_forward.transform(tokens, norm, transform[0], transform[3], p, adds_normed=adds_normed)


def plainly(transform: FeedForward, norm: nn.LayerNorm, tokens: Tensor, *, adds_normed: bool) -> Tensor:
    normed = norm(tokens)
    added: Tensor = (normed if adds_normed else tokens) + transform(normed)
    return added


@pytest.mark.parametrize("rows", [4, 8, 20, 100])
@pytest.mark.parametrize("adds_normed", [False, True])
def test_output_and_gradients_equal_those_of_the_plain_formula(
    rows: int, adds_normed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_forward, "CHUNK_ELEMENTS", 10 * rows)
    transform, norm, tokens = parts()
    weights = [tokens, *norm.parameters(), *transform.parameters()]
    expected = plainly(transform, norm, tokens, adds_normed=adds_normed)
    output = by_kernel(transform, norm, tokens, adds_normed=adds_normed)
    grad_output = torch.randn_like(tokens)
    torch.testing.assert_close(output, expected)
    actual = torch.autograd.grad(output, weights, grad_output)
    torch.testing.assert_close(actual, torch.autograd.grad(expected, weights, grad_output))


def test_chunks_draw_the_random_numbers_of_the_plain_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled model, which uses the plain form, learns the same."""
    monkeypatch.setattr(feed_forward, "CHUNK_ELEMENTS", 40)
    transform, norm, tokens = parts(dropout=0.4)
    results = []
    for way in (by_kernel, plainly):
        torch.manual_seed(1)
        output = way(transform, norm, tokens, adds_normed=True)
        results.append([output, *torch.autograd.grad(output.square().sum(), [tokens, *transform.parameters()])])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("adds_normed", [False, True])
def test_gradients_with_dropout_match_finite_differences(adds_normed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_forward, "CHUNK_ELEMENTS", 40)
    transform, norm, tokens = parts(dropout=0.4)

    def again(tokens: Tensor, *_: Tensor) -> Tensor:
        torch.manual_seed(1)
        return by_kernel(transform, norm, tokens, adds_normed=adds_normed)

    assert torch.autograd.gradcheck(again, (tokens[:1, :6], *norm.parameters(), *transform.parameters()))


def test_both_dropouts_have_their_probability_and_keep_the_mean() -> None:
    transform, norm, _ = parts(dropout=0.3, d_ff=6)
    with torch.no_grad():
        transform[0].weight.zero_()
        transform[0].bias.fill_(1.0)
        transform[3].weight.copy_(torch.eye(6))
        transform[3].bias.zero_()
    tokens = torch.zeros(20_000, 6, dtype=torch.float64)
    added = by_kernel(transform, norm, tokens, adds_normed=False).detach()
    kept = added[added > 0]
    assert kept.unique() / nn.functional.gelu(torch.ones(1, dtype=torch.float64)) == pytest.approx(scale_of(0.3) ** 2)
    assert len(kept) / added.numel() == pytest.approx(0.7**2, abs=0.01)


def test_evaluation_drops_nothing_and_draws_no_random_numbers() -> None:
    transform, norm, tokens = parts(dropout=0.5)
    transform.eval()
    state = torch.get_rng_state()
    output = by_kernel(transform, norm, tokens, adds_normed=False)
    torch.testing.assert_close(output, tokens + transform(norm(tokens)))
    assert torch.equal(torch.get_rng_state(), state)


def stored_by(call: Callable[[], object]) -> int:
    """Return the number of elements stored for the gradient, each counted once."""
    storages: dict[int, int] = {}

    def look(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(look, lambda tensor: tensor):
        call()
    return sum(storages.values())


def test_only_tokens_and_the_input_of_the_gelu_are_stored() -> None:
    transform, norm, tokens = parts(d_ff=60)
    weights = sum(each.numel() for each in (*norm.parameters(), transform[0].weight, transform[3].weight))
    stored = stored_by(lambda: by_kernel(transform, norm, tokens, adds_normed=True))
    assert stored == tokens.numel() + 21 * 60 + weights
