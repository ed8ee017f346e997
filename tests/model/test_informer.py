import inspect

import pytest
import torch
from torch import Tensor

from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.ridge import fit_ridge
from forecast.model import build
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from tests.support.covering import covering
from tests.support.examples import FULL, LINEAR, OPTIONS, make_inputs, make_model, make_windows

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=16, horizon=6)
PROBSPARSE = {"name": "probsparse", "factor": 1, "sampling": "per_query", "measure": "sampled_mean"}
PRESETS = ("patch_informer", "informer")


def sizes(targets: int = 2, covariates: int = 1, known: int = 3, context: int = 16, horizon: int = 6) -> Sizes:
    return Sizes(targets, covariates, known, context, horizon)


def changed_at(before: Tensor, after: Tensor, axis: int) -> list[int]:
    """Return the places along `axis` of (B, h, C) where two forecasts differ."""
    others = [other for other in range(3) if other != axis]
    differs = (before - after).abs().amax(others) > 1e-6
    return [int(place) for place in differs.nonzero().flatten()]


def test_the_future_is_not_an_argument() -> None:
    names = list(inspect.signature(Informer.forward).parameters)
    assert names == ["self", "past", "past_known", "future_known", "past_observed"]


@pytest.mark.parametrize("preset", PRESETS)
def test_values_after_the_origin_do_not_change_the_forecast(preset: str) -> None:
    model = make_model(preset, sizes(context=8, horizon=3, known=2))
    windows = make_windows()
    batch = windows.batch(torch.tensor([5]))
    expected = model(batch.past, batch.past_known, batch.future_known)
    windows.values[int(batch.origin) :] = torch.nan
    batch = windows.batch(torch.tensor([5]))
    assert torch.equal(model(batch.past, batch.past_known, batch.future_known), expected)


MODELS: list[tuple[str, dict[str, object]]] = [
    ("patch_informer", {}),
    ("patch_informer", {"channels": "mixed"}),
    ("patch_informer", {"patch_length": 4, "stride": 2, "linear_path": "zero"}),
    ("patch_informer", {"patch_length": 3, "stride": 2, "channels": "mixed"}),
    ("patch_informer", {"patch_length": 1, "level": "window"}),
    ("informer", {}),
    ("informer", {"start_length": 0, "distil": False}),
    ("informer", {"d_model": 9, "head_dim": 5, "encoder_layers": 3}),
]
CHANNELS = [(1, 0, 0), (3, 2, 3), (1, 2, 0), (3, 0, 3)]
"""Numbers of targets, past covariates and known inputs."""

LENGTHS = [(16, 8), (17, 6), (4, 1), (5, 9)]
"""Look-backs and horizons."""


@pytest.mark.parametrize(("model", "channels", "lengths"), covering(MODELS, CHANNELS, LENGTHS, every=4), ids=str)
def test_a_forecast_has_a_value_for_every_step_and_target(
    model: tuple[str, dict[str, object]], channels: tuple[int, int, int], lengths: tuple[int, int]
) -> None:
    shape, (preset, options) = sizes(*channels, *lengths), model
    forecast = make_model(preset, shape, **options)(*make_inputs(shape))
    assert forecast.shape == (2, lengths[1], channels[0])
    assert forecast.isfinite().all()


@pytest.mark.parametrize("channels", ["independent", "mixed"])
@pytest.mark.parametrize("series", [0, 1, 2])
def test_only_mixed_channels_interact(channels: str, series: int) -> None:
    shape = sizes(targets=3, covariates=0)
    model = make_model("patch_informer", shape, channels=channels, linear_path="zero")
    past, *known = make_inputs(shape)
    other = past.clone()
    other[..., series] += torch.randn(2, 16)
    moved = changed_at(model(past, *known), model(other, *known), axis=2)
    assert moved == ([series] if channels == "independent" else [0, 1, 2])


@pytest.mark.parametrize("channels", ["independent", "mixed"])
def test_every_target_sees_every_past_covariate(channels: str) -> None:
    shape = sizes(targets=2, covariates=2)
    model = make_model("patch_informer", shape, channels=channels)
    past, *known = make_inputs(shape)
    for covariate in (2, 3):
        other = past.clone()
        other[..., covariate] += torch.randn(2, 16)
        assert changed_at(model(past, *known), model(other, *known), axis=2) == [0, 1]


def test_swapping_two_past_covariates_changes_the_forecast() -> None:
    shape = sizes(targets=1, covariates=2)
    model = make_model("patch_informer", shape)
    past, *known = make_inputs(shape)
    assert not torch.allclose(model(past, *known), model(past[..., [0, 2, 1]], *known), atol=1e-4)


