import pytest
import torch
from torch import Tensor

from forecast.model import encoder
from forecast.model.encoder import Distilling


def output_and_gradients(layer: Distilling, tokens: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    output = layer(tokens)
    return output.detach(), *torch.autograd.grad(output, [tokens, *layer.parameters()], weights)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("training", [False, True])
def test_the_kernel_equals_the_layers_of_torch(length: int, training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = Distilling(5).double().train(training)
    for parameter in layer.norm.parameters():
        torch.nn.init.normal_(parameter)
    start = {name: each.clone() for name, each in layer.state_dict().items()}
    tokens = torch.randn(3, length, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, Distilling.output_length(length), 5, dtype=torch.float64)
    actual = output_and_gradients(layer, tokens, weights)
    state = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    layer.load_state_dict(start)
    monkeypatch.setattr(encoder, "use_cpu_kernels", lambda _: False)
    expected = output_and_gradients(layer, tokens, weights)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(state, dict(layer.state_dict()))


def test_the_output_is_contiguous() -> None:
    assert Distilling(4)(torch.randn(2, 6, 4)).is_contiguous()
