"""Steps without a measured value: with one token per step, attention does not read them."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention import _few_queries as few_queries
from forecast.attention import find
from forecast.attention.base import Attention
from forecast.model import encoder
from forecast.model.encoder import Distilling
from forecast.model.informer import Informer
from forecast.model.presets import Sizes
from tests.attention.cases import CASES, FILES, load
from tests.support.covering import covering
from tests.support.examples import FULL, make_inputs, make_model

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=24, horizon=6)
START = 5
MECHANISMS = [pytest.param(load(file), id=file.stem) for file in FILES]
FORMS = [pytest.param(case.arguments, id=case.label) for case in CASES if not case.causal]
"""Every mechanism with several values of its arguments."""

Gradients = dict[str, Tensor]


def gaps() -> Tensor:
    """Return which values were measured: gaps at the start, inside and at the end, some of them in one channel."""
    observed = torch.ones(3, 24, 3, dtype=torch.bool)
    observed[0, :7] = observed[0, 12:15] = observed[0, -2:] = False
    observed[1, ::3] = False
    observed[2, 3:9, 1] = observed[:, -4, 0] = False
    return observed


def model_of(mechanism: dict[str, object] = FULL, **changes: object) -> Informer:
    cross = mechanism if find(str(mechanism["name"])).cross else FULL
    options = {"start_length": START, "encoder_layers": 3, **changes}
    return make_model("informer", SIZES, mechanism, cross=cross, **options)


def inputs_with(hidden: float, observed: Tensor) -> tuple[Tensor, ...]:
    """Return inputs whose unobserved values, and known inputs of the hidden steps, are replaced by a number."""
    past, past_known, future_known = make_inputs(SIZES, batch=3)
    steps = observed.any(2, keepdim=True)
    return torch.where(observed, past, hidden), torch.where(steps, past_known, hidden), future_known, observed


def buffers(network: Informer) -> dict[str, Tensor]:
    return {name: each.clone() for name, each in network.named_buffers()}


def step(network: Informer, *inputs: Tensor | None) -> tuple[Tensor, Gradients]:
    """Return forecast and gradients of a step whose randomness is that of seed 3."""
    torch.manual_seed(3)
    network.zero_grad()
    forecast = network(*inputs)
    (forecast * torch.linspace(-1, 1, forecast.numel()).view_as(forecast)).sum().backward()
    gradients = {name: each.grad.clone() for name, each in network.named_parameters() if each.grad is not None}
    return forecast.detach(), gradients


@pytest.mark.parametrize(
    ("mechanism", "changes", "training"),
    covering(
        [case.arguments for case in CASES if not case.causal],
        [{}, {"distil": False}, {"start_length": 0}],
        [False, True],
        every=3,
    ),
    ids=str,
)
def test_hidden_steps_reach_neither_forecast_nor_gradient(
    mechanism: dict[str, object], changes: dict[str, object], training: bool
) -> None:
    """Neither values nor known inputs of a hidden step count, not even where distilling mixes steps."""
    network = model_of(mechanism, dropout=0.2, **changes).train(training)
    state = {name: each.clone() for name, each in network.state_dict().items()}
    results = []
    for hidden in (0.0, 40.0):
        network.load_state_dict(state)
        forecast, gradients = step(network, *inputs_with(hidden, gaps()))
        results.append((forecast, gradients, buffers(network)))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    assert results[0][0].isfinite().all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_visible_step_changes_the_forecast(mechanism: dict[str, object], place: int) -> None:
    """A step with a value in one channel is visible, in the encoder alone or in the start token too."""
    network, observed = model_of(mechanism), gaps()
    inputs = inputs_with(0.0, observed)
    for at in (9, -4):
        other = [tensor.clone() for tensor in inputs]
        other[place][0, at] += 5
        assert (network(*other) - network(*inputs))[0].abs().max() > 1e-5


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("mechanism", FORMS)
def test_a_fully_observed_window_is_forecast_as_without_a_mask(mechanism: dict[str, object], training: bool) -> None:
    results = []
    for observed in (None, torch.ones_like(gaps())):
        network = model_of(mechanism, dropout=0.2).train(training)
        results.append((*step(network, *make_inputs(SIZES, batch=3), observed), buffers(network)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def calls(network: Informer, *inputs: Tensor | None) -> list[tuple[Tensor | None, Tensor | None]]:
    """Return key mask and query mask of each call of a mechanism, in order."""
    received = []

    def note(module: Attention, arguments: tuple[Any, ...]) -> None:
        received.append(arguments[3:5])

    handles = [each.register_forward_pre_hook(note) for each in network.modules() if isinstance(each, Attention)]
    network(*inputs)
    for handle in handles:
        handle.remove()
    return received


def test_attention_of_encoder_and_decoder_gets_the_masks_of_its_tokens() -> None:
    observed = gaps()
    received = calls(model_of(decoder_layers=2), *inputs_with(0.0, observed))
    steps = observed.any(2)
    halves = [steps, pooled(steps), pooled(pooled(steps))]
    queries = torch.cat([steps[:, -START:], torch.ones(3, 6, dtype=torch.bool)], 1)
    decoder = [(queries, queries), (halves[-1], queries)]
    expected = [*((mask, mask) for mask in halves), *decoder, *decoder]
    assert len(received) == len(expected)
    for actual, wanted in zip(received, expected, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(actual, wanted, strict=True))


def test_without_a_mask_no_attention_gets_one_and_the_kernel_for_few_queries_applies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = model_of({"name": "probsparse", "factor": 1, "sampling": "shared", "measure": "sampled_mean"})
    attended = []
    monkeypatch.setattr(
        few_queries, "attend_few", lambda *given, call=few_queries.attend_few: attended.append(0) or call(*given)
    )
    monkeypatch.setattr(few_queries, "is_cheaper", lambda *_: True)
    network(*make_inputs(SIZES, batch=3))
    assert len(attended) == 3  # the layers of the encoder; the decoder is causal
    network(*inputs_with(0.0, gaps()))
    assert len(attended) == 3
    assert calls(model_of(), *make_inputs(SIZES, batch=3)) == [(None, None)] * 5


@pytest.mark.parametrize("channels", ["independent", "mixed"])
def test_patches_have_no_mask(channels: str) -> None:
    """A patch fills its missing values with the window's mean, and its known inputs count."""
    network, observed = make_model("patch_informer", SIZES, channels=channels), gaps()
    assert set(calls(network, *inputs_with(0.0, observed))) == {(None, None)}
    zeros, ones = inputs_with(0.0, observed), inputs_with(1.0, observed)
    assert torch.equal(network(ones[0], *zeros[1:]), network(*zeros))
    assert (network(*ones) - network(*zeros)).abs().max() > 1e-3


