from dataclasses import fields

import pytest
import torch
from omegaconf import OmegaConf

from forecast.common.errors import InputError
from forecast.model import build, presets
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.model.tokens import PatchTokens
from tests.support.examples import FULL, OPTIONS, ROOT, make_inputs

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=96, horizon=6)
FILES = sorted((ROOT / "conf" / "model").glob("*.yaml"))


def make(preset: str, **changes: object) -> Informer:
    return build(preset, SIZES, Mechanisms(FULL, FULL, FULL), **{**OPTIONS[preset], **changes})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model_file_has_the_options_of_its_preset_and_builds_it(path: object) -> None:
    node = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(node, dict)
    name = node.pop("name")
    assert name == path.stem
    assert set(node) == {field.name for field in fields(presets.OPTIONS[name])}
    build(name, SIZES, Mechanisms(FULL, FULL, FULL), **node)


def test_there_is_a_file_for_each_preset() -> None:
    assert {path.stem for path in FILES} == set(OPTIONS)


def test_a_preset_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InputError, match=r"transformer.*patch_informer, informer"):
        build("transformer", SIZES, Mechanisms(FULL, FULL, FULL))


@pytest.mark.parametrize("preset", OPTIONS)
def test_an_unknown_or_missing_option_is_refused_by_name(preset: str) -> None:
    with pytest.raises(InputError, match="colour"):
        make(preset, colour="blue")
    fewer = {key: value for key, value in OPTIONS[preset].items() if key != "d_ff"}
    with pytest.raises(InputError, match="d_ff"):
        build(preset, SIZES, Mechanisms(FULL, FULL, FULL), **fewer)


