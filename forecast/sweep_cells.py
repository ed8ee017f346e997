"""What the jobs of a search forecast, its cells, and what is to be chosen among, its choices: their names."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from forecast.nested import flatten
from forecast.told_apart import told_apart

OF_A_CELL = ("horizon", "data")
"""Root keys whose words say what is forecast; what other words say is to be chosen."""

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
    of_a_cell = (*OF_A_CELL, EXPERIMENT) if _goes_with_data(jobs) else OF_A_CELL
    words = [[list(part) for part in _parted(each, of_a_cell)] for each in jobs["words"]]
    cells = _named(jobs["forecasts"], [" ".join(cell) for cell, _ in words], _facts_of_cell)
    settings = [json.dumps(_chosen(each), sort_keys=True) for each in jobs["settings"]]
    choices = [" ".join(choice) or "(all alike)" for _, choice in words]
    named = jobs.assign(cell=cells, setting=settings, choice=_named(settings, choices, json.loads))
    return named.assign(choice=_merged(named, choices)).drop(columns="setting")


def _goes_with_data(jobs: pd.DataFrame) -> bool:
    """Say whether the sweep has several experiments, of which no two forecast the same."""
    homes: dict[str, set[str]] = {}
    for words, forecasts in zip(jobs["words"], jobs["forecasts"], strict=True):
        for word in words:
            if _root(word) == EXPERIMENT:
                homes.setdefault(word, set()).add(forecasts)
    return len(homes) > 1 and sum(map(len, homes.values())) == len(set.union(*homes.values()))


def _parted(words: Iterable[str], of_a_cell: Sequence[str]) -> tuple[list[str], list[str]]:
    told = list(words)
    cell = [word for word in told if _root(word) in of_a_cell]
    return cell, [word for word in told if word not in cell]


def _root(word: str) -> str:
    return word.lstrip("+~").split("=")[0].split(".")[0].split("@")[0]


def _named(keys: Iterable[str], labels: Sequence[str], facts_of: Any) -> list[str]:
    """Give each key's longest label, since some jobs may have been asked for with fewer words, each another's own."""
    keys = list(keys)
    longest: dict[str, str] = {}
    for key, label in zip(keys, labels, strict=True):
        longest[key] = max(longest.get(key, ""), label, key=len)
    told = told_apart(list(longest.values()), [facts_of(key) for key in longest])
    names = dict(zip(longest, told, strict=True))
    return [names[key] for key in keys]


def _merged(jobs: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """Give the words alone to choices that meet in no cell: what else differs there goes with the cell."""
    plain = jobs.assign(choice=labels)
    meet = plain.groupby(["choice", "cell"])["setting"].nunique().groupby("choice").max()
    return [told if meet[label] > 1 else label for told, label in zip(jobs["choice"], plain["choice"], strict=True)]


def _facts_of_cell(key: str) -> dict[str, Any]:
    name, horizon, targets, sha256, stride, data = json.loads(key)
    told = {"data": name, "horizon": horizon, "targets": targets, **flatten(data, "data.")}
    return {**told, "training.evaluation_stride": stride, "sha256": str(sha256)[:8]}


def _chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key.split(".")[0] not in OF_A_CELL}
