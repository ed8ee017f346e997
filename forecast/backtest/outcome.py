"""The files of a finished backtest: scores, facts, page."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.backtest.importance import input_sentences, write_inputs
from forecast.backtest.page import answer, write_page
from forecast.backtest.scores import LEVEL, Errors
from forecast.common.files import replacing, write_json
from forecast.common.spreadsheet import write_frame
from forecast.data.calendar import future_index, season_name, seasonal_period
from forecast.data.scaler import SeriesScaler
from forecast.predict.contexts import TrainedModel
from forecast.predict.history import History
from forecast.predict.output import program_version

SCORES, FACTS = "scores.csv", "backtest.json"


def write_outcome(
    folder: Path,
    title: str,
    history: History,
    forecasts: pd.DataFrame,
    facts: Mapping[str, Any],
    inputs: pd.DataFrame | None = None,
) -> list[str]:
    """Write scores, facts and page of a backtest into its folder; return the sentences that answer it.

    `inputs` is the table of `inputs_that_matter`, if it was asked for.
    """
    model = history.model
    errors = Errors.of(forecasts, scales_of(model))
    tables = errors.tables(model.frequency)
    with replacing(folder / SCORES) as file:
        write_frame(file, scores_table(tables), index=False)
    naive = naive_name(model)
    sentences = [*answer(errors, naive), *(warnings_of(history) if facts["--refit"] == "never" else [])]
    if inputs is not None:
        sentences += input_sentences(inputs)
        write_inputs(folder, inputs)
    write_json(folder / FACTS, {**facts, **_facts(errors, history, tables), "sentences": sentences})
    write_page(folder, title, sentences, errors, tables, past_of(history), inputs)
    return sentences


def scores_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the scores of all groups, one below the other: the columns by and group, then the scores."""
    parts = []
    for name, table in tables.items():
        part = table.reset_index(drop=True)
        part.insert(0, "by", name)
        part.insert(1, "group", [str(key) for key in table.index])
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def naive_name(model: TrainedModel) -> str:
    """Return the name of the naive forecast of a model's series."""
    season = seasonal_period(model.frequency)
    return f"seasonal naive forecast ({season_name(season, model.frequency)})" if season > 1 else "last value"


def scales_of(model: TrainedModel) -> dict[str, float]:
    """Return the standard deviation in training of each series, by its name in the forecasts."""
    scaler, targets = model.scaler, model.targets
    if not isinstance(scaler, SeriesScaler):
        return dict(zip(targets, map(float, scaler.scale), strict=False))
    return {
        series_name(name, target, len(targets)): float(scale)
        for name, row in zip(scaler.names, scaler.scale, strict=True)
        for target, scale in zip(targets, row, strict=False)
    }


def series_name(name: tuple[str, ...], target: str, targets: int) -> str:
    """Return the name of a series in the forecasts, of a model with a number of targets."""
    if not name:
        return target
    return ",".join(name) + (f": {target}" if targets > 1 else "")


def past_of(history: History) -> pd.DataFrame:
    """Return the measured targets of all rows: the columns name, time and value."""
    whole, targets = history.whole, history.model.targets
    measured = whole.series.measured[targets]
    parts = [
        pd.DataFrame(
            {
                "name": np.repeat(
                    np.array([series_name(name, target, len(targets)) for name in whole.names], dtype=object),
                    np.diff(whole.offsets),
                ),
                "time": measured.index,
                "value": measured[target].to_numpy(),
            }
        )
        for target in targets
    ]
    return pd.concat(parts, ignore_index=True)


def warnings_of(history: History) -> list[str]:
    """Return a warning if origins lie before the first row that neither training nor validation has seen."""
    model, times = history.model, history.times
    if not (early := count_seen(model, times)):
        return []
    return [
        f"WARNING: {early:,} of {len(times):,} origins are before {_first_unseen(model)}: training or validation has "
        "seen these rows, and the errors there are too small."
    ]


def count_seen(model: TrainedModel, times: pd.DatetimeIndex) -> int | None:
    """Return how many times are before the first row that the run has not seen; None if it is not known."""
    first, clock = _first_unseen(model), model.contract.clock
    if first is None:
        return None
    own, limit = clock.comparable(times), clock.comparable(pd.DatetimeIndex([first]))
    return None if (own.tz is None) != (limit.tz is None) else int((own < limit[0]).sum())


def _first_unseen(model: TrainedModel) -> str | None:
    """Return the time of the first row that neither training nor validation has seen; None if it is not known."""
    if not model.path.is_dir():
        return None
    data = model.result["data"]
    if data["scored_split"] == "test" or "last_seen_row" not in data:
        first: str | None = data.get("first_test_target")
        return first
    return str(future_index(pd.Timestamp(data["last_seen_row"]), model.frequency, 1)[0])


def _facts(errors: Errors, history: History, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    model, times = history.model, history.times
    facts: dict[str, Any] = {
        "program": program_version(),
        "origins": {"count": len(times), "first": str(times[0]), "last": str(times[-1]), "left_out": history.left_out},
        "horizon": model.horizon,
        "frequency": model.frequency,
        "series": int(errors.rows["name"].nunique()),
        "units": "standard deviations of training" if errors.is_scaled else "original",
        "naive": naive_name(model),
        "scores": errors.total(),
    }
    better, count = errors.better_origins()
    facts["better_than_naive"] = {"origins": better, "of": count, "share": better / count}
    interval = errors.against_naive()
    if interval is not None:
        facts["mae_minus_naive_mae"] = {
            "mean": interval.mean, "low": interval.low, "high": interval.high, "level": LEVEL,
        }  # fmt: skip
    facts["by_step"] = [float(value) for value in tables["step"]["mae"]]
    facts["rmse"] = math.sqrt(facts["scores"]["mse"])
    return facts
