"""Training from the weights of a run beside training from scratch, after 0, 50 and 200 steps.

`python -m benchmarks.studies.start_from --output outputs/start_from.csv` trains a run on ETTh1 (the oil temperature)
and one on the first two thirds of PJM East. Both then begin a training: on ETTh2, and on the last third. The models are
small and without a linear path, which would hide what the weights are worth. Each row is written when it is measured,
and the same command continues. Rates are chosen by the validation column.
"""

import argparse
import os
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.configuration import compose_words
from forecast.common.spreadsheet import write_frame
from forecast.runs.settings import Settings
from forecast.training.start_from import composed
from forecast.training.train import train

COMMON = [
    *("context_length=168", "horizon=24", "model.d_model=32", "model.d_ff=64", "model.linear_path=false"),
    *("training.progress=false", "training.max_epochs=null", "training.evaluation_stride=24"),
    *("training.precision=32-true", "logger=null"),
]
FIRST_STEPS = 300
"""Steps of the run that begins the others."""

TRAININGS = [
    *(("run", 0, 1e-3), ("run", 50, 1e-3), ("scratch", 50, 1e-3), ("run", 200, 1e-3), ("scratch", 200, 1e-3)),
    *(("run", 50, 3e-4), ("run", 200, 3e-4), ("run", 50, 1e-4), ("run", 200, 1e-4)),
]
"""Start, steps and learning rate; no steps are one of rate 0."""


def tables(folder: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Return the words of the first table and of the later one, by the name of the pair."""
    first, _, rest = (Path(os.environ["FORECAST_DATA_DIR"]) / "PJME_hourly.csv").read_text().partition("\n")
    rows = rest.splitlines()
    cut = 2 * len(rows) // 3
    for name, part in (("first", rows[:cut]), ("last", rows[cut:])):
        (folder / f"{name}.csv").write_text("\n".join([first, *part]))
    pjme = ["data=csv", "data.duplicates=mean", "data.missing=interpolate"]
    etth = ["data.targets=[OT]", "data.past_covariates=[]"]
    return {
        "ETTh1 to ETTh2": (["data=etth1", *etth], ["data=etth2", *etth]),
        "PJM East, last third": ([*pjme, f"data.path={folder}/first.csv"], [*pjme, f"data.path={folder}/last.csv"]),
    }


def row_of(words: list[str], folder: Path) -> tuple[Path, dict[str, Any]]:
    """Train, and return the folder of the run and its scores; seconds are those of the processor."""
    began = time.process_time()
    with redirect_stdout(StringIO()):
        run, result = train(Settings.parse(composed(compose_words(words), words)), folder=folder)
    return run.path, {
        "validation_mse": result["validation"]["scaled"]["mse"],
        "test_mse": result["test"]["scaled"]["mse"],
        "ridge_test_mse": result["baselines"]["linear"]["test"]["scaled"]["mse"],
        "best_step": result["model"]["best_step"],
        "processor_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    rows: list[Any] = pd.read_csv(output).to_dict("records") if output.is_file() else []
    with tempfile.TemporaryDirectory() as name:
        for pair, (first, later) in tables(Path(name)).items():
            done = {(row["start"], row["steps"], row["rate"]) for row in rows if row["pair"] == pair}
            left = [training for training in TRAININGS if training not in done]
            if not left:
                continue
            base, _ = row_of([*COMMON, *first, f"training.max_steps={FIRST_STEPS}"], Path(name) / pair / "first")
            for start, steps, rate in left:
                words = [f"training.max_steps={max(1, steps)}", f"optimizer.lr={rate if steps else 0}"]
                own = [*COMMON, *words] if start == "scratch" else [*COMMON[5:], *words, f"start_from='{base}'"]
                _, scores = row_of([*later, *own], Path(name) / pair / f"{start}-{steps}-{rate}")
                rows.append({"pair": pair, "start": start, "steps": steps, "rate": rate, **scores})
                with output.open("wb") as file:
                    write_frame(file, pd.DataFrame(rows), index=False)
                print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
