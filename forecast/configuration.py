"""Where the configuration lies, and what it says of a mechanism."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forecast.errors import InputError


def configuration_folder() -> Path:
    """Give the folder of the configuration: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def attention_arguments(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give what `attention=<name>` hands to each mechanism, composed as for a training, plain values.

    Raises
    ------
    InputError
        If a mechanism has no YAML file, or one that names another.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    folder = configuration_folder()
    for name in names:
        file = folder / "attention" / f"{name}.yaml"
        if not file.is_file():
            raise InputError(f"{file}: no such file: write it, with `name: {name}` and the arguments of the mechanism")
    with initialize_config_dir(str(folder), version_base="1.3"):
        # one composition for all of them: each costs a quarter of a second
        config = compose("config", [f"+attention@mechanisms.{name}={name}" for name in names])
    composed = OmegaConf.to_container(config.mechanisms, resolve=True)
    assert isinstance(composed, dict)
    for name in names:
        if composed[name].get("name") != name:
            raise InputError(f"{folder / 'attention' / name}.yaml: must say `name: {name}`, as the file is called")
    return {name: composed[name] for name in names}
