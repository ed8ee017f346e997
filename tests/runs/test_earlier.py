"""Runs that were made before an option was there are what they were."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError, Interrupted
from forecast.common.files import read_json
from forecast.common.naming import named
from forecast.evaluation.share import SHARES
from forecast.predict.forecaster import Forecaster
from forecast.predict.transplanted import data_at, same_source
from forecast.runs.earlier import whole
from forecast.runs.labels import data_key
from forecast.runs.resume import differences, read_config
from forecast.runs.run import CONFIG, MANIFEST, RESULT, Run
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.small import changed, hourly, quick, rewrite, write

pytestmark = pytest.mark.usefixtures("undrawn")

THEN = ["model.level=window", "model.queries=learned", "training.share_prior=0"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("earlier")
    table = hourly()
    source = f"data.path={write(folder / 'hours.csv', table)}"
    learnt = ["model.linear_path=zero", "optimizer.lr=0.01"]
    run, _ = train(quick(folder / "outputs", "data=csv", source, *learnt, *THEN))
    return run.path, table


@pytest.fixture
def made(trained: tuple[Path, pd.DataFrame], tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """Return a copy, to be changed, and what it was trained on."""
    return shutil.copytree(trained[0], tmp_path / "run"), trained[1]


def without_keys(path: Path, *groups: tuple[str, ...]) -> None:
    """Take the options of today out of a file."""
    content: dict[str, Any] = json.loads(path.read_text())
    for *way, key in groups:
        inner = content
        for part in way:
            inner = inner[part]
        del inner[key]
    rewrite(path, content)


def test_a_model_without_the_keys_forecasts_as_it_did(made: tuple[Path, pd.DataFrame]) -> None:
    path, table = made
    expected = Forecaster.load(path).predict(table)
    options = [("architecture", "options", key) for key in ("level", "queries")]
    without_keys(path / MANIFEST, *options)
    pd.testing.assert_frame_equal(Forecaster.load(path).predict(table), expected)
    assert Run.open(path).load_model().normalization.newest is None


def test_a_configuration_without_them_is_that_of_then_and_of_others_nothing_is_added(
    made: tuple[Path, pd.DataFrame],
) -> None:
    stored = read_json(made[0] / CONFIG)
    keys = ("level", "queries", "share_prior", "calendar", "missing_values")
    old = {
        name: {key: group[key] for key in group if key not in keys} if isinstance(group, dict) else group
        for name, group in stored.items()
    }
    assert old != stored
    assert whole(old) == stored
    other = {"data": {"calendar": ["hour_of_day"]}, "model": {"name": "informer"}, "training": {"share_prior": 30}}
    assert whole(other) == other


def test_a_run_without_missing_values_forecasts_the_same_as_one_that_names_none(trained: tuple[Path, Any]) -> None:
    result = read_json(trained[0] / RESULT)
    data = result["config"]["data"]
    assert data["missing_values"] == []
    told = [{**data, "missing_values": values} for values in ([], [-9999])]
    told.append({key: value for key, value in data.items() if key != "missing_values"})
    keys = [data_key({**result, "config": {**result["config"], "data": each}}) for each in told]
    assert keys[0] == keys[2] != keys[1]


def test_a_run_without_them_is_transplanted(made: tuple[Path, pd.DataFrame]) -> None:
    without_keys(made[0] / CONFIG, *[("model", key) for key in ("level", "queries")], ("training", "share_prior"))
    run = Run.open(made[0])
    source = same_source(run, Path(read_json(run.path / RESULT)["data"]["path"]))
    test = data_at(run, source, None, torch.device("cpu")).parts["test"]
    assert len(test) == read_json(run.path / RESULT)["data"]["windows"]["test"]


def test_a_manifest_without_another_option_is_damaged(made: tuple[Path, pd.DataFrame]) -> None:
    without_keys(made[0] / MANIFEST, ("architecture", "options", "channels"))
    with pytest.raises(InputError, match="channels"):
        Run.open(made[0]).load_model()


def test_a_run_of_then_goes_on_as_it_began_and_is_none_of_today_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share that validation liked was taken whole; half a day tells the closed form little, so it is large."""
    source = f"data.path={write(tmp_path / 'hours.csv', hourly())}"
    words = ["model.linear_path=weighted", "training.linear_path_rate=0", "optimizer.lr=0.01", "training.max_steps=60"]
    config = quick(tmp_path / "outputs", "data=csv", source, "context_length=12", *words, *THEN)
    _, expected = train(config)
    original = ForecastTask.training_step

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 40:
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", interrupted)
    with pytest.raises(Interrupted):
        train(changed(config, output_dir=str(tmp_path / "stopped")))
    monkeypatch.setattr(ForecastTask, "training_step", original)
    (path,) = (file.parent for file in (tmp_path / "stopped").rglob(CONFIG))
    without_keys(path / CONFIG, ("model", "level"), ("model", "queries"), ("training", "share_prior"))
    _, result = train(changed(config, resume=str(path)), overrides=[f"resume={path}", source])
    assert result["model"] == expected["model"]
    assert result["model"]["share"] in SHARES[1:]
    assert result["test"]["scaled"] == expected["test"]["scaled"]
    today = changed(config, training__share_prior=30)
    assert differences(named(today), read_config(path)) == ["training.share_prior is 0 there and 30 here"]
