"""The data of a finished run, read again for a benchmark."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from forecast.common.errors import InputError
from forecast.common.files import read_json, sha256
from forecast.data.datamodule import ForecastData
from forecast.data.known import KnownEncoder
from forecast.data.settings import FILE, DataSettings
from forecast.data.sources import Source, described_data, load_source
from forecast.data.storage import Placing
from forecast.runs.resume import read_config
from forecast.runs.run import DAMAGE, RESULT, Run
from forecast.runs.settings import Settings


def same_source(run: Run) -> Source:
    """Load the series of the run from its file or the simulation.

    Nothing is downloaded. A file that only the run folder names is read in data folders only.
    """
    config, facts = read_config(run.path)["data"], _facts(run)
    settings = DataSettings.parse(config)
    if settings.source != FILE:
        return load_source(settings)
    path = Path(str(facts["path"]))
    described_data({**config, "path": str(path)}, run.path, lambda name: f"FORECAST_DATA_DIR={Path(name).parent} …")
    if not path.is_file():
        raise InputError(f"{path}: the data file of {run.path} does not exist: put it back")
    if sha256(path) != facts["sha256"]:
        raise InputError(f"{path}: not the data file of {run.path} (its sha256 differs): put the original back")
    return load_source(replace(settings, path=str(path), sha256=None))


def data_of(run: Run) -> ForecastData:
    """Return the windows of the run's series with its split and scaling, on the CPU."""
    source = same_source(run)
    settings, trained = Settings.parse(read_config(run.path)), run.manifest()
    look_back, horizon = settings.lengths
    data = ForecastData(
        source,
        settings.data.split,
        context_length=look_back,
        horizon=horizon,
        batch_size=settings.training.batch_size,
        evaluation_batch_size=settings.training.evaluation_batch_size,
        seed=settings.seed,
        placing=Placing(device=torch.device("cpu"), folder=run.path),
        encoder=KnownEncoder.from_dict(trained["data"]["encoder"]) if settings.start_from else None,
    )
    manifest = json.loads(json.dumps(data.contract().to_dict()))
    here, there = ((facts["data"].get("holidays") or {}).get("library") for facts in (manifest, trained))
    if here != there:
        raise InputError(
            f"{run.path}: was trained with version {there} of the package holidays, here is {here}: install that "
            "version, or train it again"
        )
    if any(value != trained.get(key) for key, value in manifest.items()):
        raise InputError(f"{run.path}: the data differ from those of training: train it again")
    return data


def _facts(run: Run) -> Mapping[str, Any]:
    try:
        facts = read_json(run.path / RESULT)["data"]
    except DAMAGE:
        facts = None
    if not isinstance(facts, Mapping) or not {"path", "sha256"} <= set(facts):
        raise InputError(f"{run.path / RESULT}: does not name the data: the run folder is damaged")
    return facts
