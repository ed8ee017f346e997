"""Hydra's composed configuration as plain values, and its errors in one line."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from forecast.common.conf_files import about_option, choice_files, configuration_folder, listed, nearest_choice
from forecast.common.errors import InputError, first_line, signal_behind
from forecast.common.files import flatten

COMPLAINTS = (HydraException, OmegaConfBaseException)
"""Errors that Hydra raises for a command line or a file that it cannot compose."""

EXTRAS = {"joblib": "joblib", "submitit_slurm": "slurm", "submitit_local": "slurm", "optuna": "optuna", "ray": "ray"}
"""Launchers and sweepers that need an optional dependency → the extra that installs it."""

ABSENT = re.compile(r"Could not (?:override '([^'@]+)'|delete from config. '([^']+)' does not exist)")
"""Hydra's message for a missing option."""

UNKNOWN_CHOICE = re.compile(r"Could not find '(.*)' Available options in '(\S+)': (.*)$")
"""Hydra's message for a missing choice: the group and the choice, the group, the available choices."""

OF_HYDRA = ("hydra/launcher", "hydra.launcher.", "hydra/sweeper", "hydra.sweeper.", "hydra.mode")
"""Prefixes of the overrides that set how the jobs of a sweep run."""


EMPTY = ("logger", "callbacks", "experiment", "attention@decoder_attention")
"""Places that may be without a choice."""

NULL = re.compile(r"(?<![\w.'\"-])null(?![\w.'\"-])", re.IGNORECASE)


def without_null(words: Iterable[str]) -> list[str]:
    """Return the overrides with `[]` instead of null as the choice of a place, since Hydra fails at null.

    Raise InputError for a place that every run fills.
    """
    return [_without_null(word) for word in words]


def _without_null(word: str) -> str:
    key, _, value = word.partition("=")
    place = key.lstrip("+")
    group = place.partition("@")[0]
    if value.startswith("{") or not NULL.search(value) or not _is_group(group):
        return word
    if place not in EMPTY:
        choices = [file.stem for file in choice_files(group)]
        raise InputError(f"{word}: every run needs one: {f'choose {listed(choices)}' if choices else 'leave it out'}")
    if value.startswith("["):
        raise InputError(f"{word}: null is no item of a list: leave it out")
    return f"{key}={NULL.sub('[]', value)}"


def _is_group(name: str) -> bool:
    return name.startswith("hydra/") or (name.isidentifier() and (configuration_folder() / name).is_dir())


def check_hydra_words(words: Iterable[str]) -> None:
    """Raise InputError for overrides that make Hydra write elsewhere or call a named function."""
    for word in words:
        key = word.lstrip("+~").partition("=")[0].partition("@")[0]
        if not re.match(r"hydra([./]|$)", key):
            continue
        if key.startswith("hydra.sweep."):
            raise InputError(f"{word}: the folders of a sweep are fixed: set output_dir or sweep.name")
        if not key.startswith(OF_HYDRA):
            raise InputError(f"{word}: is set by the program: leave it out (output_dir sets the folder of the runs)")
        if "_target_" in word:
            raise InputError(f"{word}: targets are not allowed here: choose hydra/launcher or hydra/sweeper")


def compose_words(words: Sequence[str], folder: Path | None = None, name: str = "config") -> DictConfig:
    """Return the configuration that Hydra composes from a file and overrides, those of one training."""
    check_hydra_words(words)
    words = without_null(words)
    try:
        with initialize_config_dir(str(folder or configuration_folder()), version_base="1.3"):
            return compose(name, words)
    except (*COMPLAINTS, ValueError) as error:  # ValueError: a number or boolean as the choice of a group
        raise InputError(one_line(error, words)) from None


def plain_values(config: DictConfig) -> dict[str, Any]:
    """Return the configuration as plain values with interpolations resolved; callbacks and a logger may be none."""
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise InputError(one_line(error)) from None
    assert isinstance(plain, dict)
    values = {str(key): value for key, value in plain.items()}
    for name, value in flatten(values).items():
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise InputError(
                f"{name}: a whole number above {sys.float_info.max:.1e} is too large for a float: lower it"
            )
    return {"callbacks": {}, "logger": {}} | values


def check_trial(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Raise InputError if `trainer=smoke` is overridden by another length of the run."""
    if "trainer=smoke" not in words or any(word.lstrip("+").startswith("training.max_steps=") for word in words):
        return
    steps = OmegaConf.load(configuration_folder() / "trainer" / "smoke.yaml").training.max_steps
    if (other := config["training"]["max_steps"]) != steps:
        raise InputError(
            f"trainer=smoke: the experiment sets training.max_steps={other} after it: add training.max_steps={steps}"
        )


def check_places(config: DictConfig, words: Sequence[str]) -> None:
    """Raise InputError if a mechanism is chosen for a place in which the experiment sets another choice after it."""
    for place in ("cross_attention", "decoder_attention"):
        typed = [word for word in words if word.lstrip("+~").startswith(f"attention@{place}=")]
        if typed and OmegaConf.is_interpolation(config, place):
            raise InputError(f"{typed[-1]}: the experiment has the mechanism of attention= in this place: leave it out")


def one_line(error: BaseException, words: Sequence[str] = ()) -> str:
    """Return Hydra's message, or that of its cause, in one line; re-raise a signal behind the error.

    Of a missing choice Hydra names the group alone; `words`, the overrides, tell the place, as in
    `attention@decoder_attention`.
    """
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is missing: set {error.full_key}=…, as in data=csv data.path=my.csv"
    if (stopped := signal_behind(error)) is not None:
        raise stopped
    message = " ".join(str(error).split("Config search path")[0].split())
    if not message:
        return first_line(error.__cause__ or error.__context__ or error)
    if absent := ABSENT.match(message):
        name = absent[1] or absent[2]
        return f"{name}: {about_option(name)}"
    if unknown := UNKNOWN_CHOICE.search(message):
        group, choices = unknown[2], [word for word in unknown[3].split() if word[0] != "_"]
        name = unknown[1].removeprefix(f"{group}/")
        if group in ("hydra/launcher", "hydra/sweeper") and name in EXTRAS:
            return f"{group}={name}: it is not installed: pip install -e '.[{EXTRAS[name]}]'"
        place = _place(group, name, words)
        near = nearest_choice(place, name, choices)
        return f"{place}={name}: no such choice: choose {listed(choices)}{near and f'; {near}'}"
    message = re.sub(r" To append to your default list use .*", "", message)
    if type(error).__name__ == "OverrideParseException":
        message += (
            "; quote a name with blanks, brackets, letters like ° or ², ~ or = twice: "
            "'data.targets=[\"Load (MW)\"]', 'data.path=\"my file [1].csv\"'"
        )
    return message


def _place(group: str, choice: str, words: Sequence[str]) -> str:
    """Return the group, with its place if the first override with this choice has one."""
    for word in words:
        key, _, values = word.lstrip("+~").partition("=")
        if key.partition("@")[0] == group and re.search(rf"(?<![\w-]){re.escape(choice)}(?![\w-])", values):
            return key
    return group
