"""A backtest without refits, with six refits from the last weights, and with six from scratch.

`python -m benchmarks.studies.refits --output outputs/refits.csv` trains small runs on the last rows of PJM East and of
EPF Germany, with and without the linear path, and backtests them on half a year after their validation. Each row is
written when it is measured, and the same command continues.
"""

import argparse
import json
import os
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.backtest.__main__ import Asked, backtest
from forecast.backtest.scores import Errors
from forecast.common.configuration import compose_words, plain_values
from forecast.common.files import read_json
from forecast.common.spreadsheet import write_frame
from forecast.evaluation.significance import mean_interval
from forecast.training.train import train

WORDS = [
    *("context_length=168", "horizon=24", "model.d_model=32", "model.d_ff=64", "logger=null", "data.last_rows=20000"),
    *("training.progress=false", "training.max_epochs=null", "training.evaluation_stride=24"),
    *("training.precision=32-true", "data.split={train:0.65,validation:0.11,test:0.24}"),
]
STEPS = {True: 200, False: 1000}
"""Training steps with the linear path, and of the network alone."""

STRETCHES = {
    "pjme": ("PJME_hourly.csv", "2018-01-15", "2018-07-12"),
    "epf_de": ("EPF_DE.csv", "2017-06-16", "2017-12-11"),
}
"""File, first and last origin of each series."""

MODES = {"never": ("never", None), "last": ("30d", "last"), "scratch": ("30d", "scratch")}
"""The words of --refit and --refit-from."""

LEVEL = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    rows: list[Any] = pd.read_csv(output).to_dict("records") if output.is_file() else []
    for (name, (file, first, last)), path in product(STRETCHES.items(), STEPS):
        folder = Path(tempfile.gettempdir()) / f"refits-{name}-{path}"
        missing = [mode for mode in MODES if not any(_key(row) == (name, path, mode) for row in rows)]
        if missing and not (folder / "run").exists():
            words = [f"data={name}", *WORDS, f"model.linear_path={path}", f"training.max_steps={STEPS[path]}"]
            with redirect_stdout(StringIO()):
                train(plain_values(compose_words(words)), folder=folder / "run")
        table = Path(os.environ["FORECAST_DATA_DIR"]) / file
        for mode in missing:
            (refit, start), began = MODES[mode], time.process_time()
            with redirect_stdout(StringIO()):
                backtest([str(folder / "run")], table, folder / mode, Asked(first, last, "24h", (), refit, None, start))
            seconds = {"processor_seconds": time.process_time() - began}
            rows.append({"data": name, "linear_path": path, "refits_from": mode, **scores_of(folder, mode), **seconds})
            with output.open("wb") as opened:
                write_frame(opened, pd.DataFrame(rows), index=False)
            print(rows[-1], flush=True)


def _key(row: dict[str, Any]) -> tuple[str, bool, str]:
    return row["data"], row["linear_path"], row["refits_from"]


def scores_of(folder: Path, mode: str) -> dict[str, Any]:
    """Return the scores of a backtest, beside those without refits, and the validation MSE of its refits."""

    def errors(name: str) -> pd.Series:
        return Errors.of(pd.read_parquet(folder / name / "forecasts.parquet")).by(["origin"])["mae"]

    ours, never = errors(mode), errors("never")
    found = mean_interval((ours - never).to_numpy(), 1, level=LEVEL) if mode != "never" else None
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