@pytest.mark.parametrize("preset", OPTIONS)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("d_model", 0),
        ("d_model", "wide"),
        ("d_model", 16.5),
        ("d_model", 15),  # two heads do not divide it
        ("num_heads", 0),
        ("num_heads", True),
        ("head_dim", 0),
        ("d_ff", -1),
        ("encoder_layers", 0),
        ("decoder_layers", 0),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("dropout", float("nan")),
        ("dropout", None),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(preset: str, key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        make(preset, **{key: value})


@pytest.mark.parametrize(
    ("preset", "key", "value"),
    [
        ("patch_informer", "patch_length", 0),
        ("patch_informer", "patch_length", 97),
        ("patch_informer", "stride", 0),
        ("patch_informer", "stride", 5),
        ("patch_informer", "channels", "both"),
        ("patch_informer", "level", "zero"),
        ("patch_informer", "queries", "none"),
        ("patch_informer", "linear_path", "ols"),
        ("patch_informer", "linear_path", True),
        ("patch_informer", "response_width", -1),
        ("informer", "start_length", -1),
        ("informer", "start_length", 97),
        ("informer", "distil", "yes"),
    ],
)
def test_a_value_out_of_range_for_one_preset_is_refused_by_name(preset: str, key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        make(preset, **{key: value})


def test_queries_that_are_always_zero_are_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match=r"patch_length=1.*add model\.level=window"):
        make("patch_informer", patch_length=1, stride=1, level="last_patch", queries="last_patch")
    past = torch.randn(2, 96, 3)
    for level, queries in (("window", "last_patch"), ("last_patch", "learned"), ("window", "learned")):
        network = make("patch_informer", patch_length=1, stride=1, level=level, queries=queries)
        tokens = network.tokens
        assert isinstance(tokens, PatchTokens)
        normal, _ = network.normalization.normalize(past, None)
        asked = tokens.queries(normal, torch.zeros(2, 96, 3), torch.zeros(2, 6, 3))
        assert torch.equal(asked[0], asked[2]) == (queries == "learned")  # of two windows, the first series


@pytest.mark.parametrize("preset", OPTIONS)
@pytest.mark.parametrize(("key", "value"), [("dropout", 0), ("dropout", 0.9), ("head_dim", 3), ("d_ff", 1)])
def test_a_value_at_the_edge_of_its_range_is_accepted(preset: str, key: str, value: object) -> None:
    make(preset, **{key: value})


def test_the_start_token_may_be_empty_or_the_whole_context() -> None:
    make("informer", start_length=0)
    make("informer", start_length=96)


@pytest.mark.parametrize(("preset", "place"), [("patch_informer", "encoder"), ("informer", "decoder")])
def test_a_mechanism_that_does_not_exist_is_refused_with_those_that_do(preset: str, place: str) -> None:
    nodes = {"encoder": FULL, "decoder": FULL, "cross": FULL, place: {"name": "clairvoyant"}}
    with pytest.raises(InputError, match=r"clairvoyant.*full"):
        build(preset, SIZES, Mechanisms(**nodes), **OPTIONS[preset])


@pytest.mark.parametrize("preset", OPTIONS)
def test_each_place_gets_its_own_mechanism_and_only_the_informers_decoder_is_causal(preset: str) -> None:
    nodes = Mechanisms(encoder={"name": "linear"}, decoder={"name": "mean"}, cross=FULL)
    model = build(preset, SIZES, nodes, **OPTIONS[preset])
    assert {layer.attention.attention.name for layer in model.encoder.layers} == {"linear"}
    assert not any(layer.attention.attention.causal for layer in model.encoder.layers)
    for layer in model.decoder.layers:
        assert layer.self_attention.attention.name == "mean"
        assert layer.self_attention.attention.causal == (preset == "informer")
        assert layer.cross_attention.attention.name == "full"
        assert not layer.cross_attention.attention.causal


@pytest.mark.parametrize(
    ("preset", "changes", "encoder", "decoder", "cross"),
    [
        ("patch_informer", {}, [24 * 2] * 2, 2, 48),
        ("patch_informer", {"channels": "mixed"}, [24 * 3] * 2, 2 * 2, 72),
        ("patch_informer", {"stride": 2}, [47 * 2] * 2, 2, 94),
        ("informer", {"encoder_layers": 3}, [96, 48, 24], 10, 24),
        ("informer", {"distil": False}, [96, 96], 10, 96),
    ],
)
def test_each_layer_gets_the_length_of_its_longest_key(
    preset: str, changes: dict[str, object], encoder: list[int], decoder: int, cross: int
) -> None:
    model = make(preset, **changes)
    assert [layer.attention.attention.max_key_length for layer in model.encoder.layers] == encoder
    assert {layer.self_attention.attention.max_key_length for layer in model.decoder.layers} == {decoder}
    assert {layer.cross_attention.attention.max_key_length for layer in model.decoder.layers} == {cross}


@pytest.mark.parametrize("preset", OPTIONS)
def test_a_mechanism_without_cross_lengths_is_refused_as_cross_attention_only(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecast.attention.mean.MeanAttention.cross", False)
    mean = {"name": "mean"}
    with pytest.raises(InputError, match=r"^attention=mean cannot attend .*: set attention@cross_attention=full$"):
        build(preset, SIZES, Mechanisms(FULL, FULL, mean), **OPTIONS[preset])
    build(preset, SIZES, Mechanisms(mean, mean, FULL), **OPTIONS[preset])


LINFORMER = {"name": "linformer", "rank": 30}


def test_a_mechanism_that_cannot_be_causal_is_refused_by_the_informer_and_its_cure_works() -> None:
    with pytest.raises(InputError, match="attention=linformer cannot be causal: set attention@decoder_attention=full"):
        build("informer", SIZES, Mechanisms(LINFORMER, LINFORMER, FULL), **OPTIONS["informer"])
    model = build("informer", SIZES, Mechanisms(LINFORMER, FULL, LINFORMER), **OPTIONS["informer"])
    assert model(*make_inputs(SIZES)).shape == (2, 6, 2)


@pytest.mark.parametrize("preset", OPTIONS)
def test_projections_fit_the_length_that_distilling_leaves_to_each_layer(preset: str) -> None:
    decoder = FULL if preset == "informer" else LINFORMER
    changes = {"encoder_layers": 3}
    model = build(preset, SIZES, Mechanisms(LINFORMER, decoder, LINFORMER), **{**OPTIONS[preset], **changes})
    model(*make_inputs(SIZES)).sum().backward()
    attentions = [layer.attention.attention for layer in model.encoder.layers]
    attentions += [layer.cross_attention.attention for layer in model.decoder.layers]
    lengths = [96, 48, 24, 24] if preset == "informer" else [48] * 4
    assert [attention.key_projection.shape for attention in attentions] == [(min(30, n), n) for n in lengths]
    for attention in attentions:  # every column is used: the length is not only enough, it is the right one
        assert attention.value_projection.grad.abs().sum(dim=0).all()


@pytest.mark.parametrize("preset", OPTIONS)
@pytest.mark.parametrize("key", ["num_heads", "head_dim", "causal", "max_key_length"])
def test_arguments_of_the_layer_are_refused_among_those_of_a_mechanism(preset: str, key: str) -> None:
    with pytest.raises(InputError, match=f"attention.{key}: the model sets it"):
        build(preset, SIZES, Mechanisms({**FULL, key: 2}, FULL, FULL), **OPTIONS[preset])


def test_a_mechanism_without_its_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"attention\.name is missing: choose one of .*\bfull\b"):
        build("patch_informer", SIZES, Mechanisms({"implementation": "fused"}, FULL, FULL), **OPTIONS["patch_informer"])
