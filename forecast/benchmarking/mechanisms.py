"""Which attention mechanisms are measured: every one of the folder, with the values of its YAML file."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from forecast import attention
from forecast.attention.base import Attention
from forecast.errors import InputError
from forecast.folders import configuration_folder

FUSED = "full:implementation=fused"
"""What everything is compared with, and what is measured whatever else is asked for."""

BESIDE = ("full:implementation=explicit",)
"""Measured beside the mechanisms as their files have them."""

_ANY_LENGTH = 4096

_REFERENCE = re.compile(r"\$\{|^defaults:", re.MULTILINE)


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
    """Return the variants that `words` name, all of the folder for none, the fused softmax first.

    A word is a mechanism, or `name:key=value,key=value` for values other than those of its YAML file.
    """
    chosen = [parse(word) for word in words or (*attention.available(), *BESIDE)]
    found = {variant.label: variant for variant in [parse(FUSED), *chosen]}
    return tuple(found.values())


def parse(word: str) -> Variant:
    """Return the variant that a word names; the label says what differs from the YAML file.

    Raises
    ------
    InputError
        For a name that is not known, a missing file, or arguments that the mechanism does not take.
    """
    name, _, rest = word.partition(":")
    if name not in attention.available():
        raise InputError(f"--mechanisms {word}: {name!r} is none of {', '.join(attention.available())}")
    usual = usual_arguments(name)
    given = rest.split(",") if rest else []
    if wrong := [part for part in given if not part.partition("=")[2]]:
        raise InputError(f"--mechanisms {word}: {wrong[0]!r} is not key=value, as in {FUSED}")
    changed = {key: _value(text) for key, _, text in (part.partition("=") for part in given)}
    differing = {key: value for key, value in changed.items() if usual.get(key) != value}
    said = [value if isinstance(value, str) else f"{key}={value}" for key, value in differing.items()]
    arguments = usual | changed
    attention.check_arguments(arguments)
    built = attention.build(name, **arguments, num_heads=1, head_dim=8, max_key_length=_ANY_LENGTH)
    return Variant(" ".join([name, *said]), name, arguments, built.time_cost, built.memory_cost)


def usual_arguments(name: str) -> dict[str, Any]:
    """Return what `conf/attention/<name>.yaml` says, its name aside."""
    file = configuration_folder() / "attention" / f"{name}.yaml"
    if not file.is_file():
        raise InputError(f"{file}: no such file: a mechanism has its arguments there")
    if _REFERENCE.search(file.read_text(encoding="utf-8")):
        # composed as for a training; Hydra takes a second, which the others are spared
        from forecast.checking.arguments import attention_arguments

        loaded: Any = attention_arguments([name])[name]
    else:
        loaded = OmegaConf.to_container(OmegaConf.load(file), resolve=True)
    assert isinstance(loaded, dict)
    return {str(key): value for key, value in loaded.items() if key != "name"}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
