"""The claims of the peers benchmark about the other model are true."""

import math

import pytest
import torch
from torch import nn

from benchmarks.models import Task, parse_preset
from benchmarks.peers import build_theirs, configuration_of, their_peer
from forecast.common.errors import InputError
from forecast.training.steps import Peer, inference, training_step
from tests.benchmark.made import CPU

FACTOR = 2
TASK = Task(context_length=96, horizon=24, batch=2, channels=7)
PRESET = parse_preset("informer:start_length=0,d_model=16,num_heads=2,d_ff=32,dropout=0.0")


@pytest.fixture(scope="module")
def peer() -> Peer:
    pytest.importorskip("transformers")
    return their_peer(build_theirs(configuration_of(PRESET, FACTOR, TASK)), TASK.draw(CPU))


def test_sizes_that_their_model_cannot_have_are_refused() -> None:
    with pytest.raises(InputError, match="transformers has only the paper's model: choose informer"):
        configuration_of(parse_preset("patch_informer"), FACTOR, TASK)
    with pytest.raises(InputError, match="leave head_dim null"):
        configuration_of(parse_preset("informer:head_dim=8"), FACTOR, TASK)


def test_their_model_has_the_requested_sizes(peer: Peer) -> None:
    layers = [module for module in peer.model.modules() if isinstance(module, nn.Linear)]
    widths = {(layer.in_features, layer.out_features) for layer in layers}
    assert {(16, 16), (16, 32), (32, 16)} <= widths
    assert sum((layer.in_features, layer.out_features) == (16, 32) for layer in layers) == 3
    # per series the previous value and the logarithms of location and scale, plus the known inputs
    assert (7 * (1 + 2) + 6, 16) in widths
    assert sum(isinstance(module, nn.MaxPool1d) for module in peer.model.modules()) == 1


def test_their_forecast_has_two_parameters_per_step_and_series(peer: Peer) -> None:
    location, scale = inference(peer, "fp32")()  # type: ignore[misc]
    assert location.shape == scale.shape == (2, 24, 7)
    assert (scale > 0).all()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_their_step_trains(peer: Peer, precision: str) -> None:
    step = training_step(peer, precision)
    before = [parameter.clone() for parameter in peer.model.parameters()]
    assert math.isfinite(float(step()))  # type: ignore[arg-type]
    after = list(peer.model.parameters())
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_their_forward_decodes_one_step_without_the_future(peer: Peer) -> None:
    drawn = TASK.draw(CPU)
    peer.model.eval()
    with torch.no_grad():
        output = peer.model.model(  # type: ignore[operator, union-attr]
            past_values=drawn.values[:, :97],
            past_time_features=drawn.known[:, :97],
            past_observed_mask=torch.ones_like(drawn.values[:, :97]),
        )
    assert output.last_hidden_state.shape[1] == 1


def test_their_model_samples_all_keys_and_has_logarithmically_many_active_queries(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[int, int]] = []
    chosen: list[int] = []
    randint, topk = torch.randint, torch.Tensor.topk

    def draw(low: int, high: int, size: tuple[int, ...]) -> torch.Tensor:
        drawn.append((high, size[0]))
        return randint(low, high, size)

    def choose(tensor: torch.Tensor, count: int, **options: bool) -> object:
        chosen.append(count)
        return topk(tensor, count, **options)

    monkeypatch.setattr(torch, "randint", draw)
    monkeypatch.setattr(torch.Tensor, "topk", choose)
    inference(peer, "fp32")()
    lengths = [96, 48, 24]  # two encoder layers with distilling between them, the decoder
    assert drawn == [(length, length) for length in lengths]
    assert chosen == [FACTOR * math.ceil(math.log1p(length)) for length in lengths]


def test_their_decoder_reads_the_previous_step_and_not_the_target(peer: Peer) -> None:
    drawn = TASK.draw(CPU)
    changed = TASK.draw(CPU)
    changed.values[:, -1] += 100.0  # the last step of the horizon
    seen = []
    for windows in (drawn, changed):
        inputs, *_ = peer.model.model.create_network_inputs(  # type: ignore[operator, union-attr]
            past_values=windows.values[:, :97],
            past_time_features=windows.known[:, :97],
            future_values=windows.future,
            future_time_features=windows.future_known,
        )
        seen.append(inputs)
    assert torch.equal(*seen)
