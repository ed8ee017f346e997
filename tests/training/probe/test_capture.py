"""A pass through a whole network: every attention is seen, and nothing is left changed."""

import pytest
import torch

from forecast.data.windows import Batch
from forecast.model.presets import Sizes
from forecast.training.probe.capture import capture_calls, places
from forecast.training.probe.layer import probe
from tests.support.examples import make_model, make_windows

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=16, horizon=8)
PLACES = ["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"]


def batch() -> Batch:
    return make_windows(60, context_length=16, horizon=8).batch(torch.tensor([0, 9, 20]))


@pytest.mark.parametrize("preset", ["patch_informer", "informer"])
def test_every_attention_is_seen_by_its_place_with_its_lengths(preset: str) -> None:
    found = probe(make_model(preset, SIZES, {"name": "linear"}), batch())
    assert list(found) == PLACES
    assert [each.mechanism for each in found.values()] == ["linear", "linear", "linear", "full"]
    # patches of 4: those of a target and of the covariate beside it; steps, the second layer's halved
    patches = [(8, 8), (8, 8), (2, 2), (2, 8)]
    steps = [(16, 16), (8, 8), (12, 12), (12, 8)]
    assert [(each.queries, each.keys) for each in found.values()] == (patches if preset == "patch_informer" else steps)
    sequences = {each.sequences_seen for each in found.values()}
    assert sequences == {6 if preset == "patch_informer" else 3}


@pytest.mark.parametrize("preset", ["patch_informer", "informer"])
def test_modes_random_state_and_gradients_are_those_of_before(preset: str) -> None:
    network = make_model(
        preset, SIZES, {"name": "probsparse", "factor": 1, "sampling": "shared", "measure": "published"}, dropout=0.5
    )
    network.train()
    network.encoder.layers[1].eval()
    modes = [module.training for module in network.modules()]
    state, buffers = torch.get_rng_state(), {name: each.clone() for name, each in network.named_buffers()}

    first, again = probe(network, batch()), probe(network, batch())
    capture_calls(network, batch(), lambda *_: torch.rand(()))
    assert first == again
    assert [module.training for module in network.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(buffers[name], each) for name, each in network.named_buffers())


def test_under_bf16_the_look_is_in_float32() -> None:
    network = make_model("informer", SIZES, {"name": "linear"})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = probe(network, batch())
    assert under == probe(network, batch())
    assert max(under["decoder.0.cross"].distance) < 1e-5


def test_no_hook_is_left_after_a_look_that_fails() -> None:
    network = make_model("patch_informer", SIZES)

    def fail(*_: object) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        capture_calls(network, batch(), fail)
    assert not any(each._forward_hooks for each in places(network).values())
    assert not network.training
