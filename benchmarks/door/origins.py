"""Forecast from many origins: run as a script, with the program under test on the import path.

The request, JSON on standard input, is a list of runs, each with `run`, `table` (a CSV file with history and future),
`rows` (of the history), `origins` (how many) and `output` (an .npz file to write).
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LEVEL = 80
"""Level of the intervals, in per cent."""


def main() -> None:
    """Answer the request."""
    for request in json.load(sys.stdin):
        answer(**request)


def answer(run: str, table: str, rows: int, origins: int, output: str) -> None:
    """Write forecasts, interval ends and errors of the baselines, each (origins, h, C) in original units."""
    import forecast

    model: Any = forecast.load(run)
    frame = pd.read_csv(table, index_col=0, parse_dates=True)
    starts = range(rows, rows + origins * model.horizon, model.horizon)
    with_future = frame.iloc[: starts[-1] + model.horizon]
    forecasts = [_forecast(model, with_future, start) for start in starts]
    arrays = {
        name: np.stack(
            [values[[pattern.format(target) for target in model.targets]].to_numpy() for values in forecasts]
        )
        for name, pattern in (("forecast", "{}"), ("lower", f"{{}}_lower_{LEVEL}"), ("upper", f"{{}}_upper_{LEVEL}"))
    }
    file = Path(output).with_suffix(".csv")
    with_future.to_csv(file, index_label=model.time_column)
    errors = baseline_errors(Path(run), file, rows, origins)
    content: dict[str, Any] = {**arrays, **{f"error_{name}": values for name, values in errors.items()}}
    np.savez(output, targets=model.targets, **content)


def _forecast(model: Any, frame: pd.DataFrame, start: int) -> pd.DataFrame:
    """Return the forecast of the rows from `start` on, with their known columns; NaN if a run has no such interval."""
    import forecast

    ahead = frame[model.known_covariates].iloc[start : start + model.horizon] if model.known_covariates else None
    values: pd.DataFrame
    try:
        values = model.predict(frame.iloc[:start], ahead, levels=[LEVEL])
    except forecast.InputError as error:
        if not str(error).startswith("levels"):
            raise
        values = model.predict(frame.iloc[:start], ahead)
        ends = [f"{target}_{end}_{LEVEL}" for target in model.targets for end in ("lower", "upper")]
        values = values.reindex(columns=[*values.columns, *ends])
    return values


def baseline_errors(run: Path, table: Path, rows: int, origins: int) -> dict[str, np.ndarray]:
    """Return future minus forecast of each row of the run's table but the model's, at the last `origins` origins.

    The run's own code scores a test split that ends with the future; training and validation split are those of the
    run, and the ridge is fitted as in the run.
    """
    from forecast.common.files import read_json
    from forecast.data.sources import load_source
    from forecast.data.split import split_rows
    from forecast.evaluation import scoring
    from forecast.runs.run import Run
    from forecast.runs.settings import Settings
    from forecast.training.prepare import prepare

    config = read_json(run / "config.json")
    split = split_rows(rows, **config["data"]["split"])
    last = sum(1 for _ in table.open()) - 1
    counts = {"train": len(split.train), "validation": len(split.validation)}
    config["data"] |= {"path": str(table), "split": {**counts, "test": last - sum(counts.values())}}
    config["training"] |= {"progress": False}
    settings = Settings.parse(config)
    source = load_source(settings.data)
    linear_maps = prepare(settings, source).linear_maps
    config["training"] |= {"evaluation_stride": config["horizon"]}
    prepared = prepare(Settings.parse(config), source, linear_maps=linear_maps)
    names = vars(scoring)
    names["evaluate"] = partial(names["evaluate"], keep_residuals=True)
    scored = scoring.score(Run.open(run).load_model(), prepared.data, linear_maps.baseline)
    scale = prepared.data.target_scale
    errors = {}
    for name, row in scored.items():
        if row is not None and name not in ("model", "linear_path"):
            residuals = row.test.residuals
            assert residuals is not None
            errors[name] = residuals[-origins:, :, :, residuals.shape[-1] // 2] * scale
    return errors


if __name__ == "__main__":
    main()
