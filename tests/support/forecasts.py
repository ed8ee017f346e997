"""Forecasts from the command line, read back, and edited run folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from forecast.evaluation.adaptive import Adaptive, Forms
from forecast.evaluation.intervals import Calibration
from forecast.predict.__main__ import main as predict
from tests.support.small import rewrite, seal


def forecast(run: Path, source: Path, output: Path) -> int:
    return predict(["--run", str(run), "--input", str(source), "--output", str(output)])


def dated(path: Path) -> pd.DataFrame:
    """Return the values of a forecast file, with the times as index and without the naive forecasts beside them."""
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
    else:  # pandas before version 3 does not read all digits exactly
        table = pd.read_csv(path, index_col=0, dtype=object).astype(np.float64)
    beside = [f"{name}_naive" for name in table.columns]
    return table.drop(columns=beside, errors="ignore").set_index(pd.DatetimeIndex(table.index).as_unit("ns"))


def edit(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest in place."""
    path = run / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    rewrite(path, content)


def put(*keys: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that changes one value of the manifest; `...` removes the key."""

    def change(manifest: dict[str, Any]) -> None:
        node = manifest
        for key in keys[:-1]:
            node = node[key]
        if value is ...:
            del node[keys[-1]]
        else:
            node[keys[-1]] = value

    return change


def make_adaptive(run: Path, power: float = 0.5) -> Path:
    """Add to a run folder an adaptive interval form with the scores of its plain form, and return it."""
    path = run / "calibration.safetensors"
    plain = Forms.from_tensors(load_file(path)).plain
    _, horizon, series, _ = plain.scores.shape
    typical = plain.scores[..., 0].abs().nanmean(0).reshape(horizon, series)
    save_file(Forms(plain, Adaptive(typical, power, Calibration(plain.scores.clone()))).tensors(), path)
    seal(run)
    return run


def expect_one_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error