@pytest.mark.parametrize("mechanism", FORMS)
def test_a_window_without_any_value_is_forecast_from_the_horizon_alone(mechanism: dict[str, object]) -> None:
    observed = gaps()
    observed[1] = False
    network = model_of(mechanism).train()
    forecast, gradients = step(network, *inputs_with(0.0, observed))
    assert forecast.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    past, past_known, future_known, _ = inputs_with(0.0, observed)
    other = future_known.clone()
    other[1, 0] += 1
    moved = (network(past, past_known, other, observed) - forecast).abs().amax((1, 2))
    assert moved[1] > 1e-5


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_activation_checkpointing_keeps_gradients_with_hidden_steps(mechanism: dict[str, object]) -> None:
    network, results = model_of(mechanism, dropout=0.2).train(), []
    state = {name: each.clone() for name, each in network.state_dict().items()}
    for checkpointing in (False, True):
        network.load_state_dict(state)
        network.checkpoint_activations(checkpointing)
        results.append(step(network, *inputs_with(0.0, gaps())))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


# --- distilling


def pooled(mask: Tensor) -> Tensor:
    """Return the mask after distilling, token by token."""
    places = range(0, mask.shape[1], 2)
    return torch.stack([mask[:, max(0, place - 1) : place + 2].any(1) for place in places], 1)


def distilled(layer: Distilling, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the output of distilling in training, with torch's batch norm of the visible tokens alone."""
    features = layer.convolution(tokens.where(mask[..., None], 0).transpose(1, 2)).transpose(1, 2)  # (B, L, D)
    norm = layer.norm
    statistics = norm.running_mean, norm.running_var, norm.weight, norm.bias
    normed = torch.full_like(features, -torch.inf)
    normed[mask] = functional.elu(functional.batch_norm(features[mask], *statistics, True, norm.momentum, norm.eps))
    rows = [normed[:, max(0, at - 1) : at + 2].amax(1) for at in range(0, tokens.shape[1], 2)]
    return torch.stack(rows, 1)


@pytest.mark.parametrize("length", range(1, 12))
def test_a_distilled_token_is_visible_if_its_pooling_reads_a_visible_one(length: int) -> None:
    mask = torch.rand(64, length, generator=torch.Generator().manual_seed(length)) > 0.6
    assert torch.equal(Distilling(4).output_mask(mask), pooled(mask))
    assert Distilling(4).output_mask(None) is None


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("length", [1, 2, 7, 12])
def test_distilling_computes_from_visible_tokens_only(
    length: int, kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "use_cpu_kernels", lambda _: kernels)
    generator = torch.Generator().manual_seed(length)
    mask = torch.rand(5, length, generator=generator) > 0.5
    mask[0], mask[1] = False, True
    tokens = torch.randn(5, length, 4, generator=generator, dtype=torch.float64)
    results = []
    for call in (lambda layer, given: layer(given, mask), lambda layer, given: distilled(layer, given, mask)):
        torch.manual_seed(0)
        layer = Distilling(4).double()
        given = tokens.clone().requires_grad_()
        visible = call(layer, given)[pooled(mask)]
        weights = torch.linspace(-1, 1, visible.numel(), dtype=visible.dtype).view_as(visible)
        gradients = torch.autograd.grad((visible * weights).sum(), [given, *layer.parameters()])
        results.append([visible.detach(), *gradients, layer.norm.running_mean, layer.norm.running_var])
    torch.testing.assert_close(results[0], results[1])
    assert not results[0][1][~mask].any()
