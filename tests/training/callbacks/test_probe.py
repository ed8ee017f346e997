"""The probe in a training: there at each validation, and the training none the wiser."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.common.group import Group
from forecast.common.place import Place
from forecast.training.callbacks.probe import Probe
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.boards import curve, events, last_scalars, texts
from tests.support.small import quick

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")

PLACES = ["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"]
OWN = [
    *("attention=probsparse", "attention.factor=1", "attention@cross_attention=mean", "model.dropout=0.2"),
    *("model.encoder_layers=2", "model.decoder_layers=1", "training.validations_per_epoch=6.5"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probe")


@pytest.fixture(scope="module")
def probed(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a run with dropout, sampling and batch norm, validated every few steps."""
    return train(quick(folder, *OWN, "callbacks.probe.windows=2", model="informer"))


def test_each_validation_has_a_point_a_measure_and_attention_and_a_table(probed: Any) -> None:
    run, result = probed
    steps = list(curve(run.path, "val/mse"))
    assert len(steps) >= 3
    tags = {tag for tag in events(run.path).Tags()["scalars"] if tag.startswith("probe/")}
    wanted = {f"probe/{measure}/{place}" for measure in ("distance", "entropy") for place in PLACES}
    assert tags == wanted | {f"probe/found/{place}" for place in PLACES[:3]}
    assert all(list(curve(run.path, tag)) == steps for tag in tags)
    tables = texts(run.path, "probe/heads")
    assert list(tables) == steps
    assert len(tables[steps[-1]].splitlines()) == 2 + 2 * len(PLACES)
    assert list(result["probe"]["layers"]) == PLACES


def test_the_last_numbers_are_in_the_result_and_on_the_board(probed: Any) -> None:
    run, result = probed
    content = read_json(run.path / "result.json")["probe"]
    assert content == result["probe"]
    assert content["step"] == result["model"]["steps"]
    assert content["windows"] == 2
    last = last_scalars(run.path)
    for place, found in content["layers"].items():
        assert last[f"probe/distance/{place}"] == pytest.approx(sum(found["distance"]) / 2, rel=1e-6)
    cross = content["layers"]["decoder.0.cross"]
    assert cross["distance"] == pytest.approx(cross["distance_of_mean"], rel=1e-4)
    assert len(events(run.path).Images("probe/heads")) == 1


def test_the_probe_s_cost_is_part_of_the_speed(probed: Any) -> None:
    run, result = probed
    assert 0 < result["speed"]["probe_share"] < 1
    assert last_scalars(run.path)["speed/probe_share"] == pytest.approx(result["speed"]["probe_share"], rel=1e-6)


def test_weights_and_scores_are_the_same_digit_for_digit_without_it(probed: Any, folder: Path) -> None:
    run, result = probed
    plain, without = train(quick(folder, *OWN, "~callbacks.probe", model="informer"))
    assert without["probe"] is None
    assert "probe_share" not in without["speed"]
    assert not [
        tag for tags in events(plain.path).Tags().values() if isinstance(tags, list) for tag in tags if "probe" in tag
    ]
    for part in ("validation", "test", "model"):
        assert without[part] == result[part]
    assert (plain.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
    for name in ("train/loss", "train/gradient_norm", "val/mse"):
        assert curve(plain.path, name) == curve(run.path, name)


def test_it_looks_in_float32_at_a_training_in_bf16_at_no_more_windows_than_a_validation_batch_has(folder: Path) -> None:
    logger = {"_target_": "lightning.pytorch.loggers.CSVLogger", "name": "csv", "version": ""}
    config = quick(folder, "training.precision=bf16-mixed", "training.max_steps=2", "training.evaluation_batch_size=3")
    run, result = train({**config, "logger": logger})
    assert max(max(found["distance"]) for found in result["probe"]["layers"].values()) < 1e-5
    assert result["probe"]["windows"] == 3
    assert "probe/distance/encoder.0.self" in (run.path / "csv" / "metrics.csv").read_text()
    assert load_file(run.path / "model.safetensors")


def test_of_several_processes_only_the_one_that_leads_looks() -> None:
    task = ForecastTask.__new__(ForecastTask)
    object.__setattr__(task, "group", Group(Place(1, 2, 1, 2)))
    follower = Probe(2)
    follower.on_validation_epoch_end(SimpleNamespace(), task)  # type: ignore[arg-type]  # it would ask for data
    assert follower.last is None
    assert follower.seconds == 0


def test_it_goes_on_with_what_it_had() -> None:
    probe, again = Probe(2), Probe(2)
    probe.load_state_dict({"last": {"step": 3}, "seconds": 1.5})
    again.load_state_dict(probe.state_dict())
    assert (again.last, again.seconds) == ({"step": 3}, 1.5)


@pytest.mark.parametrize("windows", [0, -1, 1.5, True, "x"])
def test_a_number_of_windows_that_is_none_is_refused(windows: Any) -> None:
    with pytest.raises(InputError, match="windows="):
        Probe(windows)
