"""Train one model of `neuralforecast` and score it: `python theirs.py job.json` in an environment of its own.

It imports nothing of this program, so that the two need no common versions. The job has the keys of
`benchmarks.time_to_quality.contests.job_of`. The last printed line is the result as JSON.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Train on the rows before the validation part; return its errors on all windows, and the minutes of each part."""
    started = time.monotonic()
    import pandas as pd
    from neuralforecast import NeuralForecast, models

    rows = pd.read_csv(job["path"], parse_dates=["ds"])
    known = {"futr_exog_list": job["known"]} if job["known"] else {}
    quiet = {"enable_progress_bar": False, "logger": False, "enable_checkpointing": False}
    kind = getattr(models, job["model"])
    limit = {"max_time": {"seconds": round(60 * job["minutes"])}}
    model = kind(h=job["horizon"], input_size=job["context_length"], **known, **job["settings"], **limit, **quiet)
    forecaster = NeuralForecast([model], freq=job["frequency"])
    forecaster.fit(rows[rows["ds"] < job["validation_start"]])
    fitted = time.monotonic()
    size = int((rows["ds"] >= job["validation_start"]).sum() / rows["unique_id"].nunique())
    made = forecaster.cross_validation(rows, use_fitted=True, n_windows=None, test_size=size, step_size=1)
    errors = made["y"] - made[job["model"]]
    return {
        "windows": int(made["cutoff"].nunique()),
        "mse": float((errors**2).mean()),
        "mae": float(errors.abs().mean()),
        "steps": 1 + int(forecaster.models[0].train_trajectories[-1][0]),
        "training_minutes": (fitted - started) / 60,
        "forecast_minutes": (time.monotonic() - fitted) / 60,
        "parameters": sum(each.numel() for each in forecaster.models[0].parameters()),
        "neuralforecast": version("neuralforecast"),
        "torch": version("torch"),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
