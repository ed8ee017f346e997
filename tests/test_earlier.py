"""Runs that were made before an option was there are what they were."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.earlier import whole
from forecast.errors import InputError
from forecast.forecaster import Forecaster
from forecast.run import CONFIG, MANIFEST, Run
from forecast.training import train
from tests.small import hourly, quick, write

pytestmark = pytest.mark.usefixtures("undrawn")

THEN = ["model.level=window", "model.queries=learned"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("earlier")
    table = hourly()
    source = f"data.path={write(folder / 'hours.csv', table)}"
    learnt = ["model.linear_path=zero", "optimizer.lr=0.01"]
    run, _ = train(quick(folder / "outputs", "data=csv", source, *learnt, *THEN))
    return run.path, table


def without_keys(path: Path, *groups: tuple[str, ...]) -> None:
    """Take the options of today out of a file."""
    content: dict[str, Any] = json.loads(path.read_text())
    for *way, key in groups:
        inner = content
        for part in way:
            inner = inner[part]
        assert inner.pop(key, 0) != 0
    path.write_text(json.dumps(content))


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
    stored = json.loads((made[0] / CONFIG).read_text())
    old = {**stored, "model": {key: stored["model"][key] for key in stored["model"] if key not in ("level", "queries")}}
    assert whole(old) == stored
    other = {"data": {"calendar": ["hour_of_day"]}, "model": {"name": "informer"}}
    assert whole(other) == other


def test_a_manifest_without_another_option_is_damaged(made: tuple[Path, pd.DataFrame]) -> None:
    without_keys(made[0] / MANIFEST, ("architecture", "options", "channels"))
    with pytest.raises(InputError, match="channels"):
        Run.open(made[0]).load_model()
