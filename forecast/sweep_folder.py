"""The folder of a sweep's job: the one that holds its configuration, whatever words that was asked for with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast.errors import InputError
from forecast.precision import choose_precision
from forecast.resume import differences, read_config
from forecast.run import CONFIG
from forecast.settings import read_training
from forecast.trainer_settings import choose_device


def job_folder(named: Path, config: Mapping[str, Any]) -> Path:
    """Give the folder of the job with this configuration, among those beside `named`, or else `named`.

    Raises
    ------
    InputError
        If `named` holds another configuration, or what is needed of this one cannot be used.
    """
    there = (named / CONFIG).is_file()
    differing = differences(config, read_config(named), budget=True) if there else []
    if there and not differing:
        return named
    settings = read_training(config["training"])
    precision = choose_precision(settings.precision, choose_device(config["trainer"]))
    settled = {**config, "training": {**config["training"], "precision": precision}}  # as the folders have it
    for folder in sorted(path.parent for path in named.parent.glob(f"*/{CONFIG}")):
        if folder != named and _holds(folder, settled):
            return folder
    if there:
        told = "; ".join(differing[:3])
        raise InputError(f"{named}: holds another run: {told}: choose another sweep.name, or remove the folder")
    return named


def _holds(folder: Path, config: Mapping[str, Any]) -> bool:
    try:
        return not differences(config, read_config(folder), budget=True)
    except InputError:  # a damaged folder is nobody's but that job's
        return False
