"""What the jobs of a search forecast, its cells, and what is to be chosen among, its choices: their names."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from forecast.nested import flatten
from forecast.same_data import INPUTS
from forecast.sweep_rows import ALL_ALIKE
from forecast.told_apart import told_apart

OF_A_CELL = ("horizon", "data")
"""Root keys whose words say what is forecast; what other words say is to be chosen."""

CHOSEN = tuple(f"data.{key}" for key in INPUTS)
"""Keys of `data` that say nothing of what is forecast."""

EXPERIMENT = "experiment"
"""Its words say what is forecast too, where each goes with data of its own."""


def with_cells(jobs: pd.DataFrame) -> pd.DataFrame:
    """Give finished jobs with the columns `cell` and `choice`: the same text is the same thing, and no other.

    A cell is what a run forecasts; two choices are two where any setting that is no cell's differs in one cell. Their
    names are the words of the command line, and what else is needed to tell them apart.

    Parameters
    ----------
    jobs
        Finished ones, as `forecast.sweep_rows.read_jobs` gives them.
    """
    experiments = _goes_with_data(jobs)
    words = [[list(part) for part in _parted(each, experiments)] for each in jobs["words"]]
    forecasts = list(jobs["forecasts"])
    settings = [json.dumps(_chosen(each), sort_keys=True) for each in jobs["settings"]]
    cells = _longest(forecasts, [" ".join(cell) for cell, _ in words])
    choices = _longest(settings, [" ".join(choice) for _, choice in words])
    named = jobs.assign(
        cell=_apart(forecasts, cells, _facts_of_cell), setting=settings, choice=[each or ALL_ALIKE for each in choices]
    )
    # where two choices of one name meet in a cell they are told apart; elsewhere what differs goes with the cell
    meet = named.groupby(["choice", "cell"])["setting"].nunique().groupby("choice").max()
    told = _apart(settings, list(named["choice"]), json.loads)
    names = [other if meet[name] > 1 else name for name, other in zip(named["choice"], told, strict=True)]
    return named.assign(choice=names).drop(columns="setting")


def _goes_with_data(jobs: pd.DataFrame) -> bool:
    """Say whether the sweep has several experiments, of which no two forecast the same."""
    homes: dict[str, set[str]] = {}
    for words, forecasts in zip(jobs["words"], jobs["forecasts"], strict=True):
        for word in words:
            if _root(word) == EXPERIMENT:
                homes.setdefault(word, set()).add(forecasts)
    return len(homes) > 1 and sum(map(len, homes.values())) == len(set.union(*homes.values()))


def _parted(words: Iterable[str], experiments: bool) -> tuple[list[str], list[str]]:
    """Give the words that say what is forecast, and the others."""
    told = list(words)
    cell = [word for word in told if _is_of_a_cell(_key(word)) or (experiments and _root(word) == EXPERIMENT)]
    return cell, [word for word in told if word not in cell]


def _is_of_a_cell(key: str) -> bool:
    return key.split(".")[0] in OF_A_CELL and key not in CHOSEN


def _key(word: str) -> str:
    return word.lstrip("+~").split("=")[0].split("@")[0]


def _root(word: str) -> str:
    return _key(word).split(".")[0]


def _longest(keys: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Give each thing the longest label of its key: some jobs may have been asked for with fewer words."""
    longest: dict[str, str] = {}
    for key, label in zip(keys, labels, strict=True):
        longest[key] = max(longest.get(key, ""), label, key=len)
    return [longest[key] for key in keys]


def _apart(keys: Sequence[str], labels: Sequence[str], facts_of: Callable[[str], dict[str, Any]]) -> list[str]:
    """Give the labels, of which each key has one, told apart."""
    own = dict(zip(keys, labels, strict=True))
    names = dict(zip(own, told_apart(list(own.values()), [facts_of(key) for key in own]), strict=True))
    return [names[key] for key in keys]


def _facts_of_cell(key: str) -> dict[str, Any]:
    name, horizon, targets, sha256, stride, data = json.loads(key)
    told = {"data": name, "horizon": horizon, "targets": targets, **flatten(data, "data.")}
    return {**told, "training.evaluation_stride": stride, "sha256": str(sha256)[:8]}


def _chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if not _is_of_a_cell(key)}
