"""The words that tell configurations of the same data apart: the name of an arm of the comparison."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forecast.common.nested import flatten
from forecast.runs.resume import BUDGET, FREE, FREE_TRAINING
from forecast.runs.same_data import NOT_SCORED

Config = Mapping[str, Any]

Column = tuple[str | None, ...]
"""A word for each configuration, None where it needs none."""

NAMES = ("name", "_target_")
"""Keys that name what a group of options is."""

FIRST = ("attention", "decoder_attention", "cross_attention", "model", "loss")
"""Groups that tell most; the others follow by name."""

ASIDE = (*FREE, "seed", "horizon", "context_length")
"""Root keys that make no arm: told elsewhere, or the same for all."""

OF_GROUPS = {
    "data": NOT_SCORED,
    "training": (*(key for key in FREE_TRAINING if key not in BUDGET), "evaluation_batch_size", "precision"),
}
"""Keys within groups that make no arm."""


def arms(configs: Sequence[Config]) -> list[str]:
    """Give each configuration's name among the others: its mechanism, and as few words as tell it from the rest.

    What differs only where earlier words differ too is left out: the table of what was held equal has it.
    """
    kept: list[Column] = []
    for column in _columns(configs):
        if not kept or len(set(zip(*kept, column, strict=True))) > len(set(zip(*kept, strict=True))):
            kept.append(column)
    return [", ".join(word for word in words if word is not None) for words in zip(*kept, strict=True)]


def _columns(configs: Sequence[Config]) -> Iterator[Column]:
    """Yield the words of each group of options: what it is, and then those of its keys that differ."""
    groups = {key for config in configs for key in config if key not in ASIDE}
    for group in sorted(groups, key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key)):
        values = [_kept(group, config.get(group)) for config in configs]
        names = [_name(value) for value in values]
        prefix = "" if group == "attention" else f"{group}="
        yield tuple(None if name is None or name == "" else prefix + name for name in names)
        flat = [flatten(value) if isinstance(value, Mapping) else {} for value in values]
        for key in dict.fromkeys(key for each in flat for key in each if key not in NAMES):
            differing = {name for name in names if len({_shown(each.get(key)) for each in _of(name, names, flat)}) > 1}
            told = key if group == "attention" else f"{group}.{key}"
            yield tuple(
                f"{told}={_shown(each[key])}" if key in each and name in differing else None
                for each, name in zip(flat, names, strict=True)
            )


def _of(name: str | None, names: Sequence[str | None], flat: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the options of the groups of one name: keys of other names are not theirs."""
    return [each for each, its in zip(flat, names, strict=True) if its == name]


def _kept(group: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in value.items() if key not in OF_GROUPS.get(group, ())}


def _name(value: Any) -> str | None:
    """Give what a group's options are called, "" if nothing; a value that is no group is called itself."""
    if not isinstance(value, Mapping):
        return None if value is None else _shown(value)
    return next((str(value[key]).rpartition(".")[2] for key in NAMES if key in value), "")


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
