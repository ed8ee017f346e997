"""Labels that distinguish runs, and a key that runs on the same data share."""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from forecast.common.files import flatten, look_up
from forecast.runs.resume import BUDGET, FREE, FREE_TRAINING
from forecast.tables.roles import OPTIONS

Facts = Mapping[Any, Any]


def telling_keys(facts: Sequence[Facts]) -> list[Any]:
    """Return as few keys as possible that distinguish the things; a missing key counts as None.

    Earlier keys of `facts` are more important. A key is used if it makes more things distinct.
    """
    used: list[Any] = []
    seen: list[tuple[str, ...]] = [() for _ in facts]
    for key in dict.fromkeys(key for thing in facts for key in thing):
        extended = [(*values, shown(thing.get(key))) for values, thing in zip(seen, facts, strict=True)]
        if len(set(extended)) > len(set(seen)):
            used.append(key)
            seen = extended
    return used


def differing(facts: Sequence[Facts]) -> list[Any]:
    """Return all keys in which the things differ."""
    keys = dict.fromkeys(key for thing in facts for key in thing)
    return [key for key in keys if len({shown(thing.get(key)) for thing in facts}) > 1]


def facts_apart(
    labels: Sequence[Hashable], facts: Sequence[Facts], choose: Callable[[Sequence[Facts]], list[Any]] = telling_keys
) -> list[dict[Any, Any]]:
    """Return the facts that distinguish each thing from others with its label; no facts for a unique label."""
    groups: dict[Hashable, list[Facts]] = {}
    for label, thing in zip(labels, facts, strict=True):
        groups.setdefault(label, []).append(thing)
    keys = {label: choose(group) for label, group in groups.items()}
    return [{key: thing.get(key) for key in keys[label]} for label, thing in zip(labels, facts, strict=True)]


def unique_labels(labels: Sequence[str], facts: Sequence[Facts]) -> list[str]:
    """Return one unique label per thing, with as few added facts as possible."""
    return [
        behind(label, [f"{key}={shown(value)}" for key, value in added.items()])
        for label, added in zip(labels, facts_apart(labels, facts), strict=True)
    ]


def behind(label: str, words: Sequence[str]) -> str:
    """Return a label followed by words in brackets; the words alone if the label is empty."""
    if not words:
        return label
    return f"{label} ({', '.join(words)})" if label else " ".join(words)


def shown(value: Any) -> str:
    """Return a value as on a command line."""
    return value if isinstance(value, str) else json.dumps(value)


NOT_SCORED = (
    *("name", "path", "file_name", "url", "about", "sha256"),
    *("time_column", "time_columns", "date_format", "time_zone", "targets", "perfect_foresight"),
)
"""Keys of `data` that name the source of a table, or that the result also has."""

INPUTS = (
    *(key for key in OPTIONS.values() if key != "targets"),
    *("categorical", "id_embedding"),
    *("holidays", "holidays_column", "holidays_before", "holidays_after", "calendar"),
)
"""Keys of `data` for the model's other inputs; they differ between settings, not data."""


def data_key(result: dict[str, Any]) -> str:
    """Return a key shared by runs that forecast the same series of a table at the same horizon and frequency."""
    data, config = result["data"], result["config"]["data"]
    aside = (*NOT_SCORED, *INPUTS)
    scored = {key: value for key, value in config.items() if key not in aside and value is not None}
    stride = data.get("evaluation_stride", 1)
    facts = [data["name"], result["config"]["horizon"], data["targets"], data.get("sha256"), stride, scored]
    return json.dumps(facts, sort_keys=True)


Config = Mapping[str, Any]

Column = tuple[str | None, ...]
"""A word for each configuration, None if it needs no word."""

NAMES = ("name", "_target_")
"""Keys whose value names a group of options."""

FIRST = ("attention", "decoder_attention", "cross_attention", "model", "loss")
"""The most important groups; the others follow by name."""

START = "start_from"

ASIDE = (*FREE, "evaluation", "seed", "horizon", "context_length", START)
"""Root keys that do not distinguish arms: shown elsewhere, or equal in all. Each label has its start."""

OF_GROUPS = {
    "data": NOT_SCORED,
    "training": (*(key for key in FREE_TRAINING if key not in BUDGET), "evaluation_batch_size", "precision"),
}
"""Keys within groups that do not distinguish arms."""


def arm_labels(configs: Sequence[Config]) -> list[str]:
    """Return each configuration's unique label: its mechanism, its start unless random, and as few words as possible.

    A value that differs only where earlier words also differ is left out.
    """
    starts = [_start(config) for config in configs]
    words: list[dict[Any, str | None]] = [
        {0: row[0], START: start, **dict(enumerate(row))}
        for start, row in zip(starts, zip(*_columns(configs), strict=True), strict=True)
    ]
    used = dict.fromkeys([0, START, *telling_keys(words)])
    return [", ".join(word for key in used if (word := row[key]) is not None) for row in words]


def _start(config: Config) -> str | None:
    """Return the word of a start, None for random weights."""
    return None if config.get(START) is None else f"{START}={config[START]}"


def start_weights(result: Mapping[str, Any]) -> str:
    """Return the word of the weights of a start, by their hash, which distinguishes starts at the same place."""
    return f"{START}.weights={str(look_up(result, f'{START}.weights'))[:8]}"


def _columns(configs: Sequence[Config]) -> Iterator[Column]:
    """Yield the words of each group of options: its name, then its keys that differ."""
    groups = {key for config in configs for key in config if key not in ASIDE}
    for group in sorted(groups, key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key)):
        values = [_kept(group, config.get(group)) for config in configs]
        names = [_name(value) for value in values]
        prefix = "" if group == "attention" else f"{group}="
        yield tuple(None if name is None or name == "" else prefix + name for name in names)
        flat = [flatten(value) if isinstance(value, Mapping) else {} for value in values]
        for key in dict.fromkeys(key for options in flat for key in options if key not in NAMES):
            differing = {name for name in names if len({_shown(row.get(key)) for row in _of(name, names, flat)}) > 1}
            path = key if group == "attention" else f"{group}.{key}"
            yield tuple(
                f"{path}={_shown(options[key])}" if key in options and name in differing else None
                for options, name in zip(flat, names, strict=True)
            )


def _of(name: str | None, names: Sequence[str | None], flat: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [options for options, other in zip(flat, names, strict=True) if other == name]


def _kept(group: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in value.items() if key not in OF_GROUPS.get(group, ())}


def _name(value: Any) -> str | None:
    """Return the name of a group's options, "" without a name; the value itself if it is not a group."""
    if not isinstance(value, Mapping):
        return None if value is None or value == [] else _shown(value)
    return next((str(value[key]).rpartition(".")[2] for key in NAMES if key in value), "")


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
