"""Names of what the jobs of a search forecast (cells) and of what is chosen among (choices)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from forecast.common.files import flatten
from forecast.runs.labels import INPUTS, behind, shown, unique_labels
from forecast.runs.read import ALL_ALIKE

OF_A_CELL = ("horizon", "data")
"""Root keys whose words say what is forecast; other words say what is chosen."""

CHOSEN = tuple(f"data.{key}" for key in INPUTS)
"""Keys of `data` that say nothing about what is forecast."""

EXPERIMENT = "experiment"
"""Its words say what is forecast too, if each experiment has data of its own."""


def with_cells(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return finished `jobs` of `forecast.runs.read.read_jobs` with the columns `cell` and `choice`, both unique names.

    A cell is what a run forecasts; two choices differ where any setting that is no cell's differs in one cell. Their
    names are the words of the command line. Settings follow that differ between two choices of a cell with the same
    words, as from two commands. What differs between cells alone goes with the cell.
    """
    experiments = _goes_with_data(jobs)
    words = [[list(part) for part in _parted(each, experiments)] for each in jobs["words"]]
    forecasts = list(jobs["forecasts"])
    settings = [json.dumps(_chosen(each), sort_keys=True) for each in jobs["settings"]]
    cells = _longest(forecasts, [" ".join(cell) for cell, _ in words])
    choices = _longest(settings, [" ".join(choice) for _, choice in words])
    longest = {" ".join(choice): choice for _, choice in words}
    unsaid = _unsaid(forecasts, settings, [longest[choice] for choice in choices])
    names = [
        behind(choice, _further(unsaid, longest[choice], each)) for choice, each in zip(choices, settings, strict=True)
    ]
    return jobs.assign(cell=_apart(forecasts, cells, _facts_of_cell), choice=[name or ALL_ALIKE for name in names])


def _goes_with_data(jobs: pd.DataFrame) -> bool:
    """Return whether the sweep has several experiments, no two of which forecast the same."""
    homes: dict[str, set[str]] = {}
    for words, forecasts in zip(jobs["words"], jobs["forecasts"], strict=True):
        for word in words:
            if _root(word) == EXPERIMENT:
                homes.setdefault(word, set()).add(forecasts)
    return len(homes) > 1 and sum(map(len, homes.values())) == len(set.union(*homes.values()))


def _parted(words: Iterable[str], experiments: bool) -> tuple[list[str], list[str]]:
    """Return the words that say what is forecast, and the others."""
    told = list(words)
    cell = [word for word in told if _is_of_a_cell(_key(word)) or (experiments and _root(word) == EXPERIMENT)]
    return cell, [word for word in told if word not in cell]


def _is_of_a_cell(key: str) -> bool:
    return key.split(".")[0] in OF_A_CELL and key not in CHOSEN


def _key(word: str) -> str:
    return word.lstrip("+~").split("=")[0].split("@")[0]


def _place(word: str) -> str:
    """Return where in the configuration a word acts: cross_attention for `attention@cross_attention=mean`."""
    return word.lstrip("+~").split("=")[0].split("@")[-1]


def _root(word: str) -> str:
    return _key(word).split(".")[0]


def _longest(keys: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return for each entry the longest label of its key: some jobs may have been asked for with fewer words."""
    longest: dict[str, str] = {}
    for key, label in zip(keys, labels, strict=True):
        longest[key] = max(longest.get(key, ""), label, key=len)
    return [longest[key] for key in keys]


def _apart(keys: Sequence[str], labels: Sequence[str], facts_of: Callable[[str], dict[str, Any]]) -> list[str]:
    """Return one unique label per key."""
    own = dict(zip(keys, labels, strict=True))
    names = dict(zip(own, unique_labels(list(own.values()), [facts_of(key) for key in own]), strict=True))
    return [names[key] for key in keys]


def _unsaid(cells: Sequence[str], settings: Sequence[str], words: Sequence[Sequence[str]]) -> list[str]:
    """Return the keys of settings that differ between two choices of a cell with the same words on them."""
    values = {setting: json.loads(setting) for setting in settings}
    met = {(cell, setting): said for cell, setting, said in zip(cells, settings, words, strict=True)}
    unsaid: dict[str, None] = {}
    for (one, first), (other, second) in combinations(met, 2):
        if one != other:
            continue
        here, there = values[first], values[second]
        for key in here | there:
            if here.get(key) != there.get(key) and _on(key, met[one, first]) == _on(key, met[other, second]):
                unsaid[key] = None
    return list(unsaid)


def _on(key: str, words: Iterable[str]) -> list[str]:
    """Return the words that determine a key: its own, those of a group above it, and those of an experiment."""
    return [word for word in words if f"{key}.".startswith(f"{_place(word)}.") or _root(word) == EXPERIMENT]


def _further(keys: Iterable[str], words: Sequence[str], setting: str) -> list[str]:
    """Return words for those keys of a setting that `words` do not set."""
    values, own = json.loads(setting), {_place(word) for word in words}
    return [f"{key}={shown(values.get(key))}" for key in keys if key not in own]


def _facts_of_cell(key: str) -> dict[str, Any]:
    name, horizon, targets, sha256, stride, data = json.loads(key)
    told = {"data": name, "horizon": horizon, "targets": targets, **flatten(data, "data.")}
    return {**told, "training.evaluation_stride": stride, "sha256": str(sha256)[:8]}


def _chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if not _is_of_a_cell(key)}
