"""M4 hourly (GIFT-Eval `m4_hourly/H/short`): the scores of a model, and of simple forecasts, on the last 48 hours.

`python -m benchmarks.published.m4_hourly --score full` trains on the rows before them, on whose last 48 the recipe was
chosen, and scores the forecast. Sources: Makridakis et al., "The M4 Competition", International Journal of Forecasting
36 (2020); GIFT-Eval, github.com/SalesforceAIResearch/gift-eval (Apache-2.0).
"""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.published.contest import only_run
from benchmarks.published.lanes import Commands
from benchmarks.published.record import add_row
from benchmarks.published.rossmann import JUDGED_BY, RECORD
from benchmarks.published.tasks import Floats, data_folder
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json
from forecast.common.tables import Row
from forecast.predict.ensemble import load
from forecast.predict.panel import PanelForecaster
from forecast.runs.results import commit, device_name
from forecast.runs.run import MANIFEST, RESULT

HORIZON, SEASON = 48, 24
NAIVE_MASE = 1.193
"""Published MASE of the seasonal naive forecast."""

ID, TIME, TARGET = "series_id", "timestamp", "value"
LEVEL = 80
"""The interval whose coverage is scored beside the median."""

RECIPE = (
    *("experiment=m4_hourly", "data.split={train: 912, validation: 48, test: 0}"),
    "training.progress=false",
)
"""Overrides of the training: all rows before the scored ones, the last 48 of them for validation."""


def parts(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows before the scored hours, and these, the last of each series."""
    last = table.groupby(ID).cumcount(ascending=False) < HORIZON
    return table[~last], table[last]


def scores(table: pd.DataFrame, forecast: Floats, ends: tuple[Floats, Floats] | None = None) -> dict[str, float]:
    """Return the MASE of a point forecast (S, 48), the mean over the series in the order of the table.

    The seasonal error of a series is that of its rows before. With the `ends` of the 80 % interval, their coverage too.
    """
    past, truth = parts(table)
    season = past.groupby(ID, sort=False)[TARGET].agg(lambda values: values.diff(SEASON).abs().mean())
    came = truth[TARGET].to_numpy(np.float64).reshape(-1, HORIZON)
    mase = float((np.abs(came - forecast).mean(1) / season.to_numpy()).mean())
    if ends is None:
        return {"MASE": mase}
    return {"MASE": mase, "covered_80": float(((ends[0] <= came) & (came <= ends[1])).mean())}


def seasonal_naive(table: pd.DataFrame) -> Floats:
    """Return the last day of each series before the scored hours, repeated."""
    last = parts(table)[0].groupby(ID, sort=False)[TARGET].apply(lambda values: values.to_numpy()[-SEASON:])
    return np.tile(np.stack(last.to_list()), HORIZON // SEASON)


def forecast_of(run: Path, table: pd.DataFrame) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return the median (S, 48) of a trained run and the ends of its 80 % interval, from the rows before."""
    model = load(run)
    assert isinstance(model, PanelForecaster)
    past = parts(table)[0]
    found = model.predict(past, levels=(LEVEL,)).set_index(ID).loc[past[ID].unique()]
    median, low, high = (
        found[name].to_numpy(np.float64).reshape(-1, HORIZON)
        for name in (TARGET, f"{TARGET}_lower_{LEVEL}", f"{TARGET}_upper_{LEVEL}")
    )
    return median, (low, high)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published.m4_hourly",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--score", nargs="+", choices=["full", "seasonal_naive"], default=[], help="score these rows")
    parser.add_argument("--folder", type=Path, default=Path("outputs/published/m4_hourly"), help="folder of the runs")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    table = pd.read_parquet(data_folder() / "m4_hourly.parquet")[[ID, TIME, TARGET]]
    mase = scores(table, seasonal_naive(table))["MASE"]
    if round(mase, 3) != NAIVE_MASE:
        raise InputError(f"m4_hourly: MASE of the seasonal naive forecast {mase:.3f}, published {NAIVE_MASE}")
    print(f"m4_hourly: MASE of the seasonal naive forecast {mase:.3f}, as published", flush=True)
    if options.score and str(commit(JUDGED_BY)).endswith("+changes"):
        raise InputError("the program or the recipe has changes: commit them first, since a score names its commit")
    for name in options.score:
        row = row_of(name, table, options.folder)
        add_row(options.record, row)
        print(f"{name}: MASE {row['MASE']:.4f}, {row['minutes']:.1f} minutes", flush=True)


def row_of(name: str, table: pd.DataFrame, folder: Path) -> Row:
    """Return the row of the record: the scores of the seasonal naive forecast, or of a trained model."""
    began, command, peak = time.monotonic(), "", None
    if name == "seasonal_naive":
        found = scores(table, seasonal_naive(table))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        past = folder / "past.parquet"
        parts(table)[0].to_parquet(past, index=False)
        if not any(folder.glob(f"*/*/{MANIFEST}")):
            words = ["data=m4_hourly", f"data.path={past}", "data.sha256=null", *RECIPE, f"output_dir={folder}"]
            Commands().run(["-m", "forecast.training", *words])
        run = only_run(folder)
        assert run is not None
        result = read_json(run / RESULT)
        command, peak = str(result["command"]), look_up(result, "speed.peak_memory_mib")
        found = scores(table, *forecast_of(run, table))
    return {
        "task": "m4_hourly",
        "row": name,
        "SQL": None,
        "MASE": round(found["MASE"], 5),
        "WQL": None,
        "minutes": round((time.monotonic() - began) / 60, 2),
        "peak_mib": peak,
        "command": command,
        "commit": commit(),
        "machine": device_name(torch.device("cpu")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "covered_80": found.get("covered_80"),
    }


if __name__ == "__main__":
    sys.exit(main())
