"""A backtest without refits, with six refits from the last weights, and with six from scratch.

`python -m benchmarks.studies.refits --output outputs/refits.csv` trains small runs on the last rows of PJM East and of
EPF Germany, with and without the linear path, and on 100 stores of Rossmann. It backtests them on half a year after
their validation. Each row is written when it is measured, and the same command continues.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.published.rossmann import STORE, full_calendar
from forecast.backtest.__main__ import Asked, backtest
from forecast.backtest.scores import Errors
from forecast.common.configuration import compose_words, plain_values
from forecast.common.files import read_json
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import table
from forecast.evaluation.significance import mean_interval
from forecast.training.train import train

HOURLY = (
    *("context_length=168", "horizon=24", "model.d_model=32", "model.d_ff=64", "data.last_rows=20000"),
    *("training.max_epochs=null", "training.evaluation_stride=24", "training.precision=32-true"),
    "data.split={train:0.65,validation:0.11,test:0.24}",
)
QUIET = ("logger=null", "training.progress=false")


@dataclass(frozen=True)
class Stretch:
    """A series with the words of its training, the first and last origin of its backtest, and the step between them.

    `overlap` origins share a step of their horizons. `steps` are the training steps with the linear path, and those of
    the network alone where it is tried.
    """

    words: tuple[str, ...]
    file: str
    first: str
    last: str
    step: str = "24h"
    overlap: int = 1
    steps: Mapping[bool, int] = field(default_factory=lambda: {True: 200, False: 1000})
    modes: tuple[str, ...] = ("never", "last", "scratch")


STRETCHES = {
    "pjme": Stretch(("data=pjme", *HOURLY), "PJME_hourly.csv", "2018-01-15", "2018-07-12"),
    "epf_de": Stretch(("data=epf_de", *HOURLY), "EPF_DE.csv", "2017-06-16", "2017-12-11"),
    "rossmann": Stretch(
        ("data=rossmann", "experiment=rossmann", "data.split={train:606,validation:96,test:240}"),
        *("rossmann.parquet", "2014-12-04", "2015-06-13", "7d"),
        overlap=7,
        steps={True: 400},
        modes=("never", "last"),
    ),
}
STORES = 100
"""Stores of Rossmann, those with the lowest numbers."""

MODES = {"never": ("never", None), "last": ("30d", "last"), "scratch": ("30d", "scratch")}
"""The words of --refit and --refit-from."""

LEVEL = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    rows: list[Any] = pd.read_csv(output).to_dict("records") if output.is_file() else []
    for name, stretch in STRETCHES.items():
        for path, steps in stretch.steps.items():
            folder = Path(tempfile.gettempdir()) / f"refits-{name}-{path}"
            missing = [mode for mode in stretch.modes if not any(_key(row) == (name, path, mode) for row in rows)]
            source = table_of(stretch, folder)
            if missing and not (folder / "run").exists():
                words = [*stretch.words, *QUIET, f"data.path={source}", "data.sha256=null"]
                words += [f"training.max_steps={steps}", *([] if path else ["model.linear_path=false"])]
                with redirect_stdout(StringIO()):
                    train(plain_values(compose_words(words)), folder=folder / "run")
            for mode in missing:
                (refit, start), began = MODES[mode], time.process_time()
                asked = Asked(stretch.first, stretch.last, stretch.step, (), refit, None, start)
                with redirect_stdout(StringIO()):
                    backtest([str(folder / "run")], source, folder / mode, asked)
                seconds = {"processor_seconds": time.process_time() - began}
                scores = scores_of(folder, mode, stretch.overlap)
                rows.append({"data": name, "linear_path": path, "refits_from": mode, **scores, **seconds})
                with output.open("wb") as opened:
                    write_frame(opened, pd.DataFrame(rows), index=False)
                print(rows[-1], flush=True)


NAMES = {"pjme": "PJM East", "epf_de": "EPF Germany", "rossmann": "Rossmann, 100 stores"}


def summary(rows: pd.DataFrame) -> str:
    """Return the table of the page: the change of the MAE by refits, and the processor time of each."""
    cells = []
    for (name, path), own in rows.groupby(["data", "linear_path"], sort=False):
        refitted = own[own["refits"] > 0].set_index("refits_from")
        changes, seconds = [], []
        for mode in ("last", "scratch"):
            if mode not in refitted.index:
                changes.append("not run")
                continue
            row = refitted.loc[mode]
            ends = f" ({row['low']:+.1f} to {row['high']:+.1f})" if np.isfinite(row["low"]) else ""
            changes.append(f"{row['percent_of_never']:+.1f} %{ends}")
            seconds.append(f"{row['processor_seconds'] / row['refits']:.0f} s")
        cells.append(
            [NAMES[str(name)], "with the linear path" if path else "network alone", *changes, ", ".join(seconds)]
        )
    return table(("series", "model", "from the last weights", "from scratch", "each refit"), cells)


def table_of(stretch: Stretch, folder: Path) -> Path:
    """Return the file of a stretch; that of Rossmann is made of the competition's data."""
    source = Path(os.environ["FORECAST_DATA_DIR"]) / stretch.file
    if stretch.file != "rossmann.parquet":
        return source
    made = folder / "stores.parquet"
    if not made.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        stores = full_calendar(pd.read_parquet(source))
        stores[stores[STORE] <= STORES].to_parquet(made, index=False)
    return made


def _key(row: dict[str, Any]) -> tuple[str, bool, str]:
    return row["data"], row["linear_path"], row["refits_from"]


def scores_of(folder: Path, mode: str, overlap: int) -> dict[str, Any]:
    """Return the scores of a backtest, beside those without refits, and the validation MSE of its refits."""

    def errors(name: str) -> pd.Series:
        return Errors.of(pd.read_parquet(folder / name / "forecasts.parquet")).by(["origin"])["mae"]

    ours, never = errors(mode), errors("never")
    found = mean_interval((ours - never).to_numpy(), overlap, level=LEVEL) if mode != "never" else None
    facts = json.loads((folder / mode / "backtest.json").read_text(encoding="utf-8"))
    results = [read_json(path) for path in (folder / mode / "refits").glob("*/result.json")]
    ends = {} if found is None else {"low": 100 * found.low / never.mean(), "high": 100 * found.high / never.mean()}
    return {
        "refits": len(results),
        "origins": len(ours),
        "mae": ours.mean(),
        "naive_mae": facts["scores"]["naive_mae"],
        "percent_of_never": 100 * (ours.mean() / never.mean() - 1),
        **{"low": None, "high": None, **ends},
        "refit_validation_mse": np.mean([result["validation"]["scaled"]["mse"] for result in results] or [np.nan]),
        "refits_of_best_step_0": sum(result["model"]["best_step"] == 0 for result in results),
    }


if __name__ == "__main__":
    main()
