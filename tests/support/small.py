"""Small runs: configurations composed as on the command line, with generated tables."""

import csv
import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from forecast.common.files import DIGEST, write_sealed
from forecast.runs.run import MANIFEST, Run

ROOT = Path(__file__).resolve().parents[2]
CONTEXT, HORIZON = 48, 12

SIMULATED = [
    "data=synthetic",
    "data.rows=700",
    "data.targets=[oil_temperature_c]",
    "data.past_covariates=[ambient_temperature_c]",
]

SMALL = {
    "patch_informer": ["model.d_model=8", "model.d_ff=16", "model.num_heads=2", "model.patch_length=12"],
    "informer": ["model.d_model=8", "model.d_ff=16", "model.num_heads=2", "model.start_length=12"],
}
QUICK = [
    f"context_length={CONTEXT}",
    f"horizon={HORIZON}",
    "trainer.accelerator=cpu",
    "trainer.log_every_n_steps=1",
    "training.max_steps=12",
    "training.batch_size=16",
    "training.precision=32-true",
    "training.progress=false",
    "training.start_confidence=null",
    "optimizer.lr=0.003",
]


def compose(*overrides: str) -> dict[str, Any]:
    """Return the configuration of `python train.py <overrides>` as plain values."""
    return deepcopy(_composed(overrides))


@cache
def _composed(overrides: tuple[str, ...]) -> dict[str, Any]:
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
        config = hydra_compose("config", list(overrides))
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def quick(folder: Path, *overrides: str, model: str = "patch_informer") -> dict[str, Any]:
    """Return the configuration of a run of a few steps on 700 simulated hours, into `folder`."""
    data = [] if any(word.startswith("data=") for word in overrides) else SIMULATED
    words = [*data, f"model={model}", *SMALL[model], *QUICK, *overrides]
    return {**compose(*words), "output_dir": str(folder)}


def hourly(rows: int = 700, start: str = "2016-07-01", seed: int = 0) -> pd.DataFrame:
    """Return an hourly table with three columns of daily period and very different levels."""
    hour = np.arange(rows)
    noise = np.random.default_rng(seed).standard_normal((rows, 3))
    day = np.sin(2 * np.pi * hour / 24)
    return pd.DataFrame(
        {
            "date": pd.date_range(start, periods=rows, freq="h"),
            "load": 1000 + 100 * (day + 0.3 * noise[:, 0]),
            "oil": -5 + 0.1 * (day + 0.3 * noise[:, 1]),
            "air": 20 + 5 * (day + 0.3 * noise[:, 2]),
        }
    )


def write(path: Path, table: pd.DataFrame) -> Path:
    """Write the table as CSV."""
    table.to_csv(path, index=False)
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file as text."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def seal(folder: Path) -> None:
    """Write the manifest of a run folder for its current files; create it if there is none."""
    manifest = folder / MANIFEST
    content = json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}
    content.pop(DIGEST, None)
    Run(folder).seal(content)


def rewrite(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file of a run folder as the program does, with its digest and its hash in the manifest."""
    content.pop(DIGEST, None)
    write_sealed(path, content)
    if path.name != MANIFEST and (path.parent / MANIFEST).is_file():
        seal(path.parent)


def snapshot(*folders: Path) -> dict[str, bytes | None]:
    """Return the content of every file below the folders, None for a folder."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def changed(config: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Return a copy with values replaced; a key inside a group is written `group__key`."""
    copy = deepcopy(config)
    for name, value in values.items():
        *groups, key = name.split("__")
        node = copy
        for group in groups:
            node = node[group]
        node[key] = value
    return copy
