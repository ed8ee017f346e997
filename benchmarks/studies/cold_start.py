"""Stores that the training did not have: `python -m benchmarks.studies.cold_start`.

Two models have the recipe of Rossmann with static columns and ids as inputs; one is trained without 50 stores. Both
forecast these in the ten windows of `rossmann_1D`, beside the seasonal naive forecast. The other one also forecasts all
stores, for the coverage of its intervals.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.published.lanes import Commands
from benchmarks.published.record import add_row
from benchmarks.published.rossmann import (
    STATIC,
    STORE,
    TIME,
    coverage,
    cutoffs,
    forecasts_of,
    full_calendar,
    scores,
    seasonal_naive,
)
from benchmarks.published.tasks import Floats, data_folder
from forecast.common.cli import finish
from forecast.runs.results import commit, device_name
from forecast.runs.run import MANIFEST

RECORD = Path("benchmarks/records/published/cold_start.csv")
LEFT_OUT = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.cold_start", description=__doc__)
    parser.add_argument("--steps", type=int, default=800, help="training steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="draw of the stores (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("outputs/cold_start"), help="folder of the runs")
    parser.add_argument("--output", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    table = full_calendar(pd.read_parquet(data_folder() / "rossmann.parquet"))
    stores = np.random.default_rng(options.seed).choice(table[STORE].unique(), LEFT_OUT, replace=False)
    new = table[STORE].isin(stores)
    for row, trained_on in (("all stores", table), ("without them", table[~new])):
        run = _trained(
            trained_on[trained_on[TIME] < cutoffs(table)[0]], options.folder / row.replace(" ", "_"), options
        )
        _add(options, row, table[new], forecasts_of(run, table[new], static=STATIC))
        if trained_on is table:
            _add(options, "all stores, all forecast", table, forecasts_of(run, table, static=STATIC))
    _add(options, "seasonal naive", table[new], seasonal_naive(table[new]))


def _trained(rows: pd.DataFrame, folder: Path, options: argparse.Namespace) -> Path:
    """Return the finished run on some rows; train it first."""
    if not (found := list(folder.glob(f"*/*/{MANIFEST}"))):
        folder.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(folder / "past.parquet", index=False)
        own = [f"data.path={folder / 'past.parquet'}", f"training.max_steps={options.steps}", f"output_dir={folder}"]
        fixed = ["data=rossmann", "experiment=rossmann", "data.split.test=0", "data.id_embedding=true"]
        Commands().run(["-m", "forecast.training", *fixed, *own, "training.progress=false"])
        found = list(folder.glob(f"*/*/{MANIFEST}"))
    return found[0].parent


def _add(options: argparse.Namespace, row: str, stores: pd.DataFrame, forecasts: Sequence[Floats]) -> None:
    """Print the scores of a row and add it to the record."""
    found = scores(stores, forecasts) | (coverage(stores, forecasts) if row != "seasonal naive" else {})
    print(row, {name: round(score, 4) for name, score in found.items()}, flush=True)
    facts = {"stores": stores[STORE].nunique(), "seed": options.seed, "steps": options.steps, "row": row}
    rounded = {name: round(score, 5) for name, score in found.items()}
    add_row(options.output, {**facts, **rounded, "commit": commit(), "machine": device_name(torch.device("cpu"))})


if __name__ == "__main__":
    sys.exit(main())
