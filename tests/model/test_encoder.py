import pytest
import torch

from forecast.attention import build
from forecast.attention._multi_head import MultiHeadAttention
from forecast.model import decoder, encoder
from forecast.model.decoder import DecoderLayer
from forecast.model.encoder import Distilling, EncoderLayer, FeedForward, Residual


@pytest.mark.parametrize("length", range(1, 21))
def test_distilling_returns_output_length_tokens(length: int) -> None:
    distilled = Distilling(4).eval()(torch.randn(2, length, 4))
    assert distilled.shape == (2, Distilling.output_length(length), 4)
    assert Distilling.output_length(length) == -(-length // 2)


def test_distilling_does_not_connect_the_newest_and_the_oldest_step() -> None:
    torch.manual_seed(0)
    distilling = Distilling(4).eval()
    tokens = torch.randn(1, 16, 4)
    other = tokens.clone()
    other[:, 0] += 1
    moved = (distilling(tokens) != distilling(other)).any(2)[0].nonzero().flatten().tolist()
    assert moved
    assert max(moved) <= 1
    other = tokens.clone()
    other[:, -1] += 1
    moved = (distilling(tokens) != distilling(other)).any(2)[0].nonzero().flatten().tolist()
    assert moved
    assert min(moved) >= 7


def test_distilling_in_evaluation_treats_batch_rows_independently() -> None:
    torch.manual_seed(0)
    distilling = Distilling(4).eval()
    tokens = torch.randn(3, 9, 4)
    torch.testing.assert_close(distilling(tokens)[1:2], distilling(tokens[1:2]))


def test_a_residual_normalizes_before_the_sublayer_or_after_the_sum() -> None:
    tokens = torch.randn(2, 5, 8)

    def sublayer(x: torch.Tensor) -> torch.Tensor:
        return 3 * x + 1

    norm = torch.nn.functional.layer_norm
    before = Residual(8, 0.0, norm_first=True)(tokens, sublayer)
    after = Residual(8, 0.0, norm_first=False)(tokens, sublayer)
    torch.testing.assert_close(before, tokens + sublayer(norm(tokens, (8,))))
    torch.testing.assert_close(after, norm(tokens + sublayer(tokens), (8,)))


def test_a_feed_forward_map_treats_tokens_independently() -> None:
    feed_forward = FeedForward(6, 12, 0.0)
    tokens = torch.randn(2, 5, 6)
    torch.testing.assert_close(feed_forward(tokens)[:, 3], feed_forward(tokens[:, 3]))


def layer(kind: str, *, norm_first: bool) -> torch.nn.Module:
    torch.manual_seed(0)
    one, other = (MultiHeadAttention(8, 2, build("linear", num_heads=2, head_dim=4)) for _ in range(2))
    sizes = {"d_model": 8, "d_ff": 12, "dropout": 0.3, "norm_first": norm_first}
    built = EncoderLayer(one, **sizes) if kind == "encoder" else DecoderLayer(one, other, **sizes)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return built.double()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_layer_with_its_kernel_equals_the_plain_layer(
    kind: str, norm_first: bool, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = layer(kind, norm_first=norm_first).train(training)
    generator = torch.Generator().manual_seed(1)
    tokens = [torch.randn(2, length, 8, dtype=torch.float64, generator=generator) for length in (5, 7)]
    inputs = [each.requires_grad_() for each in tokens[: 1 if kind == "encoder" else 2]]
    results = []
    for kernels in (True, False):
        for module in (encoder, decoder):
            monkeypatch.setattr(module, "use_cpu_kernels", lambda _, kernels=kernels: kernels)
        torch.manual_seed(2)
        output = built(*inputs)
        weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        gradients = torch.autograd.grad((output * weights).sum(), [*inputs, *built.parameters()])
        results.append([output.detach(), *gradients])
    torch.testing.assert_close(*results)
