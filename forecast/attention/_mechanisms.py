"""Which attention mechanisms are measured: every one of the folder, with the values of its YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecast import attention
from forecast.attention._words import configured, split_word
from forecast.attention.base import Attention
from forecast.common.errors import InputError

FUSED = "full:implementation=fused"
"""What everything is compared with, and what is measured whatever else is asked for."""

BESIDE = ("full:implementation=explicit",)
"""Measured beside the mechanisms as their files have them."""

_ANY_LENGTH = 4096


@dataclass(frozen=True)
class Variant:
    """One mechanism with its arguments, under the label that stands in tables."""

    label: str
    name: str
    arguments: Mapping[str, Any]
    time_cost: str
    memory_cost: str

    def words(self, causal: bool) -> set[str]:
        """Return what a declared cost may depend on: "causal", and the arguments that are words."""
        return {value for value in self.arguments.values() if isinstance(value, str)} | (
            {"causal"} if causal else set()
        )

    def build(self, *, num_heads: int, head_dim: int, causal: bool, length: int) -> Attention:
        """Return the mechanism for queries and keys of `length`; InputError where it refuses."""
        sizes = {"num_heads": num_heads, "head_dim": head_dim, "max_key_length": length}
        return attention.build(self.name, **self.arguments, **sizes, causal=causal)


def reference_label() -> str:
    """Return the label of the fused softmax, whatever its YAML file says."""
    return parse(FUSED).label


def choose(words: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants that `words` name, all of the folder for none, the fused softmax first whatever they say.

    A word is a mechanism, or `name:key=value,key=value` for values other than those of its YAML file.
    """
    found = {variant.label: variant for variant in (parse(FUSED), *named(words))}
    return tuple(found.values())


def named(words: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants that `words` name and no other, all of the folder for none, each once."""
    found = [parse(word) for word in words or (*attention.available(), *BESIDE)]
    return tuple({variant.label: variant for variant in found}.values())


def parse(word: str, option: str = "--mechanisms") -> Variant:
    """Return the variant that a word names; the label says what differs from the YAML file.

    Raises
    ------
    InputError
        For a name that is not known, a missing file, or arguments that the mechanism does not take.
    """
    name, _, _ = word.partition(":")
    if name not in attention.available():
        raise InputError(f"{option} {word}: {name!r} is none of {', '.join(attention.available())}")
    _, changed = split_word(word, option, FUSED)
    arguments = configured("attention", name) | changed
    attention.check_arguments(arguments)
    built = attention.build(name, **arguments, num_heads=1, head_dim=8, max_key_length=_ANY_LENGTH)
    return Variant(label_of(name, changed), name, arguments, built.time_cost, built.memory_cost)


def label_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a mechanism's name with those of its arguments that differ from its YAML file."""
    usual = configured("attention", name)
    differing = {key: value for key, value in arguments.items() if usual.get(key) != value}
    return " ".join(
        [name, *(value if isinstance(value, str) else f"{key}={value}" for key, value in differing.items())]
    )
