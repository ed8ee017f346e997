"""A training that begins with the weights of a finished run."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from forecast.common.configuration import compose_words
from forecast.common.errors import InputError, Interrupted
from forecast.data.sources import load_source
from forecast.predict.ensemble import load
from forecast.runs.labels import arm_labels
from forecast.runs.run import Run
from forecast.runs.settings import Settings
from forecast.runs.summary import best_line
from forecast.training import start_from
from forecast.training.options import Options
from forecast.training.prepare import Preparation, make_data, prepare
from forecast.training.start_from import Beginning, composed, keep_mixing_weight
from forecast.training.task import freeze
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.interruptions import assert_same, interrupt, train_in_two_parts
from tests.support.panels import stores
from tests.support.small import changed, hourly, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table with the columns of the run, of other rows."""
    return write(tmp_path_factory.mktemp("later") / "later.csv", hourly(500, start="2016-09-01", seed=5))


def words_of(tiny_run: TinyRun, later: Path, *more: str) -> list[str]:
    start = [f"start_from='{tiny_run.path}'", f"output_dir='{later.parent / 'outputs'}'", "trainer.accelerator=cpu"]
    return ["data=csv", f"data.path={later}", *start, "training.progress=false", "training.max_steps=3", *more]


def configuration(tiny_run: TinyRun, later: Path, *more: str) -> dict[str, Any]:
    words = words_of(tiny_run, later, *more)
    return composed(compose_words(words), words)


@pytest.fixture(scope="module")
def prepared(tiny_run: TinyRun, later: Path) -> Preparation:
    return prepared_with(tiny_run, later, "freeze=[encoder]")


def prepared_with(tiny_run: TinyRun, later: Path, *words: str) -> Preparation:
    settings = Settings.parse(configuration(tiny_run, later, *words))
    return prepare(settings, load_source(settings.data))


def test_the_network_begins_with_the_weights_of_the_run(tiny_run: TinyRun, prepared: Preparation) -> None:
    trained = Run(tiny_run.path).load_model().state_dict()
    for name, tensor in prepared.network.state_dict().items():
        torch.testing.assert_close(tensor, trained[name], rtol=0, atol=0)


def test_architecture_and_roles_come_from_the_run(tiny_run: TinyRun, later: Path) -> None:
    plain, own = configuration(tiny_run, later), tiny_run.config
    for key in ("model", "attention", "context_length", "horizon", "loss"):
        assert plain[key] == own[key], key
    assert plain["data"]["targets"] == ["load", "oil"]
    assert plain["data"]["past_covariates"] == ["air"]
    assert plain["training"]["batch_size"] == 64, "how it trains does not come from the run"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("model.d_model=16", "model.d_model=16: start_from="),
        ("attention=probsparse", "attention.name=probsparse: start_from="),
        ("horizon=24", "horizon=24: start_from="),
        ("loss=quantile", "loss=quantile: start_from="),
        ("model=informer", "model.name=informer: start_from="),
    ],
)
def test_another_architecture_is_refused(tiny_run: TinyRun, later: Path, word: str, text: str) -> None:
    with pytest.raises(InputError) as error:
        configuration(tiny_run, later, word)
    assert str(error.value).startswith(text)
    assert str(error.value).endswith("its weights fit no other network: leave it out")


@pytest.mark.parametrize("word", ["horizon=12", "attention=full", "horizon=null", "loss=mse", "data.targets=[oil]"])
def test_an_option_that_agrees_or_is_no_architecture_is_accepted(tiny_run: TinyRun, later: Path, word: str) -> None:
    plain = configuration(tiny_run, later, word)
    assert plain["horizon"] == 12
    assert plain["loss"] == ("mse" if word == "loss=mse" else "mae")
    assert plain["data"]["targets"] == (["oil"] if "targets" in word else ["load", "oil"])


def test_another_table_is_refused_by_what_differs(tiny_run: TinyRun, later: Path, tmp_path: Path) -> None:
    def check(text: str, table: Path, *words: str) -> None:
        settings = Settings.parse(configuration(tiny_run, table, *words))
        with pytest.raises(InputError) as error:
            start.check_table(load_source(settings.data))
        assert text in str(error.value)
        assert "\n" not in str(error.value)

    start = Beginning.of(str(tiny_run.path))
    assert start is not None
    check("has a step of h, and this training 2h", write(tmp_path / "slow.csv", hourly(900)[::2]))
    check("has targets: 2, and this training 1", later, "data.targets=[load]")
    check("has past covariates: 1, and this training 0", later, "data.past_covariates=[]")
    check("'air'", write(tmp_path / "without.csv", hourly(500).drop(columns="air")))


