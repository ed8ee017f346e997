"""Whether a `result.json` holds numbers and texts where the program writes them, whoever wrote the file."""

from collections.abc import Mapping
from typing import Any

from forecast.common.nested import flatten, look_up

NUMBERS = (
    *("seed", "processes", "speed", "model", "test", "validation", "linear_path", "baselines", "linear_fit"),
    *("data.rows", "data.season", "data.windows", "data.windows_left_out", "data.evaluation_stride"),
    *("config.horizon", "config.context_length", "config.training.batch_size"),
)
"""Values, and groups of values, that are numbers, or null where there is none."""

TEXTS = (
    *("command", "status", "device", "precision", "commit", "data.name", "data.path", "data.sha256"),
    *("data.frequency", "config.attention.name", "config.model.name"),
)
"""Values that are texts, or null."""

LISTS = ("data.targets", "data.channels")
"""Values that are lists of names."""

SHOWN = (
    *("command", "status", "config.horizon", "data.name", "data.windows.test", "model.steps", "model.best_step"),
    "speed",
)
"""What the lines after a training are made of."""

ROWS = ("linear_path", "baselines.last_value", "baselines.seasonal_naive", "baselines.linear")
"""Forecasters beside the model; a row may be null."""

SCORES = ("test.scaled.mse", "test.scaled.mae", "test.original.mse", "test.original.mae", "validation.scaled.mse")


def wrong_kind(result: Mapping[str, Any]) -> str | None:
    """Return the path of a value that is of another kind than the program writes, None where there is none."""
    for path, value in flatten(result).items():
        if _is_in(path, NUMBERS) and not _is_numbers(value):
            return path
        if _is_in(path, TEXTS) and not (value is None or isinstance(value, str)):
            return path
        if _is_in(path, LISTS) and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
            return path
    groups = ("speed", "test", "validation", "baselines", "data", "config", "model")
    return next((name for name in groups if not isinstance(result.get(name, {}), Mapping)), None)


def lacking(result: Mapping[str, Any]) -> str | None:
    """Return the path of a value without which a finished run cannot be shown, None where all are there."""
    for path in ROWS:
        group, _, key = path.rpartition(".")
        if key not in (result.get(group, {}) if group else result):
            return path
    rows = [f"{row}." for row in ROWS if look_up(result, row) is not None]
    paths = [*SHOWN, *(f"{row}{score}" for row in ("", *rows) for score in SCORES)]
    return next((path for path in paths if look_up(result, path) is None), None)


def _is_in(path: str, groups: tuple[str, ...]) -> bool:
    return any(path == group or path.startswith(f"{group}.") for group in groups)


def _is_numbers(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_numbers(each) for each in value)
    if isinstance(value, Mapping):
        return all(map(_is_numbers, value.values()))
    return value is None or isinstance(value, (int, float))
