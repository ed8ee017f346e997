"""Every file of the configuration: it composes, begins with a description, and fits the classes that it names."""

import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class, get_method
from omegaconf import OmegaConf

from forecast import attention
from forecast.attention.base import Attention
from forecast.common.configuration import check_trial
from forecast.common.errors import InputError
from tests.support.examples import ROOT

CONF = ROOT / "conf"
FILES = sorted(CONF.rglob("*.yaml"))
OPTIONS = [path for path in FILES if path.parent != CONF and not path.stem.startswith("_")]
FROM_THE_LAYER = {"num_heads", "head_dim", "causal", "max_key_length", "from_the_layer"}
FROM_THE_PROGRAM = {"torch.optim": {"params"}, "forecast.training.schedule": {"optimizer", "total_steps"}}


def name_of(path: Path) -> str:
    return path.relative_to(CONF).with_suffix("").as_posix()


@cache
def composed(*overrides: str) -> dict[str, Any]:
    """Return a composition, which several tests read and none changes."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = compose("config", overrides=list(overrides))
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def targets(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [inner for child in node for inner in targets(child)]
    if not isinstance(node, dict):
        return []
    return [*([node] if "_target_" in node else []), *targets(list(node.values()))]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_begins_with_a_description(path: Path) -> None:
    first, second, *_ = [*path.read_text(encoding="utf-8").splitlines(), "", ""]
    description = second if first == "# @package _global_" else first
    assert description.startswith("# ")
    assert "@package" not in description
    assert len(description) > 20


@pytest.mark.slow
@pytest.mark.parametrize("path", OPTIONS, ids=name_of)
def test_every_option_of_every_group_composes(path: Path) -> None:
    group, option = path.parent.relative_to(CONF).as_posix(), path.stem
    own_table = ["data=csv", "data.path=my.csv"] if group == "model" else []  # else a preset fixes the patches
    config = composed(f"{group}={option}", *own_table)
    own = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(own, dict)
    glob = path.read_text(encoding="utf-8").startswith("# @package _global_")
    place = config if glob else config[group]
    for key, value in own.items():
        if key not in ("defaults", "hydra"):  # `hydra` is not part of a run
            assert contains(place[key], value), key


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    return bool(whole == part or (isinstance(part, str) and "${" in part))


STANDARD = (512, 96, 24)
"""Look-back, horizon and patch of a ready data set without other words."""

LENGTHS: dict[str, tuple[int, int, int | None]] = {
    "experiment=diagnostic": (256, 8, 16),
    "experiment=etth1": STANDARD,
    "experiment=etth2": STANDARD,
    "experiment=ettm1": STANDARD,
    "experiment=ettm2": STANDARD,
    "experiment=general": (512, 96, 12),
    "experiment=informer": (96, 96, None),
    "experiment=known_ahead": STANDARD,
    "experiment=long": (8064, 96, 1),
    "experiment=pjme": (2016, 96, 24),
    "experiment=pointwise": (336, 96, 1),
    "experiment=m4_hourly": (512, 48, 16),
    "experiment=pretrain": (512, 192, 16),
    "experiment=rossmann": (112, 48, 7),
    "experiment=tradeoff": (720, 96, 4),
    "experiment=weather": STANDARD,
    **{f"data={path.stem}": STANDARD for path in (CONF / "data").glob("*.yaml") if path.stem not in ("_file", "csv")},
}
"""Lengths that are fixed, by the choice that fixes them; no patch: one token a step."""


def lengths_of(*words: str) -> tuple[Any, ...]:
    config = composed(*words)
    return config["context_length"], config["horizon"], config["model"].get("patch_length")


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in OPTIONS if path.parent.name in ("data", "experiment")], ids=name_of)
def test_a_preset_and_an_experiment_fix_their_lengths_and_an_own_table_does_not(path: Path) -> None:
    word = f"{path.parent.name}={path.stem}"
    own = ("data=csv", "data.path=my.csv")
    if word == "data=csv":
        assert lengths_of(*own) == (None, None, None)
        return
    assert lengths_of(word) == LENGTHS[word]
    model, patches = composed(word)["model"], LENGTHS[word][2]
    assert model.get("stride") == (8 if word == "experiment=diagnostic" else None)
    if path.parent.name == "experiment":
        assert lengths_of(word, *own) == LENGTHS[word]
    if set(model) == set(composed()["model"]) and patches == 24:
        assert lengths_of(word, "model=informer") == (*LENGTHS[word][:2], None)
    assert lengths_of(word, "context_length=192", "horizon=48")[:2] == (192, 48)


def test_the_defaults_leave_no_required_option() -> None:
    config = composed()
    assert not OmegaConf.missing_keys(OmegaConf.create(config))
    assert config.get("decoder_attention") is None
    assert config["cross_attention"] == config["attention"] == {"name": "full", "implementation": "fused"}


def test_attention_sets_encoder_and_decoder_but_not_cross_attention() -> None:
    config = composed("attention=probsparse", "attention.factor=9")
    assert config["attention"]["factor"] == 9
    assert config.get("decoder_attention") is None
    assert config["cross_attention"]["name"] == "full"


def test_each_place_of_attention_can_be_chosen() -> None:
    config = composed("attention=linear", "attention@decoder_attention=full", "attention@cross_attention=mean")
    names = [config[place]["name"] for place in ("attention", "decoder_attention", "cross_attention")]
    assert names == ["linear", "full", "mean"]


@pytest.mark.parametrize("path", sorted((CONF / "attention").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_file_of_a_mechanism_has_the_arguments_of_its_class(path: Path) -> None:
    node = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(node, dict)
    assert node.pop("name") == path.stem
    module = importlib.import_module(f"forecast.attention.{path.stem}")
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, Attention) and member.__module__ == module.__name__
    ]
    assert len(classes) == 1
    assert set(node) == set(inspect.signature(classes[0]).parameters) - FROM_THE_LAYER


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "experiment").glob("*.yaml")))
def test_a_trial_run_of_an_experiment_has_30_steps_or_is_refused(name: str) -> None:
    data = ["data=csv", "data.path=mine.csv"] if name in ("informer", "pointwise") else []
    words = [*data, f"experiment={name}", "trainer=smoke"]
    config = composed(*words)
    if config["training"]["max_steps"] == 30:
        check_trial(config, words)
        return
    with pytest.raises(InputError, match=r"add training.max_steps=30$"):
        check_trial(config, words)
    words.append("training.max_steps=30")
    config = composed(*words)
    check_trial(config, words)
    assert config["training"]["max_steps"] == 30


def test_every_mechanism_has_a_file_and_every_file_a_mechanism() -> None:
    assert sorted(path.stem for path in (CONF / "attention").glob("*.yaml")) == attention.available()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_target_exists_and_accepts_its_keys(path: Path) -> None:
    for node in targets(OmegaConf.to_container(OmegaConf.load(path))):
        name = str(node["_target_"])
        try:
            target: Any = get_class(name)
        except ValueError:  # a function
            target = get_method(name)
        given = set(node) - {"_target_"} | next(
            (extra for start, extra in FROM_THE_PROGRAM.items() if name.startswith(start)), set()
        )
        parameters = inspect.signature(target).parameters
        free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        assert free or given <= set(parameters), name
        # with **kwargs, a misspelt required parameter is still noticed
        needed = {key for key, parameter in parameters.items() if required(parameter)}
        assert needed - {"save_dir"} <= given, name


def required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_KEYWORD,
        parameter.VAR_POSITIONAL,
    )


def test_targets_belong_to_this_package_torch_or_lightning() -> None:
    nodes = [node for path in FILES for node in targets(OmegaConf.to_container(OmegaConf.load(path)))]
    assert len(nodes) >= 5
    assert {str(node["_target_"]).split(".")[0] for node in nodes} <= {"forecast", "torch", "lightning"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_computes_values(path: Path) -> None:
    """Interpolations only copy root values, apart from the time and the job of Hydra."""
    text = path.read_text(encoding="utf-8")
    for word in ("${eval", "${oc.eval", "${mul", "${add"):
        assert word not in text
