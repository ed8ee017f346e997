"""A probe of a network: every attention is measured, and the network is not changed."""

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
def test_every_attention_is_measured_at_its_place(preset: str) -> None:
    findings = probe(make_model(preset, SIZES, {"name": "linear"}), batch())
    assert list(findings) == PLACES
    assert [layer.mechanism for layer in findings.values()] == ["linear", "linear", "linear", "full"]
    # patches of 4, for a target and the covariate; steps, halved for the second layer
    patches = [(8, 8), (8, 8), (2, 2), (2, 8)]
    steps = [(16, 16), (8, 8), (12, 12), (12, 8)]
    assert [(layer.queries, layer.keys) for layer in findings.values()] == (
        patches if preset == "patch_informer" else steps
    )
    sequences = {layer.sequences_seen for layer in findings.values()}
    assert sequences == {6 if preset == "patch_informer" else 3}


@pytest.mark.parametrize("preset", ["patch_informer", "informer"])
def test_a_probe_restores_modes_and_random_state_and_leaves_no_gradients(preset: str) -> None:
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


def test_a_probe_under_bf16_autocast_is_in_float32() -> None:
    network = make_model("informer", SIZES, {"name": "linear"})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = probe(network, batch())
    assert result == probe(network, batch())
    assert max(result["decoder.0.cross"].distance) < 1e-5


def test_a_failed_probe_leaves_no_hooks() -> None:
    network = make_model("patch_informer", SIZES)

    def fail(*_: object) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        capture_calls(network, batch(), fail)
    assert not any(each._forward_hooks or each.must_be_called for each in places(network).values())
    assert not network.training
