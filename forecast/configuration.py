"""What Hydra composed, as plain values, and Hydra's complaints in one line."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from forecast.errors import InputError
from forecast.folders import configuration_folder

COMPLAINTS = (HydraException, OmegaConfBaseException)
"""What Hydra raises about a command line or a file that it cannot compose."""

LAUNCHERS = {"joblib": "joblib", "submitit": "slurm"}
"""How the names of launchers begin that need an extra, and the extra."""


def compose_words(words: Sequence[str], folder: Path | None = None) -> DictConfig:
    """Give the configuration that the words of one training compose to, from `folder` if given.

    Raises
    ------
    InputError
        With Hydra's complaint.
    """
    try:
        with initialize_config_dir(str(folder or configuration_folder()), version_base="1.3"):
            return compose("config", list(words))
    except COMPLAINTS as error:
        raise InputError(one_line(error)) from None


def plain_values(config: DictConfig) -> dict[str, Any]:
    """Give the configuration as plain values, interpolations resolved.

    Raises
    ------
    InputError
        If a value that has to be given is not.
    """
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise InputError(one_line(error)) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def check_trial(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Refuse `trainer=smoke` where something else has set the length of the run, which would then be no trial.

    Raises
    ------
    InputError
        With the word that makes it one.
    """
    if "trainer=smoke" not in words or any(word.startswith("training.max_steps=") for word in words):
        return
    steps = OmegaConf.load(configuration_folder() / "trainer" / "smoke.yaml").training.max_steps
    if (other := config["training"]["max_steps"]) != steps:
        raise InputError(
            f"trainer=smoke: the experiment sets training.max_steps={other} after it: add training.max_steps={steps}"
        )


def one_line(error: Exception) -> str:
    """Give Hydra's complaint without what speaks of its own insides."""
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is not given: set {error.full_key}=…, as in data=csv data.path=my.csv"
    message = " ".join(str(error).split("Config search path")[0].split())
    message = re.sub(r"To append to your config use .*", "No such option here: see the files of conf/", message)
    if type(error).__name__ == "OverrideParseException":
        message += "; a value with blanks, brackets, ~ or = is quoted twice: 'data.path=\"my file [1].csv\"'"
    for launcher, extra in LAUNCHERS.items():
        if f"hydra/launcher/{launcher}" in message:
            message += f"; install it: pip install -e '.[{extra}]'"
    return message
