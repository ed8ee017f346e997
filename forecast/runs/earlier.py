"""What the runs of earlier versions do not say, and what those versions did."""

from collections.abc import Mapping
from typing import Any

DATA = {"calendar": None}
FILE: dict[str, Any] = {"missing_values": []}
TRAINING = {"share_prior": 0}
MODEL = {"patch_informer": {"level": "window", "queries": "learned"}}


def data_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `data` group of a run's configuration with all the keys of this version."""
    data = config["data"]
    return {**DATA, **(FILE if data.get("source") == "file" else {}), **data}


def options_of(preset: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run's model, the preset's, with all those of this version."""
    return {**MODEL.get(preset, {}), **options}


def whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's configuration with all the keys of this version."""
    model = options_of(config["model"]["name"], config["model"])
    return {**config, "data": data_of(config), "model": model, "training": {**TRAINING, **config["training"]}}