@pytest.mark.parametrize(("preset", "options"), [("patch_informer", {"channels": "mixed"}), ("informer", {})])
def test_a_forecast_does_not_depend_on_other_rows_of_the_batch(preset: str, options: dict[str, object]) -> None:
    model = make_model(preset, SIZES, **options)
    inputs = make_inputs(SIZES, batch=5)
    whole = model(*inputs)
    for row in range(5):
        alone = model(*(tensor[row : row + 1] for tensor in inputs))
        torch.testing.assert_close(alone, whole[row : row + 1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_input_changes_the_forecast(preset: str, place: int) -> None:
    model = make_model(preset, SIZES)
    inputs = list(make_inputs(SIZES))
    expected = model(*inputs)
    inputs[place] = inputs[place] + torch.randn_like(inputs[place])
    assert (model(*inputs) - expected).abs().max() > 1e-4


def test_a_context_is_padded_with_its_oldest_step() -> None:
    """Compare the tokens, since normalization hides the padding: they equal those of the longer context."""
    short, long = sizes(context=14), sizes(context=16)
    first, second = (make_model("patch_informer", shape).tokens for shape in (short, long))
    second.load_state_dict(first.state_dict())
    past, past_known, _ = make_inputs(short)
    padded = [torch.cat([tensor[:, :1]] * 2 + [tensor], 1) for tensor in (past, past_known)]
    assert torch.equal(first.source(past, past_known), second.source(*padded))


@pytest.mark.parametrize(
    ("context", "patch_length", "stride", "patches", "padding"),
    [(16, 4, 4, 4, 0), (17, 4, 4, 5, 3), (16, 4, 2, 7, 0), (17, 4, 2, 8, 1), (5, 5, 3, 1, 0), (6, 5, 3, 2, 2)],
)
def test_the_fewest_patches_cover_the_context(
    context: int, patch_length: int, stride: int, patches: int, padding: int
) -> None:
    shape = sizes(targets=1, covariates=0, context=context)
    tokens = make_model("patch_informer", shape, patch_length=patch_length, stride=stride).tokens
    assert tokens.padding == padding
    assert tokens.source_length == patches
    assert tokens.source(*make_inputs(shape)[:2]).shape[1] == patches


def test_a_patch_token_depends_on_its_own_steps_only() -> None:
    shape = sizes(targets=1, covariates=0, context=17)
    tokens = make_model("patch_informer", shape, patch_length=4, stride=2).tokens
    past, known, _ = make_inputs(shape)
    expected = tokens.source(past, known)
    for step in range(17):
        other = past.clone()
        other[:, step] += 1
        moved = changed_at(expected, tokens.source(other, known), axis=1)
        covers = [patch for patch in range(8) if 2 * patch - 1 <= step <= 2 * patch + 2]
        assert moved == covers


def test_the_last_patch_is_cut_to_the_horizon() -> None:
    """The last known input is repeated to the end of the patch; the first steps are the forecast."""
    short, whole = sizes(horizon=6), sizes(horizon=8)
    first, second = (make_model("patch_informer", shape) for shape in (short, whole))
    second.load_state_dict(first.state_dict())
    past, past_known, future_known = make_inputs(short)
    longer = torch.cat([future_known, future_known[:, -1:], future_known[:, -1:]], 1)
    torch.testing.assert_close(first(past, past_known, future_known), second(past, past_known, longer)[:, :6])


def test_a_query_contains_the_last_patch_of_its_target_and_nothing_older() -> None:
    shape = sizes(targets=2, covariates=1, horizon=8)
    carrying, learned = (make_model("patch_informer", shape, queries=queries) for queries in ("last_patch", "learned"))
    learned.load_state_dict(carrying.state_dict())
    past, *known = make_inputs(shape)
    with_it = carrying.tokens.queries(past, *known).unflatten(0, (-1, 2))  # (B, C_out, M, D)
    token = carrying.tokens.values(past[:, -4:, :2].transpose(1, 2))[:, :, None]
    torch.testing.assert_close(with_it, learned.tokens.queries(past, *known).unflatten(0, (-1, 2)) + token)
    older = past.clone()
    older[:, :-4] += 1
    older[..., 2] += 1  # a covariate
    assert torch.equal(carrying.tokens.queries(older, *known).unflatten(0, (-1, 2)), with_it)
    assert torch.equal(learned.tokens.queries(older + 1, *known), learned.tokens.queries(past, *known))


def test_a_forecast_moves_with_the_window_and_starts_from_the_chosen_level() -> None:
    shape = sizes(targets=2, covariates=0, horizon=8)
    past, *known = make_inputs(shape)
    for level, steps in (("last_patch", 4), ("window", past.shape[1])):
        model = make_model("patch_informer", shape, level=level)
        torch.nn.init.zeros_(model.tokens.head.weight)
        torch.nn.init.zeros_(model.tokens.head.bias)
        expected = past[:, -steps:].mean(1, keepdim=True).expand(-1, 8, -1)
        torch.testing.assert_close(model(past, *known), expected)
    drawn = make_model("patch_informer", shape)
    torch.testing.assert_close(drawn(past + 3, *known), drawn(past, *known) + 3, atol=1e-3, rtol=1e-3)


def test_a_known_future_input_changes_the_query_of_its_patch_only() -> None:
    shape = sizes(targets=1, covariates=0, horizon=8)
    tokens = make_model("patch_informer", shape).tokens
    past, past_known, future_known = make_inputs(shape)
    expected = tokens.queries(past, past_known, future_known)
    for step in range(8):
        other = future_known.clone()
        other[:, step] += 1
        assert changed_at(expected, tokens.queries(past, past_known, other), axis=1) == [step // 4]


def test_patches_of_the_horizon_are_read_out_in_order_per_series() -> None:
    shape = sizes(targets=2, covariates=0, horizon=8)
    for channels in ("independent", "mixed"):
        tokens = make_model("patch_informer", shape, channels=channels).tokens
        decoded = torch.arange(2 * 2 * 2.0).view(2, 2, 2, 1).expand(-1, -1, -1, 16)  # (B, C, M, D)
        flat = decoded.flatten(0, 1) if channels == "independent" else decoded.flatten(1, 2)
        forecast = tokens.read_out(flat)
        expected = tokens.head(decoded).flatten(2).transpose(1, 2)
        assert torch.equal(forecast, expected)


@pytest.mark.parametrize("path", [False, "zero"])
@pytest.mark.parametrize(("factor", "shift"), [(10.0, 0.0), (1.0, 100.0), (-3.0, -7.0)])
def test_a_scaled_and_shifted_window_gives_the_scaled_and_shifted_forecast(
    path: str | bool, factor: float, shift: float
) -> None:
    model = make_model("patch_informer", SIZES, linear_path=path)
    past, *known = make_inputs(SIZES)
    moved = model(abs(factor) * past + shift, *known)
    torch.testing.assert_close(moved, abs(factor) * model(past, *known) + shift, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("hidden", [torch.nan, torch.inf, 1e30])
def test_unobserved_values_reach_neither_forecast_nor_gradient(preset: str, hidden: float) -> None:
    options = {"linear_path": "zero"} if preset == "patch_informer" else {}
    model = make_model(preset, SIZES, **options)
    past, *known = make_inputs(SIZES)
    observed = torch.rand(past.shape, generator=torch.Generator().manual_seed(0)) > 0.3
    observed[0, :, 1] = False  # a series that was not seen at all
    forecasts, gradients = [], []
    for value in (0.0, hidden):
        model.zero_grad()
        forecast = model(torch.where(observed, past, value), *known, observed)
        forecast.square().sum().backward()
        forecasts.append(forecast.detach())
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert torch.equal(forecasts[0], forecasts[1])
    assert forecasts[1].isfinite().all()
    assert all(torch.equal(first, second) for first, second in zip(*gradients, strict=True))
    assert all(gradient.isfinite().all() for gradient in gradients[1])


@pytest.mark.parametrize("attention", [FULL, LINEAR, {"name": "mean"}], ids=lambda node: node["name"])
@pytest.mark.parametrize("step", [0, 3, 5])
def test_an_informer_forecast_ignores_later_known_inputs(attention: dict[str, object], step: int) -> None:
    model = make_model("informer", SIZES, attention)
    past, past_known, future_known = make_inputs(SIZES)
    other = future_known.clone()
    other[:, step] += 1
    moved = changed_at(model(past, past_known, future_known), model(past, past_known, other), axis=1)
    assert moved == list(range(step, 6))


@pytest.mark.parametrize("attention", [FULL, LINEAR], ids=lambda node: node["name"])
def test_the_informer_decoder_is_causal(attention: dict[str, object]) -> None:
    model = make_model("informer", SIZES, attention)
    torch.manual_seed(2)
    memory, queries = torch.randn(1, 8, 16), torch.randn(1, 10, 16)
    expected = model.decoder(queries, memory)
    for place in range(10):
        other = queries.clone()
        other[:, place] += torch.randn(16)
        assert changed_at(expected, model.decoder(other, memory), axis=1) == list(range(place, 10))


def test_the_informer_decoder_reads_the_last_steps_and_zeros() -> None:
    model = make_model("informer", SIZES, start_length=4)
    past, past_known, future_known = make_inputs(SIZES)
    known = torch.cat([past_known[:, 12:], future_known], 1)
    values = torch.cat([past[:, 12:], torch.zeros(2, 6, 3)], 1)
    assert torch.equal(model.tokens.queries(past, past_known, future_known), model.tokens.future(values, known))


def test_the_horizon_queries_are_not_causal() -> None:
    shape = sizes(targets=1, covariates=0, horizon=12)
    model = make_model("patch_informer", shape)
    past, past_known, future_known = make_inputs(shape)
    other = future_known.clone()
    other[:, -1] += 5
    assert changed_at(model(past, past_known, future_known), model(past, past_known, other), axis=1)[0] == 0


def test_a_new_model_with_a_ridge_path_forecasts_like_the_ridge() -> None:
    train = make_windows(300, targets=range(200))
    validation = make_windows(300, targets=range(200, 300))
    ridge = fit_ridge(train, validation)
    mechanisms = Mechanisms(encoder=FULL, decoder=FULL, cross=FULL)
    options = {**OPTIONS["patch_informer"], "linear_path": "ridge"}
    shape = sizes(context=8, horizon=3, known=2)
    model = build("patch_informer", shape, mechanisms, **options).eval()
    assert model.linear_path is not None
    model.linear_path.start_from(ridge.weight)
    expected = evaluate(ridge, validation, 64).mse
    whole = evaluate(lambda batch: model(batch.past, batch.past_known, batch.future_known), validation, 64).mse
    alone = evaluate(lambda batch: model.forward_linear_path(*batch[:3]), validation, 64).mse
    assert whole.tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    assert alone.tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_model_that_starts_at_its_linear_path_still_learns() -> None:
    torch.manual_seed(0)
    options = {**OPTIONS["patch_informer"], "linear_path": "zero"}
    model = build("patch_informer", SIZES, Mechanisms(encoder=FULL, decoder=FULL, cross=FULL), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs, future = make_inputs(SIZES), torch.randn(2, 6, 2)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (model(*inputs) - future).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name


def test_the_linear_path_is_added_to_the_encoder_decoder() -> None:
    model = make_model("patch_informer", SIZES, linear_path="zero")
    without = make_model("patch_informer", SIZES)
    state = {name: value for name, value in model.state_dict().items() if not name.startswith("linear_path")}
    without.load_state_dict(state)
    past, *known = make_inputs(SIZES)
    level = past[:, -4:, :2].mean(1, keepdim=True)  # of the last patch; both forecasts contain it
    path = model.forward_linear_path(past, *known) - level
    torch.testing.assert_close(model(past, *known), without(past, *known) + path, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "attention",
    [FULL, {"name": "probsparse", "factor": 1, "sampling": "per_query", "measure": "sampled_mean"}],
    ids=str,
)
def test_evaluation_is_repeatable(preset: str, attention: dict[str, object]) -> None:
    model = make_model(preset, SIZES, attention, dropout=0.5)
    inputs = make_inputs(SIZES)
    expected = model(*inputs)
    torch.manual_seed(123)
    assert torch.equal(model(*inputs), expected)
    assert not torch.equal(model.train()(*inputs), expected)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_model_of_the_same_seed_has_the_same_weights(preset: str) -> None:
    states = []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        mechanisms = Mechanisms(encoder=FULL, decoder=LINEAR, cross=FULL)
        states.append(build(preset, SIZES, mechanisms, **OPTIONS[preset]).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(not torch.equal(states[0][name], states[2][name]) for name in states[0])


@pytest.mark.parametrize("preset", PRESETS)
def test_contexts_beyond_5000_steps_are_forecast(preset: str) -> None:
    shape = sizes(targets=1, covariates=0, known=1, context=5_300, horizon=2)
    options = {"patch_length": 1, "level": "window"} if preset == "patch_informer" else {"distil": False}
    model = make_model(preset, shape, LINEAR, d_model=7, num_heads=1, encoder_layers=1, **options)
    assert model(*make_inputs(shape, batch=1)).isfinite().all()


@pytest.mark.parametrize("channels", ["independent", "mixed"])
def test_known_inputs_are_embedded_alike_before_and_after_the_origin(channels: str) -> None:
    shape = sizes(targets=1, covariates=0, horizon=8)
    tokens = make_model("patch_informer", shape, channels=channels).tokens
    past, past_known, future_known = make_inputs(shape)
    past_known[:, 4:8] = future_known[:, 4:8]
    nothing = torch.zeros_like(past_known), torch.zeros_like(future_known)
    before = tokens.source(past, past_known) - tokens.source(past, nothing[0])
    after = tokens.queries(past, past_known, future_known) - tokens.queries(past, past_known, nothing[1])
    torch.testing.assert_close(before[:, 1], after[:, 1], atol=1e-5, rtol=1e-5)
    assert before[:, 1].abs().max() > 0.1
