"""Forecast from many origins: run as a script, with the program under test on the import path.

The request, JSON on standard input, is a list of runs, each with `run`, `table` (a CSV file with history and future),
`rows` (times of the history), `origins` (how many) and `output` (an .npz file to write). A long table has `id_column`
and `target` too; its series that go on after the history take the place of the targets.
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
        (answer_long if "id_column" in request else answer)(**request)


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
    residuals, data = baseline_residuals(Path(run), file, rows, len(with_future))
    content = {f"error_{name}": values[-origins:] * data.target_scale for name, values in residuals.items()}
    np.savez(output, **{"targets": model.targets, **arrays, **content})


def answer_long(run: str, table: str, rows: int, origins: int, output: str, id_column: str, target: str) -> None:
    """Write the same of a long table, each (origins, h, S), for the series that go on after the history."""
    import forecast

    model: Any = forecast.load(run)
    frame = pd.read_csv(table, parse_dates=[model.time_column])
    times = np.sort(frame[model.time_column].unique())[: rows + origins * model.horizon]
    frame = frame[frame[model.time_column] <= times[-1]]
    going_on = sorted(frame.loc[frame[model.time_column] == times[-1], id_column])
    found = []
    for start in range(rows, len(times), model.horizon):
        later = frame[model.time_column].isin(times[start : start + model.horizon])
        known = frame.loc[later, [id_column, model.time_column, *model.known_covariates]]
        past = frame[frame[model.time_column] < times[start]]
        found.append(model.predict(past, known if model.known_covariates else None, levels=[LEVEL], ids=going_on))
    names = {"forecast": target, "lower": f"{target}_lower_{LEVEL}", "upper": f"{target}_upper_{LEVEL}"}
    arrays = {
        name: np.stack([values[column].to_numpy().reshape(-1, model.horizon).T for values in found])
        for name, column in names.items()
    }
    file = Path(output).with_suffix(".csv")
    frame.to_csv(file, index=False)
    residuals, data = baseline_residuals(Path(run), file, rows, len(times))
    place, ids = model.targets.index(target), [name for (name,) in data.ids.names]
    scale = data.target_scale[[ids.index(name) for name in going_on], place]
    content = {}
    for name, values in residuals.items():  # the windows of an origin follow one another, in the order of the ids
        last = values[-origins * len(going_on) :, :, place].reshape(origins, len(going_on), -1)
        content[f"error_{name}"] = last.transpose(0, 2, 1) * scale
    np.savez(output, **{"targets": going_on, **arrays, **content})


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


def baseline_residuals(run: Path, table: Path, rows: int, last: int) -> tuple[dict[str, np.ndarray], Any]:
    """Return future minus forecast of each row of the run's table but the model's, (windows, h, C), and the data.

    They are z-scores of windows one horizon apart up to the last of the `last` times; the first `rows` are history.

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
    residuals = {}
    for name, row in scored.items():
        if row is not None and name not in ("model", "linear_path"):
            kept = row.test.residuals
            assert kept is not None
            residuals[name] = kept[..., kept.shape[-1] // 2]
    return residuals, prepared.data


if __name__ == "__main__":
    main()
