from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from forecast.model.informer import Informer
from forecast.model.presets import Sizes
from tests.attention.cases import FILES, load
from tests.support.examples import OPTIONS, make_inputs, make_model

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=96, horizon=6)
MECHANISMS = [load(file) for file in FILES]


@contextmanager
def stored_elements() -> Iterator[list[int]]:
    """Count the elements that a forward pass stores for the backward pass."""
    total = [0]

    def count(tensor: Tensor) -> Tensor:
        total[0] += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        yield total


def gradients_and_stored(network: Informer, checkpointing: bool) -> tuple[dict[str, Tensor], int]:
    network.checkpoint_activations(checkpointing)
    network.zero_grad()
    torch.manual_seed(3)
    with stored_elements() as total:
        forecast = network(*make_inputs(SIZES))
    forecast.square().sum().backward()
    return {name: each.grad.clone() for name, each in network.named_parameters() if each.grad is not None}, total[0]


@pytest.mark.parametrize("preset", OPTIONS)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: str(mechanism["name"]))
def test_activation_checkpointing_keeps_gradients_and_stores_less(preset: str, mechanism: dict[str, object]) -> None:
    if preset == "informer" and mechanism["name"] == "linformer":
        pytest.skip("it cannot be causal")
    network = make_model(preset, SIZES, mechanism, dropout=0.2).train()
    expected, usual = gradients_and_stored(network, False)
    gradients, less = gradients_and_stored(network, True)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert torch.equal(gradient, expected[name]), name
    assert less < usual / 3


def test_activation_checkpointing_keeps_the_forecast_without_gradients() -> None:
    network = make_model("patch_informer", SIZES)
    network.checkpoint_activations(True)
    with torch.no_grad():
        forecast = network(*make_inputs(SIZES))
    network.checkpoint_activations(False)
    assert torch.equal(forecast, network(*make_inputs(SIZES)))