def test_another_network_is_refused_by_what_differs(tiny_run: TinyRun, prepared: Preparation) -> None:
    start, architecture = prepared.start, prepared.architecture
    assert start is not None
    wider = replace(architecture, options={**architecture.options, "d_model": 16})
    with pytest.raises(InputError, match=r"has model.d_model 8, and this training 16"):
        start.check_network(wider, prepared.data)
    with pytest.raises(InputError, match="has calendar cycles"):
        replace(start, contract=replace(start.contract, cycles=["month"])).check_network(architecture, prepared.data)


@pytest.mark.parametrize("word", ["nowhere", "."])
def test_what_is_no_run_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=f"start_from={word}: .*start_from") as error:
        Beginning.of(word)
    assert "--run" not in str(error.value)


def test_labels_are_those_of_the_run(panel_run: TinyRun, tmp_path: Path) -> None:
    table = stores()
    table["kind"] = table["kind"].replace("a", "new")
    config = {**panel_run.config, "start_from": str(panel_run.path)}
    config = changed(config, data__path=str(write(tmp_path / "stores.csv", table)))
    settings = Settings.parse(config)
    data = make_data(settings, load_source(settings.data), torch.device("cpu"))
    start = Beginning.of(settings.start_from)
    assert start is not None
    assert data.encoder == start.contract.encoder
    with pytest.raises(InputError, match=r"has known covariates \['kind', 'promo'\], and this training \['promo'\]"):
        start.check_table(load_source(Settings.parse(changed(config, data__known_covariates=["promo"])).data))
    assert any("'new'" in note and "count as unknown" in note for note in data.notes)


def test_a_frozen_part_does_not_learn_and_has_no_dropout(prepared: Preparation) -> None:
    task, network = prepared.task, prepared.network
    assert not any(weight.requires_grad for weight in network.encoder.parameters())
    assert all(weight.requires_grad for weight in network.decoder.parameters())
    task.eval()
    task.train()
    assert network.decoder.training
    assert not any(module.training for module in network.encoder.modules())


def test_a_part_that_does_not_exist_and_every_part_are_refused(prepared: Preparation) -> None:
    with pytest.raises(InputError, match="freeze=encodr: the network has no such part: choose from tokens, encoder"):
        freeze(prepared.network, ["encodr"])
    network: Any = nn.Sequential(nn.Linear(1, 1))
    with pytest.raises(InputError, match="freeze=0: nothing is left to train"):
        freeze(network, ["0"])


