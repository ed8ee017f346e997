"""Names of the forecasting tasks of a search (cells) and of its candidate configurations (choices)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from forecast.common.files import flatten
from forecast.runs.labels import INPUTS, behind, shown, unique_labels
from forecast.runs.read import ALL_ALIKE

OF_A_CELL = ("horizon", "data")
"""Root keys whose overrides define the task; all other overrides define the choice."""

CHOSEN = tuple(f"data.{key}" for key in INPUTS)
"""Keys of `data` that belong to the choice."""

EXPERIMENT = "experiment"
"""Key that defines the task too, if no two experiments share their data."""


def with_cells(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return finished `jobs` of `forecast.runs.read.read_jobs` with the columns `cell` and `choice`, both unique names.

    A cell is a forecasting task. Two runs of a cell with different settings belong to different choices. Names consist
    of the overrides. If two choices of a cell have the same overrides, the settings that differ follow. Settings that
    differ only between cells belong to the cell.
    """
    experiments = _goes_with_data(jobs)
    words = [_split(overrides, experiments) for overrides in jobs["words"]]
    forecasts = list(jobs["forecasts"])
    settings = [json.dumps(_choice_settings(values), sort_keys=True) for values in jobs["settings"]]
    cells = _longest(forecasts, [" ".join(cell) for cell, _ in words])
    choices = _longest(settings, [" ".join(choice) for _, choice in words])
    longest = {" ".join(choice): choice for _, choice in words}
    missing = _missing_keys(forecasts, settings, [longest[choice] for choice in choices])
    names = [
        behind(choice, _extra_words(missing, longest[choice], setting))
        for choice, setting in zip(choices, settings, strict=True)
    ]
    cell_names = _unique_names(forecasts, cells, _facts_of_cell)
    return jobs.assign(cell=cell_names, choice=[name or ALL_ALIKE for name in names])


def _goes_with_data(jobs: pd.DataFrame) -> bool:
    """Return whether the sweep has several experiments and no two of them share a task."""
    tasks: dict[str, set[str]] = {}
    for words, forecasts in zip(jobs["words"], jobs["forecasts"], strict=True):
        for word in words:
            if _root(word) == EXPERIMENT:
                tasks.setdefault(word, set()).add(forecasts)
    return len(tasks) > 1 and sum(map(len, tasks.values())) == len(set.union(*tasks.values()))


def _split(words: Iterable[str], experiments: bool) -> tuple[list[str], list[str]]:
    """Return the overrides that define the cell, and the others."""
    words = list(words)
    cell = [word for word in words if _is_cell_key(_key(word)) or (experiments and _root(word) == EXPERIMENT)]
    return cell, [word for word in words if word not in cell]


def _is_cell_key(key: str) -> bool:
    return key.split(".")[0] in OF_A_CELL and key not in CHOSEN


def _key(word: str) -> str:
    return word.lstrip("+~").split("=")[0].split("@")[0]


def _place(word: str) -> str:
    """Return the path that an override sets: cross_attention for `attention@cross_attention=mean`."""
    return word.lstrip("+~").split("=")[0].split("@")[-1]


def _root(word: str) -> str:
    return _key(word).split(".")[0]


def _longest(keys: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the longest label of each entry's key: some commands may have named a job by fewer overrides."""
    longest: dict[str, str] = {}
    for key, label in zip(keys, labels, strict=True):
        longest[key] = max(longest.get(key, ""), label, key=len)
    return [longest[key] for key in keys]


def _unique_names(keys: Sequence[str], labels: Sequence[str], facts_of: Callable[[str], dict[str, Any]]) -> list[str]:
    """Return one unique label per key."""
    by_key = dict(zip(keys, labels, strict=True))
    names = dict(zip(by_key, unique_labels(list(by_key.values()), [facts_of(key) for key in by_key]), strict=True))
    return [names[key] for key in keys]


def _missing_keys(cells: Sequence[str], settings: Sequence[str], words: Sequence[Sequence[str]]) -> list[str]:
    """Return the keys that differ between two choices of a cell although their overrides for the key are equal."""
    values = {setting: json.loads(setting) for setting in settings}
    overrides = {(cell, setting): given for cell, setting, given in zip(cells, settings, words, strict=True)}
    missing: dict[str, None] = {}
    for (cell, first), (other_cell, second) in combinations(overrides, 2):
        if cell != other_cell:
            continue
        left, right = values[first], values[second]
        for key in left | right:
            same_words = _words_for(key, overrides[cell, first]) == _words_for(key, overrides[cell, second])
            if same_words and left.get(key) != right.get(key):
                missing[key] = None
    return list(missing)


def _words_for(key: str, words: Iterable[str]) -> list[str]:
    """Return the overrides that determine a key: of the key, of a group above it, or of an experiment."""
    return [word for word in words if f"{key}.".startswith(f"{_place(word)}.") or _root(word) == EXPERIMENT]


def _extra_words(keys: Iterable[str], words: Sequence[str], setting: str) -> list[str]:
    """Return overrides for the keys that `words` do not set."""
    values, named = json.loads(setting), {_place(word) for word in words}
    return [f"{key}={shown(values.get(key))}" for key in keys if key not in named]


def _facts_of_cell(key: str) -> dict[str, Any]:
    name, horizon, targets, sha256, stride, data = json.loads(key)
    facts = {"data": name, "horizon": horizon, "targets": targets, **flatten(data, "data.")}
    return {**facts, "training.evaluation_stride": stride, "sha256": str(sha256)[:8]}


def _choice_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if not _is_cell_key(key)}
