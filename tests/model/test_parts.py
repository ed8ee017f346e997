"""Parts of the model in a PyTorch model of one's own."""

import doctest
import subprocess
import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from forecast import attention
from forecast.common.errors import InputError
from forecast.model import LinearPath, parts
from forecast.model.parts import encoder_layer, informer
from tests.attention.cases import CASES


@pytest.mark.parametrize("module", [attention, parts])
def test_the_examples_of_the_docstrings_run(module: ModuleType) -> None:
    result = doctest.testmod(module, extraglobs={"torch": torch})
    assert result.failed == 0
    assert result.attempted


@pytest.mark.parametrize("name", sorted({case.name for case in CASES}))
def test_every_mechanism_is_a_layer_with_the_arguments_of_its_file(name: str) -> None:
    layer = attention.build(name, d_model=16, num_heads=2, max_key_length=12)
    given = attention.build(name, num_heads=2, head_dim=8, max_key_length=12, **attention.defaults(name))
    assert repr(layer.attention) == repr(given)
    tokens = torch.randn(3, 12, 16)
    assert encoder_layer(name, d_model=16, max_key_length=12)(tokens).shape == layer(tokens, tokens, tokens).shape


def test_parts_learn_in_a_model_of_ones_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 16), encoder_layer("probsparse", d_model=16, factor=3), nn.Linear(16, 1))
    before = [weight.clone() for weight in model.parameters()]
    model(torch.randn(2, 24, 1)).square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    changed = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert sum(changed) >= len(changed) - 1  # a bias of the keys has no effect


def test_a_linear_path_without_known_inputs_needs_none() -> None:
    past = torch.randn(2, 48, 3)
    torch.testing.assert_close(LinearPath(48, 12, num_targets=3)(past), past.mean(1, keepdim=True).expand(2, 12, 3))


@pytest.mark.parametrize("model", ["patch_informer"])
def test_an_informer_has_the_options_of_its_file(model: str) -> None:
    network = informer(48, 12, num_targets=2, num_known=1, model=model, d_model=16, num_heads=2)
    forecast = network(torch.randn(2, 48, 2), torch.randn(2, 48, 1), torch.randn(2, 12, 1))
    assert forecast.shape == (2, 12, 2)
    assert len(network.encoder.layers) == 2


def test_what_is_missing_or_wrong_is_one_line() -> None:
    with pytest.raises(InputError, match="model 'x' does not exist: choose one of patch_informer"):
        informer(48, 12, model="x")
    with pytest.raises(InputError, match="attention=full: give d_model for a layer, or head_dim for the mechanism"):
        attention.build("full", num_heads=4)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="d_model 10 is not divisible by num_heads 4: set head_dim"):
        attention.build("full", d_model=10, num_heads=4)
    with pytest.raises(InputError, match="attention=nope does not exist"):
        encoder_layer("nope")


def test_the_parts_are_attributes_of_the_package() -> None:
    code = "import forecast; print(forecast.attention.build.__name__, forecast.model.encoder_layer.__name__)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["build", "encoder_layer"]