@pytest.mark.parametrize(("with_it", "kept"), [(0.9, 0.5), (1.1, 0.0)])
def test_the_mixing_weight_stays_if_validation_is_better_with_it(
    with_it: float, kept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.combination = nn.Module()
            self.combination.register_buffer("mixing_weight", torch.tensor(0.5))

        @property
        def mixing_weight(self) -> float:
            return float(self.combination.mixing_weight)  # type: ignore[arg-type]

    def evaluate(task: Any, *_: object) -> SimpleNamespace:
        mse = with_it if task.network.mixing_weight else 1.0
        return SimpleNamespace(sums=SimpleNamespace(scaled=lambda: {"mse": mse}))

    task: Any = nn.Module()
    task.network = Mixed()
    windows: Any = SimpleNamespace(starts=torch.zeros(1))
    monkeypatch.setattr(start_from, "evaluate", evaluate)
    keep_mixing_weight(task, windows, 8)
    assert task.network.mixing_weight == kept


def test_rows_that_the_run_has_seen_are_named(prepared: Preparation) -> None:
    start = prepared.start
    assert start is not None
    assert "note:" not in " ".join(start.lines(prepared.data, prepared.task))
    line = replace(start, seen="2030-01-01 00:00:00").lines(prepared.data, prepared.task)[-1]
    assert line.startswith("note: the run has seen rows up to 2030-01-01 00:00:00: if they are in this table")


def test_any_better_score_counts_after_a_start_unless_validation_is_short(
    tiny_run: TinyRun, later: Path, prepared: Preparation
) -> None:
    assert prepared.confidence == 0.9, "41 validation windows are 3 blocks"
    assert prepared_with(tiny_run, later, "data.split={train:0.5,validation:0.3,test:0.2}").confidence is None


def test_a_model_or_its_folder_is_taken_from_python(tiny_run: TinyRun) -> None:
    assert Options.of({"start_from": load(tiny_run.path)}).values == {"start_from": str(tiny_run.path)}
    assert Options.of({"start_from": Path("pretrained")}).values == {"start_from": "./pretrained"}, "a folder"
    assert Options.of({"start_from": "pretrained"}).values == {"start_from": "pretrained"}
    with pytest.raises(InputError, match="start_from: is an ensemble"):
        Options.of({"start_from": SimpleNamespace(path=None)})


def test_two_kinds_of_start_are_two_settings_of_a_report(tiny_run: TinyRun) -> None:
    labels = arm_labels([{**tiny_run.config, "start_from": start} for start in (None, "outputs/a", "outputs/b")])
    assert labels == ["full", "full, start_from=outputs/a", "full, start_from=outputs/b"]


def test_a_result_whose_best_step_is_the_start_says_so(tiny_run: TinyRun) -> None:
    model = {**tiny_run.result["model"], "best_step": 0, "steps": 500, "validation_blocks": None, "mixing_weight": 0.4}
    start = {"kind": "run", "run": "outputs/a", "weights": "ab"}
    line = best_line({**tiny_run.result, "model": model, "start_from": start})
    assert "no step is better than the weights of outputs/a. Forecast = 40 % encoder-decoder" in line
    short = {**model, "validation_blocks": 1}
    line = best_line({**tiny_run.result, "model": short, "start_from": start})
    assert line.endswith("lets any better score count. Forecast = 40 % encoder-decoder + 60 % linear path.")


@pytest.mark.slow
def test_a_run_says_where_its_weights_come_from_and_resumes_to_the_same_weights(
    tiny_run: TinyRun,
    later: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = configuration(tiny_run, later, "logger=null", "freeze=[encoder]", "training.start_confidence=null")
    whole = train(config, folder=tmp_path / "whole")
    result = whole[1]
    weights = Run(tiny_run.path).manifest()["files"]["model.safetensors"]["sha256"]
    began = {"kind": "run", "run": str(tiny_run.path), "weights": weights, "pretrained_on": None}
    assert result["start_from"] == began
    assert whole[0].manifest()["start_from"] == began
    assert result["validations"][0]["step"] == 0
    printed = capsys.readouterr().out
    assert f"start: the weights of {tiny_run.path}" in printed
    assert "not trained: " in printed
    assert load(whole[0].path).contract.cycles == load(tiny_run.path).contract.cycles
    before, after = (Run(path).load_model().state_dict() for path in (tiny_run.path, whole[0].path))
    same = {name.partition(".")[0] for name, tensor in after.items() if torch.equal(tensor, before[name])}
    assert "encoder" in same

    assert_same(*train_in_two_parts(config, tmp_path / "parts", 2, monkeypatch), whole)


@pytest.mark.slow
def test_a_resumed_run_whose_start_has_changed_is_refused_by_name(
    tiny_run: TinyRun, second_run: Path, later: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, folder = tmp_path / "base", tmp_path / "run"
    copytree(tiny_run.path, base)
    config = configuration(tiny_run, later, "logger=null") | {"start_from": str(base)}
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == 2)
    with pytest.raises(Interrupted):
        train(config, folder=folder)
    rmtree(base)
    copytree(second_run, base)
    with pytest.raises(InputError, match=rf"{folder}: start_from={base} has changed since this run began"):
        train(config, folder=folder)


def test_what_came_before_a_run_stays_known(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = load(tiny_run.path)
    earlier = {**model.result, "start_from": {"kind": "pretrained", "pretrained_on": "generated series only"}}
    monkeypatch.setattr(type(model), "result", earlier)
    monkeypatch.setattr(start_from, "load", lambda word: model)
    start = Beginning.of(str(tiny_run.path))
    assert start is not None
    assert start.facts["pretrained_on"] == "generated series only"
