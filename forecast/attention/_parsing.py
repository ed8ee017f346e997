"""Mechanisms by their words, such as `probsparse:factor=9`."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from forecast import attention
from forecast.attention import check_arguments
from forecast.attention._costs import Cost, cost_of
from forecast.attention.base import Attention
from forecast.common.conf_files import configuration_folder
from forecast.common.errors import InputError

_REFERENCE = re.compile(r"\$\{|^defaults:", re.MULTILINE)


def split_word(word: str, option: str, example: str) -> tuple[str, dict[str, Any]]:
    """Return the name in a word and the values after it."""
    name, _, rest = word.partition(":")
    given = rest.split(",") if rest else []
    if wrong := [part for part in given if not part.partition("=")[2]]:
        raise InputError(f"{option} {word}: {wrong[0]!r} is not key=value, as in {example}")
    return name, {key: _value(text) for key, _, text in (part.partition("=") for part in given)}


def configured(group: str, name: str) -> dict[str, Any]:
    """Return what `conf/<group>/<name>.yaml` says, its name aside."""
    file = configuration_folder() / group / f"{name}.yaml"
    if not file.is_file():
        raise InputError(f"{file}: no such file: {group}={name} has its values there")
    if group == "attention" and _REFERENCE.search(file.read_text(encoding="utf-8")):
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


FUSED = "full:implementation=fused"
"""What everything is compared with, and what is measured whatever else is asked for."""

BESIDE = ("full:implementation=explicit",)
"""Measured beside the mechanisms as their files have them."""

_ANY_LENGTH = 4096


@dataclass(frozen=True)
class Variant:
    """One mechanism with its arguments, under its label in tables."""

    label: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def kind(self) -> type[Attention]:
        """The mechanism's class."""
        return attention.find(self.name)

    def time_cost(self, causal: bool) -> Cost | None:
        """Return the declared cost in time, None where none is declared for this case."""
        return cost_of(self.kind.time_cost, self.words(causal))

    def memory_cost(self, causal: bool) -> Cost | None:
        """Return the declared cost in memory, None where none is declared for this case."""
        return cost_of(self.kind.memory_cost, self.words(causal))

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
    """Return the fused softmax, then the variants that `words` name, or all of the folder if there are none.

    A word is a mechanism, or `name:key=value,key=value` for values other than those of its YAML file.
    """
    found = {variant.label: variant for variant in (parse(FUSED), *named(words))}
    return tuple(found.values())


def named(words: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants that `words` name and no other, all of the folder for none, each once."""
    found = [parse(word) for word in words or (*attention.available(), *BESIDE)]
    return tuple({variant.label: variant for variant in found}.values())


def parse(word: str, option: str = "--mechanisms") -> Variant:
    """Return the variant that a word names; the label says what differs from the YAML file."""
    name, _, _ = word.partition(":")
    if name not in attention.available():
        raise InputError(f"{option} {word}: {name!r} is none of {', '.join(attention.available())}")
    _, changed = split_word(word, option, FUSED)
    arguments = configured("attention", name) | changed
    attention.check_arguments(arguments)
    attention.build(name, **arguments, num_heads=1, head_dim=8, max_key_length=_ANY_LENGTH)  # refuses what is wrong
    return Variant(label_of(name, changed), name, arguments)


def label_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a mechanism's name with those of its arguments that differ from its YAML file."""
    usual = configured("attention", name)
    differing = {key: value for key, value in arguments.items() if usual.get(key) != value}
    return " ".join(
        [name, *(value if isinstance(value, str) else f"{key}={value}" for key, value in differing.items())]
    )


def attention_arguments(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what `attention=<name>` hands to each mechanism, composed as for a training, plain values."""
    from forecast.common.configuration import compose_words, plain_values  # here, since Hydra takes a second

    folder = configuration_folder()
    files = {name: folder / "attention" / f"{name}.yaml" for name in names}
    for name, file in files.items():
        if not file.is_file():
            raise InputError(f"{file}: no such file: write it, with `name: {name}` and the arguments of the mechanism")
    # one composition for all of them: each costs a quarter of a second
    config = compose_words([f"+attention@mechanisms.{name}={name}" for name in names], folder)
    composed = plain_values(config.mechanisms)
    for name, file in files.items():
        if composed[name].get("name") != name:
            raise InputError(f"{file}: must say `name: {name}`, as the file is called")
        check_arguments(composed[name])
    return {name: composed[name] for name in names}
