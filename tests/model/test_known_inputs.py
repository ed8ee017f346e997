"""Known covariates in the network: both presets, every mechanism, categories and static covariates."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from forecast import attention
from forecast.common.conf_files import choice_files, load_choice
from forecast.common.errors import InputError
from forecast.model import build
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.model.tokens import UNKNOWN_RATE, KnownEmbedding
from forecast.runs.run import Architecture
from tests.support.examples import FULL, OPTIONS

SIZES = Sizes(
    num_targets=2,
    num_past_covariates=1,
    num_known=6,
    context_length=8,
    horizon=3,
    num_known_covariates=2,
    known_categories=[3],
    past_categories=[4],
    known_look_back=2,
)
CALENDAR, DENSE, CATEGORY, PAST_CATEGORY = 0, 2, 4, 5


def make(preset: str, sizes: Sizes = SIZES, mechanism: dict[str, Any] = FULL, **changed: Any) -> Informer:
    torch.manual_seed(0)
    options = {**OPTIONS[preset], **changed}
    cross = mechanism if attention.find(mechanism["name"]).cross else FULL
    return build(preset, sizes, Mechanisms(mechanism, mechanism, cross), **options).eval()


def inputs(sizes: Sizes = SIZES) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    past = torch.randn(4, sizes.context_length, sizes.num_channels, generator=generator)
    known = torch.randn(4, sizes.context_length + sizes.horizon, sizes.num_known, generator=generator)
    for place, values in ((CATEGORY, 3), (PAST_CATEGORY, 4)):
        known[..., place] = torch.randint(0, values, known.shape[:2], generator=generator).float()
    return [past, known[:, : sizes.context_length], sizes.layout.future(known[:, sizes.context_length :])]


def with_change(tensors: list[Tensor], argument: int, place: int, value: float) -> list[Tensor]:
    changed = [tensor.clone() for tensor in tensors]
    changed[argument][:, -1, place] = value
    return changed


@pytest.mark.parametrize("name", attention.available())
@pytest.mark.parametrize("preset", ["patch_informer", "informer"])
def test_each_kind_of_known_input_changes_the_forecast(preset: str, name: str) -> None:
    if preset == "informer" and attention.find(name).causal_ability == "no":
        pytest.skip("the decoder of this preset is causal")
    mechanism = load_choice(next(path for path in choice_files("attention") if path.stem == name))
    model, given = make(preset, mechanism=dict(mechanism)), inputs()
    forecast = model(*given)
    for argument, place, value in (
        (2, DENSE, 9.0),
        (1, DENSE, 9.0),
        (2, CATEGORY, (float(given[2][0, -1, CATEGORY]) + 1) % 3),
        (1, CATEGORY, 0.0 if given[1][0, -1, CATEGORY] else 1.0),
        (1, PAST_CATEGORY, 3.0 if given[1][0, -1, PAST_CATEGORY] < 3 else 1.0),
    ):
        changed = model(*with_change(given, argument, place, value))
        assert not torch.allclose(changed[0], forecast[0]), (argument, place)


def test_the_linear_path_reads_numbers_of_its_look_back_and_labels_of_the_horizon() -> None:
    model, given = make("patch_informer", linear_path="zero"), inputs()
    path = model.linear_path
    assert path is not None
    assert path.known_weight is not None
    with torch.no_grad():
        path.known_weight.normal_()
    features = SIZES.layout.features(given[1], given[2])
    wanted = torch.einsum("bm,cmh->bhc", features, path.known_weight)
    mean = given[0][..., :2].mean(1, keepdim=True)
    torch.testing.assert_close(model.forward_linear_path(*given), mean + wanted)


def test_a_model_without_covariates_has_the_weights_of_before() -> None:
    plain = Sizes(num_targets=2, num_past_covariates=1, num_known=6, context_length=8, horizon=3)
    model = make("patch_informer", plain, linear_path="weighted")
    names = set(model.state_dict())
    assert not [name for name in names if "table" in name or "static" in name or "known_weight" in name]
    assert make("patch_informer", plain, linear_path="weighted").linear_path.layout is None  # type: ignore[union-attr]


def test_training_makes_some_values_unknown_and_evaluation_none() -> None:
    torch.manual_seed(0)
    embedding = KnownEmbedding(SIZES.layout)
    known = torch.zeros(200, 50, 6)
    known[..., CATEGORY] = 2
    unknown = embedding.tables[0].weight[0]
    place = slice(4, 4 + embedding.tables[0].weight.shape[1])
    for training, rate in ((True, UNKNOWN_RATE), (False, 0.0)):
        embedding.train(training)
        rows = embedding(known)[..., place].eq(unknown).all(-1)
        assert float(rows.float().mean()) == pytest.approx(rate, abs=0.005)


def test_an_unseen_label_gets_a_trained_vector() -> None:
    torch.manual_seed(0)
    model = make("patch_informer").train()
    for _ in range(20):
        model(*inputs()).sum().backward()
    gradient = model.tokens.embedding.tables[0].weight.grad  # type: ignore[attr-defined]
    assert gradient[0].abs().sum() > 0


STATIC = replace(SIZES, num_static=3)


@pytest.mark.parametrize("channels", ["independent", "mixed"])
def test_static_covariates_change_only_the_forecast_of_their_target(channels: str) -> None:
    model, given = make("patch_informer", STATIC, channels=channels), inputs(STATIC)
    model.set_static(torch.tensor([[1.0, 0, 1], [0, 1.0, 0]]))
    forecast = model(*given)
    model.set_static(torch.tensor([[1.0, 0, 1], [5.0, 1.0, 0]]))
    changed = model(*given)
    assert not torch.allclose(changed[..., 1], forecast[..., 1])
    if channels == "independent":
        assert torch.equal(changed[..., 0], forecast[..., 0])
    assert "tokens.properties" in model.state_dict()


def test_static_covariates_need_tokens_of_single_targets() -> None:
    with pytest.raises(InputError, match=r"data.static_covariates.*use model=patch_informer"):
        make("informer", STATIC)


def test_an_architecture_with_covariates_survives_json() -> None:
    import json
    from dataclasses import asdict

    made = Architecture("patch_informer", OPTIONS["patch_informer"], Mechanisms(FULL, FULL, FULL), STATIC)
    again = Architecture.from_dict(json.loads(json.dumps(asdict(made))))
    assert again == made
    assert set(again.build().state_dict()) == set(made.build().state_dict())


@pytest.mark.parametrize(
    ("key", "value"),
    [("known_categories", [10**6]), ("past_categories", [0]), ("known_look_back", 9), ("num_known", 3)],
)
def test_impossible_sizes_are_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match="numbers of"):
        replace(SIZES, **{key: value})


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("has_path", [True, False])
@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_what_is_known_is_read_by_the_encoder_decoder_or_by_weights_of_the_linear_path(
    share: float, has_path: bool, weight: float
) -> None:
    model = make("patch_informer", linear_path="weighted" if has_path else False)
    if not has_path:
        assert model.reads_known
        return
    assert model.linear_path is not None
    assert model.linear_path.known_weight is not None
    with torch.no_grad():
        model.linear_path.known_weight.fill_(weight)
        model.combination.mixing_weight.fill_(share)  # type: ignore[union-attr, operator]
    assert model.reads_known == (share > 0 or weight > 0)
    assert model.linear_path.reads_known == (weight > 0)
