"""Words such as `probsparse:factor=9`: something by its name, and what is to differ from its YAML file."""

import json
import re
from typing import Any

from omegaconf import OmegaConf

from forecast.common.errors import InputError
from forecast.common.folders import configuration_folder

_REFERENCE = re.compile(r"\$\{|^defaults:", re.MULTILINE)


def split_word(word: str, option: str, example: str) -> tuple[str, dict[str, Any]]:
    """Give the name in a word and the values that stand after it.

    Raises
    ------
    InputError
        Naming `option` and showing `example`, if what stands there is no `key=value`.
    """
    name, _, rest = word.partition(":")
    given = rest.split(",") if rest else []
    if wrong := [part for part in given if not part.partition("=")[2]]:
        raise InputError(f"{option} {word}: {wrong[0]!r} is not key=value, as in {example}")
    return name, {key: _value(text) for key, _, text in (part.partition("=") for part in given)}


def configured(group: str, name: str) -> dict[str, Any]:
    """Give what `conf/<group>/<name>.yaml` says, its name aside.

    Raises
    ------
    InputError
        If there is no such file.
    """
    file = configuration_folder() / group / f"{name}.yaml"
    if not file.is_file():
        raise InputError(f"{file}: no such file: {group}={name} has its values there")
    if group == "attention" and _REFERENCE.search(file.read_text(encoding="utf-8")):
        # composed as for a training; Hydra takes a second, which the others are spared
        from forecast.attention._arguments import attention_arguments

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
