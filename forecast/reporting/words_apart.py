"""The words that tell configurations of the same data apart: the name of an arm of the comparison."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from forecast.nested import flatten
from forecast.reporting.same_data import NOT_SCORED
from forecast.resume import BUDGET, FREE, FREE_TRAINING

Config = Mapping[str, Any]

NAMES = ("name", "_target_")
"""Keys that name what a group of options is."""

ASIDE = (*FREE, "seed", "horizon", "context_length")
"""Root keys that make no arm: told elsewhere, or the same for all."""

OF_GROUPS = {
    "data": NOT_SCORED,
    "training": (*(key for key in FREE_TRAINING if key not in BUDGET), "evaluation_batch_size", "precision"),
}
"""Keys within groups that make no arm."""


def arms(configs: Sequence[Config]) -> list[str]:
    """Give each configuration's name among the others: its mechanism, and whatever else is not the same in all."""
    words: list[list[str]] = [[] for _ in configs]
    groups = dict.fromkeys(key for config in configs for key in config if key not in ASIDE)
    for group in sorted(groups, key=lambda key: (key != "attention", key)):
        for own, told in zip(words, _group_words(group, configs), strict=True):
            own += told
    return [", ".join(each) for each in words]


def _group_words(group: str, configs: Sequence[Config]) -> list[list[str]]:
    """Give what is to be said of one group of options of each configuration."""
    values = [_kept(group, config.get(group)) for config in configs]
    names = [_name(value) for value in values]
    differ = any(name != names[0] for name in names)
    told = []
    for value, name in zip(values, names, strict=True):
        others = [other for other, its in zip(values, names, strict=True) if its == name]
        words = [] if name is None or not (differ or group == "attention") else [_named(group, name)]
        told.append([*words, *_arguments(group, value, others)])
    return told


def _named(group: str, name: Any) -> str:
    short = str(name).rpartition(".")[2]
    return short if group == "attention" else f"{group}={short}"


def _arguments(group: str, value: Any, others: Sequence[Any]) -> list[str]:
    """Give `key=value` for what differs among options of the same name."""
    if not isinstance(value, Mapping):
        return []
    own = flatten(value)
    kept = [flatten(other) for other in others]
    keys = [key for key in own if any(key not in other or other[key] != own[key] for other in kept)]
    return [f"{key if group == 'attention' else f'{group}.{key}'}={_shown(own[key])}" for key in keys]


def _kept(group: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in value.items() if key not in OF_GROUPS.get(group, ())}


def _name(value: Any) -> Any:
    """Give what a group's options are called; a value that is no group is called itself."""
    if not isinstance(value, Mapping):
        return None if value is None else _shown(value)
    return next((value[key] for key in NAMES if key in value), "")


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
