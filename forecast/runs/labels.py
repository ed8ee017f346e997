"""Labels that distinguish runs, and keys of runs on the same data."""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from forecast.common.files import flatten
from forecast.runs.resume import BUDGET, FREE, FREE_TRAINING

Facts = Mapping[Any, Any]


def telling(facts: Sequence[Facts]) -> list[Any]:
    """Return as few keys as distinguish the things: one is used where more of them differ with it than without it.

    Parameters
    ----------
    facts
        Of each thing, the most telling ones first; one that a thing lacks counts as None.
    """
    used: list[Any] = []
    seen: list[tuple[str, ...]] = [() for _ in facts]
    for key in dict.fromkeys(key for each in facts for key in each):
        with_it = [(*before, shown(each.get(key))) for before, each in zip(seen, facts, strict=True)]
        if len(set(with_it)) > len(set(seen)):
            used.append(key)
            seen = with_it
    return used


def differing(facts: Sequence[Facts]) -> list[Any]:
    """Return the keys in which the things differ at all."""
    keys = dict.fromkeys(key for each in facts for key in each)
    return [key for key in keys if len({shown(each.get(key)) for each in facts}) > 1]


def facts_apart(
    labels: Sequence[Hashable], facts: Sequence[Facts], choose: Callable[[Sequence[Facts]], list[Any]] = telling
) -> list[dict[Any, Any]]:
    """Return the facts that distinguish each thing from the others of its label; none where it is the only one."""
    groups: dict[Hashable, list[Facts]] = {}
    for label, own in zip(labels, facts, strict=True):
        groups.setdefault(label, []).append(own)
    keys = {label: choose(group) for label, group in groups.items()}
    return [{key: own.get(key) for key in keys[label]} for label, own in zip(labels, facts, strict=True)]


def unique_labels(labels: Sequence[str], facts: Sequence[Facts]) -> list[str]:
    """Return each label, with as few facts behind it as distinguish it from the same label of others."""
    return [
        behind(label, [f"{key}={shown(value)}" for key, value in own.items()])
        for label, own in zip(labels, facts_apart(labels, facts), strict=True)
    ]


def behind(label: str, words: Sequence[str]) -> str:
    """Return a label with words behind it; the words alone where it is empty."""
    if not words:
        return label
    return f"{label} ({', '.join(words)})" if label else " ".join(words)


def shown(value: Any) -> str:
    """Return a value as a command line has it."""
    return value if isinstance(value, str) else json.dumps(value)


NOT_SCORED = ("name", "path", "file_name", "url", "about", "sha256", "time_column", "targets")
"""Keys of `data` that say where a table comes from, or are told better by the result."""

INPUTS = ("past_covariates", "calendar")
"""Keys of `data` that say what a model is given beside the targets; they differ between settings, not data."""


def data_key(result: dict[str, Any]) -> str:
    """Return what runs have in common that forecast the same series of the same table, as far and as often ahead."""
    data, config = result["data"], result["config"]["data"]
    told = {key: value for key, value in config.items() if key not in (*NOT_SCORED, *INPUTS)}
    stride = data.get("evaluation_stride", 1)
    facts = [data["name"], result["config"]["horizon"], data["targets"], data.get("sha256"), stride, told]
    return json.dumps(facts, sort_keys=True)


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


def arm_labels(configs: Sequence[Config]) -> list[str]:
    """Return each configuration's name among the others: its mechanism, and as few words as distinguish it.

    What differs only where earlier words differ too is left out: the table of what was held equal has it.
    """
    words = [dict(enumerate(each)) for each in zip(*_columns(configs), strict=True)]
    used = dict.fromkeys([0, *telling(words)])  # the mechanism is always said
    return [", ".join(each[key] for key in used if each[key] is not None) for each in words]


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
    """Return the options of the groups of one name: keys of other names are not theirs."""
    return [each for each, its in zip(flat, names, strict=True) if its == name]


def _kept(group: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in value.items() if key not in OF_GROUPS.get(group, ())}


def _name(value: Any) -> str | None:
    """Return what a group's options are called, "" if nothing; a value that is no group is called itself."""
    if not isinstance(value, Mapping):
        return None if value is None else _shown(value)
    return next((str(value[key]).rpartition(".")[2] for key in NAMES if key in value), "")


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
