"""The name of a user's own data, where none is given: that of the file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST_NAME = 100
"""Letters of a name: folders are called by it, and files beside them by it and more."""

_TAKEN = ("sweeps", "benchmark")
"""Folders under `output_dir` that are not those of data."""


def named(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with `data.name`, taken from `data.path` where it is null."""
    data = config.get("data")
    if not isinstance(data, Mapping) or data.get("name", "") is not None or not isinstance(data.get("path"), str):
        return dict(config)
    return {**config, "data": {**data, "name": name_of(Path(data["path"]))}}


def name_of(path: Path) -> str:
    """Return the name of the data in a file: `aep_hourly` of aep_hourly.csv.gz, of letters that a folder may have."""
    name = path.name
    for end in (".gz", ".csv", ".parquet", ".pq"):
        if name.lower().endswith(end):
            name = name[: -len(end)]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:LONGEST_NAME]
    return f"{plain}-data" if plain.lower() in _TAKEN else plain or "table"
