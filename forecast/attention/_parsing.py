"""Parse mechanisms on the command line, such as `probsparse:factor=9`."""

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
    """Split `name:key=value,key=value` into the name and a dictionary of the values."""
    name, _, rest = word.partition(":")
    items = rest.split(",") if rest else []
    if wrong := [item for item in items if not item.partition("=")[2]]:
        raise InputError(f"{option} {word}: {wrong[0]!r} is not key=value, as in {example}")
    return name, {key: _value(text) for key, _, text in (item.partition("=") for item in items)}


def configured(group: str, name: str) -> dict[str, Any]:
    """Return the values of `conf/<group>/<name>.yaml` except `name`."""
    file = configuration_folder() / group / f"{name}.yaml"
    if not file.is_file():
        raise InputError(f"{file}: no such file: it must hold the values of {group}={name}")
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
"""The reference of all comparisons: always measured."""

ALSO_MEASURED = ("full:implementation=explicit",)
"""Measured by default, in addition to each mechanism with the values of its file."""

_ANY_LENGTH = 4096


@dataclass(frozen=True)
class Variant:
    """One mechanism with its arguments, and its label in tables."""

    label: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def kind(self) -> type[Attention]:
        """The mechanism's class."""
        return attention.find(self.name)

    def time_cost(self, causal: bool) -> Cost | None:
        """Return the declared time cost; None if it is not declared for this case."""
        return cost_of(self.kind.time_cost, self.words(causal))

    def memory_cost(self, causal: bool) -> Cost | None:
        """Return the declared memory cost; None if it is not declared for this case."""
        return cost_of(self.kind.memory_cost, self.words(causal))

    def words(self, causal: bool) -> set[str]:
        """Return the cases of declared costs that apply: "causal", and all arguments that are strings."""
        return {value for value in self.arguments.values() if isinstance(value, str)} | (
            {"causal"} if causal else set()
        )

    def build(self, *, num_heads: int, head_dim: int, causal: bool, length: int) -> Attention:
        """Build the mechanism for keys of at most `length`; raise InputError if it refuses."""
        sizes = {"num_heads": num_heads, "head_dim": head_dim, "max_key_length": length}
        mechanism: Attention = attention.build(self.name, **self.arguments, **sizes, causal=causal)
        return mechanism


def reference_label() -> str:
    """Return the label of the fused softmax, the reference."""
    return parse(FUSED).label


def choose(words: Sequence[str]) -> tuple[Variant, ...]:
    """Return the fused softmax, then the variants of `words`; all mechanisms if `words` is empty.

    A word is the name of a mechanism, or `name:key=value,key=value` to change values of its YAML file.
    """
    variants = {variant.label: variant for variant in (parse(FUSED), *named(words))}
    return tuple(variants.values())


def named(words: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of `words`, each once; all mechanisms if `words` is empty."""
    variants = [parse(word) for word in words or (*attention.available(), *ALSO_MEASURED)]
    return tuple({variant.label: variant for variant in variants}.values())


def parse(word: str, option: str = "--mechanisms") -> Variant:
    """Return the variant that a word describes; its label names the values that differ from the YAML file."""
    name, _, _ = word.partition(":")
    if name not in attention.available():
        raise InputError(f"{option} {word}: {name!r} does not exist: choose one of {', '.join(attention.available())}")
    _, changed = split_word(word, option, FUSED)
    arguments = configured("attention", name) | changed
    attention.check_arguments(arguments)
    attention.build(name, **arguments, num_heads=1, head_dim=8, max_key_length=_ANY_LENGTH)  # checks the values
    return Variant(label_of(name, changed), name, arguments)


def label_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the name of a mechanism, followed by the arguments that differ from its YAML file."""
    defaults = configured("attention", name)
    differing = {key: value for key, value in arguments.items() if defaults.get(key) != value}
    return " ".join(
        [name, *(value if isinstance(value, str) else f"{key}={value}" for key, value in differing.items())]
    )


def attention_arguments(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the arguments that `attention=<name>` sets for each mechanism, composed as for a training."""
    from forecast.common.configuration import compose_words, plain_values  # imported here: Hydra takes a second

    folder = configuration_folder()
    files = {name: folder / "attention" / f"{name}.yaml" for name in names}
    for name, file in files.items():
        if not file.is_file():
            raise InputError(f"{file}: no such file: create it with `name: {name}` and the arguments of the mechanism")
    # one composition for all names: each takes a quarter of a second
    config = compose_words([f"+attention@mechanisms.{name}={name}" for name in names], folder)
    composed = plain_values(config.mechanisms)
    for name, file in files.items():
        if composed[name].get("name") != name:
            raise InputError(f"{file}: must contain `name: {name}`, the name of the file")
        check_arguments(composed[name])
    return {name: composed[name] for name in names}
