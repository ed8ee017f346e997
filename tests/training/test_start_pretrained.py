"""`start_from=pretrained`: the network begins with the weights of the package, and new parts at zero."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.common.configuration import compose_words
from forecast.common.errors import InputError, Interrupted
from forecast.export.__main__ import main as export
from forecast.plan.worker import _length, _longest
from forecast.predict.ensemble import load_exported
from forecast.pretrained.weights import open_pretrained
from forecast.runs.labels import arm_labels
from forecast.runs.resume import differences
from forecast.runs.run import Run
from forecast.runs.settings import Settings
from forecast.training import start_from
from forecast.training.prepare import Preparation
from forecast.training.start_from import composed
from forecast.training.start_pretrained import RATE
from forecast.training.train import train
from tests.support.boards import hparams_tab, texts
from tests.support.interruptions import assert_same, interrupt, train_in_two_parts
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


def test_a_plan_scores_the_start_and_has_no_longer_look_back_than_its_weights(
    made: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _length(replace(made, linear_maps=replace(made.linear_maps, start=None))).scores_start
    seen = open_pretrained().architecture.sizes.context_length
    monkeypatch.setattr(made.data, "split", replace(made.data.split, train=range(10 * seen)))
    assert _longest(made) == seen


def test_the_label_of_an_arm_names_the_start_before_the_options_that_follow_from_it(tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", hourly(300))
    words = ["data=csv", f"data.path={path}"]
    scratch, began = composed(compose_words(words), words), settings(path).plain
    assert arm_labels([scratch, began]) == ["full", "full, start_from=pretrained"]
    others = [scratch | {"attention": {"name": "linear"}}, began]
    assert arm_labels(others) == ["linear", "full, start_from=pretrained"], "named although the mechanism tells"


def test_another_start_is_the_first_difference_of_two_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", hourly(300))
    words = ["data=csv", f"data.path={path}"]
    first, *others = differences(composed(compose_words(words), words), settings(path).plain, budget=True)
    assert first == "start_from is pretrained there and None here"
    assert any(line.startswith("loss is ") for line in others)


Trained = tuple[dict[str, Any], tuple[Run, dict[str, Any]]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    path = write(folder / "my.csv", hourly(400))
    few = ["data.targets=[load]", "training.max_steps=3", "training.progress=false", "trainer.accelerator=cpu"]
    config = settings(path, *few).plain
    return config, train(config, folder=folder / "whole")


@pytest.mark.slow
@pytest.mark.usefixtures("signals_and_threads", "graph_once")
def test_result_manifest_board_and_exported_file_name_the_start(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, result = trained[1]
    card = open_pretrained().card
    began = {"kind": "pretrained", "run": None, "weights": card["sha256"], "pretrained_on": card["trained_on"]}
    assert result["start_from"] == began
    assert run.manifest()["start_from"] == began
    (text,) = texts(run.path, "1_summary").values()
    assert f"start: the pretrained network {card['sha256'][:8]}" in text
    ((options, _),) = hparams_tab(run.path).values()
    assert options["start_from"] == "pretrained"
    capsys.readouterr()
    assert export(["--run", str(run.path), "--output", str(tmp_path / "model.pt2")]) == 0
    named = f"began with the pretrained network {card['sha256'][:8]}; pretrained on generated series only"
    assert named in capsys.readouterr().out
    facts = load_exported(tmp_path / "model.pt2").facts
    assert facts is not None
    assert facts.start == began


@pytest.mark.slow
@pytest.mark.usefixtures("signals_and_threads")
def test_an_interrupted_run_ends_with_the_same_weights(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(*train_in_two_parts(trained[0], tmp_path, 2, monkeypatch), trained[1])


@pytest.mark.slow
@pytest.mark.usefixtures("signals_and_threads")
def test_a_run_is_not_resumed_with_the_weights_of_another_version(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == 2)
    with pytest.raises(Interrupted):
        train(trained[0], folder=tmp_path / "run")
    other = replace(open_pretrained(), card={**open_pretrained().card, "sha256": "1234" * 16})
    monkeypatch.setattr(start_from, "open_pretrained", lambda: other)
    with pytest.raises(InputError, match=r"start_from=pretrained has changed since this run began .*, now 12341234"):
        train(trained[0], folder=tmp_path / "run")
