"""What a training would hand to each mechanism."""

from collections.abc import Sequence
from typing import Any

from forecast.attention import check_arguments
from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.common.folders import configuration_folder


def attention_arguments(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give what `attention=<name>` hands to each mechanism, composed as for a training, plain values.

    Raises
    ------
    InputError
        If a mechanism has no YAML file, or one that cannot be composed or names another.
    """
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
