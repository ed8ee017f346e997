"""Labels that several things would share, told apart by the facts in which those differ."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any


def told_apart(labels: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Give each label, with as few facts behind it as tell it from the others of the same label.

    Parameters
    ----------
    labels
        Of things that are to be told apart where that can be done.
    facts
        Of each, the most telling ones first; one that a thing lacks counts as None.
    """
    told = list(labels)
    for label in dict.fromkeys(labels):
        places = [place for place, other in enumerate(labels) if other == label]
        for place, words in zip(places, _words([facts[place] for place in places]), strict=True):
            told[place] = behind(label, words)
    return told


def _words(facts: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Give the words of each thing: a fact is used where more things differ with it than without it."""
    used: list[str] = []
    seen: list[tuple[Hashable, ...]] = [() for _ in facts]
    for key in dict.fromkeys(key for each in facts for key in each):
        with_it = [(*before, shown(each.get(key))) for before, each in zip(seen, facts, strict=True)]
        if len(set(with_it)) > len(set(seen)):
            used.append(key)
            seen = with_it
    return [[f"{key}={shown(each.get(key))}" for key in used] for each in facts]


def behind(label: str, words: Sequence[str]) -> str:
    """Give a label with words behind it; the words alone where it is empty."""
    if not words:
        return label
    return f"{label} ({', '.join(words)})" if label else " ".join(words)


def shown(value: Any) -> str:
    """Give a value as a command line has it."""
    return value if isinstance(value, str) else json.dumps(value)
