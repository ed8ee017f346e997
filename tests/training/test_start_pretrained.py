"""`start_from=pretrained`: the network begins with the weights of the package, and new parts at zero."""

from pathlib import Path

import pytest
import torch

from forecast.common.configuration import compose_words
from forecast.common.errors import InputError
from forecast.pretrained.weights import open_pretrained
from forecast.runs.settings import Settings
from forecast.training.prepare import Preparation
from forecast.training.start_from import composed
from forecast.training.start_pretrained import RATE
from tests.support.prepared import prepare
from tests.support.small import hourly, write


def settings(path: Path, *words: str) -> Settings:
    every = ["data=csv", f"data.path={path}", "start_from=pretrained", "horizon=24", "context_length=96", *words]
    return Settings.parse(composed(compose_words(every), every))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Preparation:
    path = write(tmp_path_factory.mktemp("table") / "my.csv", hourly(500))
    return prepare(settings(path, "data.targets=[load]", "data.known_covariates=[air]"))


def test_shared_weights_are_those_of_the_package_and_new_ones_zero(made: Preparation) -> None:
    given, state = open_pretrained().network.state_dict(), made.network.state_dict()
    for name, value in state.items():
        if name == "tokens.query":
            assert torch.equal(value, given[name][: len(value)])
        elif name in given:
            assert torch.equal(value, given[name])
    assert not state["tokens.known.weight"].any()


def test_the_linear_path_stays_and_the_rate_is_lower(made: Preparation) -> None:
    assert made.network.linear_path is not None
    assert made.settings.optimizer["lr"] == RATE
    assert made.network.levels == open_pretrained().network.levels


@pytest.mark.parametrize(("rows", "look_back"), [(200, 32), (500, 48), (6_000, 512)])
def test_the_look_back_may_be_that_of_the_table(rows: int, look_back: int, tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", hourly(rows))
    words = ["data=csv", f"data.path={path}", "data.targets=[load]", "start_from=pretrained"]
    made = prepare(Settings.parse(composed(compose_words(words), words)))
    assert made.settings.lengths[0] == look_back
    assert made.settings.model["patch_length"] == made.settings.model["stride"] == 16


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.d_model=64", r"model.d_model=64: start_from=pretrained has 128"),
        ("attention=linear", r"attention=linear: start_from=pretrained has full"),
        ("loss=mae", r"loss=mae: start_from=pretrained has quantile"),
        ("horizon=300", r"horizon=300: start_from=pretrained has seen at most 192"),
    ],
)
def test_another_network_is_refused_by_name(word: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", hourly(4_000))
    with pytest.raises(InputError, match=message):
        prepare(settings(path, word))


def test_a_rate_that_is_given_counts(tmp_path: Path) -> None:
    assert settings(write(tmp_path / "my.csv", hourly(300)), "optimizer.lr=0.01").optimizer["lr"] == 0.01
