"""The probe during a training: it runs at each validation and does not change the training."""

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
from tests.support.kept import kept_run
from tests.support.small import quick

pytestmark = [
    pytest.mark.usefixtures("drawn"),
    pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated"),
]

PLACES = ["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"]
OWN = [
    *("attention=probsparse", "attention.factor=1", "attention@cross_attention=mean", "model.dropout=0.2"),
    *("model.encoder_layers=2", "model.decoder_layers=1", "training.validations_per_epoch=6.5", "~callbacks.figures"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probe")


@pytest.fixture(scope="module")
def probed() -> tuple[Any, dict[str, Any]]:
    """Return a run with dropout, sampling and batch norm, validated every few steps."""
    words = [*OWN, "callbacks.probe.windows=2"]
    return kept_run("probed", lambda folder: train(quick(folder / "outputs", *words, model="informer")))


@pytest.mark.slow
def test_each_validation_logs_every_measure_and_a_table(probed: Any) -> None:
    run, result = probed
    steps = list(curve(run.path, "val/mse"))
    assert len(steps) >= 3
    tags = {tag for tag in events(run.path).Tags()["scalars"] if tag.startswith("probe/")}
    wanted = {f"probe/{measure}/{place}" for measure in ("distance", "entropy") for place in PLACES}
    assert tags == wanted | {f"probe/found/{place}" for place in PLACES[:3]}
    assert all(list(curve(run.path, tag)) == steps for tag in tags)
    tables = texts(run.path, "probe/table")
    assert list(tables) == steps
    assert len(tables[steps[-1]].splitlines()) == 2 + 2 * len(PLACES)
    assert list(result["probe"]["layers"]) == PLACES


def test_the_last_findings_are_in_the_result_and_in_tensorboard(probed: Any) -> None:
    run, result = probed
    content = read_json(run.path / "result.json")["probe"]
    assert content == result["probe"]
    assert content["step"] == result["model"]["steps"]
    assert content["windows"] == 2
    last = last_scalars(run.path)
    for place, layer in content["layers"].items():
        assert last[f"probe/distance/{place}"] == pytest.approx(sum(layer["distance"]) / 2, rel=1e-6)
    cross = content["layers"]["decoder.0.cross"]
    assert cross["distance"] == pytest.approx(cross["distance_of_mean"], rel=1e-4)
    assert len(events(run.path).Images("probe/heads")) == 1


def test_the_time_of_the_probe_is_a_speed_figure(probed: Any) -> None:
    run, result = probed
    assert 0 < result["speed"]["probe_share"] < 1
    assert last_scalars(run.path)["speed/probe_share"] == pytest.approx(result["speed"]["probe_share"], rel=1e-6)


@pytest.mark.exhaustive
def test_weights_and_scores_are_identical_without_the_probe(probed: Any, folder: Path) -> None:
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


@pytest.mark.slow
def test_the_probe_of_a_bf16_training_is_in_float32_on_one_validation_batch(folder: Path) -> None:
    logger = {"_target_": "lightning.pytorch.loggers.CSVLogger", "name": "csv", "version": ""}
    config = quick(
        folder,
        "training.precision=bf16-mixed",
        "training.max_steps=2",
        "training.evaluation_batch_size=3",
        "training.evaluation_stride=12",
    )
    run, result = train({**config, "logger": logger})
    assert max(max(layer["distance"]) for layer in result["probe"]["layers"].values()) < 1e-5
    assert result["probe"]["windows"] == 3
    assert "probe/distance/encoder.0.self" in (run.path / "csv" / "metrics.csv").read_text()
    assert load_file(run.path / "model.safetensors")


def test_only_the_leading_process_probes() -> None:
    task = ForecastTask.__new__(ForecastTask)
    object.__setattr__(task, "group", Group(Place(1, 2, 1, 2)))
    follower = Probe(2)
    follower.on_validation_epoch_end(SimpleNamespace(), task)  # type: ignore[arg-type]  # probing would need data
    assert follower.last is None
    assert follower.seconds == 0


def test_the_state_is_restored() -> None:
    probe, again = Probe(2), Probe(2)
    probe.load_state_dict({"last": {"step": 3}, "seconds": 1.5})
    again.load_state_dict(probe.state_dict())
    assert (again.last, again.seconds) == ({"step": 3}, 1.5)


@pytest.mark.parametrize("windows", [0, -1, 1.5, True, "x"])
def test_an_invalid_number_of_windows_is_refused(windows: Any) -> None:
    with pytest.raises(InputError, match="windows="):
        Probe(windows)
