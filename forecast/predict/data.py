"""The data that a run was trained on, again, and cut for another look-back."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from forecast.common.errors import InputError
from forecast.common.files import read_json, sha256
from forecast.common.nested import look_up
from forecast.data.datamodule import ForecastData
from forecast.data.described import described_data
from forecast.data.placement import Placing
from forecast.data.settings import check_data
from forecast.data.sources import Source, load_source
from forecast.runs.resume import read_config
from forecast.runs.run import DAMAGE, RESULT, Run
from forecast.runs.settings import read_root, read_training

LATER = ("shown_frequency", "day_begins", "time_zone", "duplicates", "missing")
"""Keys of a manifest's `data` that runs of earlier versions lack."""


def same_source(run: Run, file: Path | None = None) -> Source:
    """Return the series of the run: that of the user's own `file`, of the run's file where it may lie, or simulated.

    Nothing is downloaded, and no file is read that only the run folder names elsewhere.

    Raises
    ------
    InputError
        If the file is gone, another one or not the folder's to name, or the run folder is damaged.
    """
    config, facts = read_config(run.path)["data"], _facts(run)
    check_data(config)
    if config["source"] == "synthetic":
        if file is not None:
            raise InputError(f"--data {file}: {run.path} was trained on a simulation: leave it out")
        return load_source(config)

    def command(name: str) -> str:
        return f"python -m forecast.predict.transplant --run {shlex.quote(str(run.path))} --data {shlex.quote(name)} …"

    path = file
    if path is None:
        path = Path(str(facts["path"]))
        described_data({**config, "path": str(path)}, run.path, command)
    if not path.is_file():
        raise InputError(f"{path}: the file that {run.path} was trained on is not there: put it back, or give --data")
    if sha256(path) != facts["sha256"]:
        raise InputError(f"{path}: not the file that {run.path} was trained on (its sha256 differs): put it back")
    return load_source({**config, "path": str(path), "sha256": None})


def data_at(run: Run, source: Source, context_length: int | None, device: torch.device) -> ForecastData:
    """Give the windows of the run's series, with its split and scaling, at a look-back or at the run's own.

    They are to be forecast on `device`, but are not there yet.

    Raises
    ------
    InputError
        If the look-back is too long for the data, or they do not give the run's own scaling.
    """
    config, trained = read_config(run.path), run.manifest()
    cycles = look_up(trained, "data.cycles")
    if isinstance(
        cycles, list
    ):  # which cycles a training part shows may have been said otherwise by an earlier version
        source = replace(source, cycles=tuple(cycles))
    root, training = read_root(config), read_training(config["training"])
    data = ForecastData(
        source,
        config["data"]["split"],
        context_length=root.context_length if context_length is None else context_length,
        horizon=root.horizon,
        batch_size=training.batch_size,
        evaluation_batch_size=training.evaluation_batch_size,
        seed=root.seed,
        placing=Placing(device=device, folder=run.path),
    )
    made = json.loads(json.dumps(data.manifest()))
    for key in (key for key in LATER if key not in (trained.get("data") or ())):
        made["data"].pop(key, None)
    if any(value != trained.get(key) for key, value in made.items()):
        raise InputError(f"{run.path}: its data are not those that it was trained on: train anew")
    return data


def _facts(run: Run) -> Mapping[str, Any]:
    try:
        facts = read_json(run.path / RESULT)["data"]
    except DAMAGE:
        facts = None
    if not isinstance(facts, Mapping) or not {"path", "sha256"} <= set(facts):
        raise InputError(f"{run.path / RESULT}: does not name the data: the run folder is damaged")
    return facts
