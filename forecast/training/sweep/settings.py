"""What a sweep is asked to be, checked before its first job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import Override, ValueType
from omegaconf import DictConfig, OmegaConf

from forecast.common.errors import InputError
from forecast.common.options import check_options
from forecast.runs.resume import BUDGET, FREE, FREE_TRAINING
from forecast.runs.rows import FIGURES
from forecast.runs.settings import check_one_process
from forecast.training.sweep.overrides import LONGEST, NAME

OF_THE_TEST_PART = ("test", "baselines")
"""What no search may look at: it would choose by the part that is to be scored once."""

ONE_FOR_ALL = (*FREE, *(f"training.{key}" for key in FREE_TRAINING if key not in BUDGET))
"""Keys that a whole sweep has in common: a folder that differs in them alone is taken for the same run's."""


@dataclass(frozen=True)
class SweepSettings:
    """The `sweep` group."""

    name: str | None
    objective: str
    minutes: float | None
    isolate: bool
    search: bool
    repeat_timing: float


def check_words(overrides: Sequence[Override]) -> None:
    """Refuse to sweep what all jobs have in common, to place them elsewhere, and to ask for one job twice.

    Raises
    ------
    InputError
        Naming the word.
    """
    for override in overrides:
        if override.key_or_group == "hydra.sweep" or override.key_or_group.startswith("hydra.sweep."):
            raise InputError(
                f"{override.input_line}: the folders of a sweep are the program's: set output_dir, sweep.name"
            )
        key = override.key_or_group
        if override.is_sweep_override() and (key in ONE_FOR_ALL or key.split(".")[0] in ONE_FOR_ALL):
            raise InputError(f"{override.input_line}: all jobs of a sweep share one {override.key_or_group}: give one")
        if override.value_type in (ValueType.CHOICE_SWEEP, ValueType.SIMPLE_CHOICE_SWEEP):
            values = list(override.sweep_string_iterator())
            if twice := [value for value in values if values.count(value) > 1]:
                raise InputError(f"{override.input_line}: gives {twice[0]} twice: each job runs once: give it once")


def read_sweep(config: DictConfig) -> SweepSettings:
    """Return the `sweep` group of what all jobs share, checked with the keys that a sweep leaves no choice.

    Raises
    ------
    InputError
        Naming the key, the value and the cure.
    """
    plain = OmegaConf.to_container(config.sweep, resolve=True)
    assert isinstance(plain, dict)
    values: dict[str, Any] = {str(key): value for key, value in plain.items()}
    if isinstance(values.get("name"), (int, float)):  # sweep.name=2024 is meant as a word
        values["name"] = str(values["name"])
    check_options(SweepSettings, values, "sweep")
    settings = SweepSettings(**values)
    if settings.name is not None and NAME.fullmatch(settings.name) is None:
        raise InputError(
            f"sweep.name={settings.name}: must be 1 to {LONGEST} of the letters A-Z a-z 0-9 . _ -, the first no sign"
        )
    _check_objective(settings.objective)
    if settings.minutes is not None and not 0 < settings.minutes < float("inf"):
        raise InputError(f"sweep.minutes={settings.minutes}: must be above 0 and finite, or null for no limit")
    if not 0 <= settings.repeat_timing < float("inf"):
        raise InputError(
            f"sweep.repeat_timing={settings.repeat_timing}: must be seconds, 0 or more; 0 times nothing again"
        )
    resume = config.get("resume")
    if resume not in (None, False, "auto"):
        raise InputError(f"resume={resume}: each job of a sweep resumes itself: leave it out")
    check_one_process({key: OmegaConf.select(config, f"trainer.{key}", default=1) for key in ("devices", "num_nodes")})
    return settings


def _check_objective(path: str) -> None:
    parts = path.split(".")
    if any(part in OF_THE_TEST_PART for part in parts):
        raise InputError(f"sweep.objective={path}: is of the test part: choose one of validation, as validation.skill")
    scores = [f"validation.{unit}.{score}" for unit in ("scaled", "original") for score in ("mse", "mae")]
    others = [place for place in FIGURES.values() if place.split(".")[0] in ("speed", "model")]
    if path not in (known := [*scores, "validation.skill", *others]):
        raise InputError(f"sweep.objective={path}: no result has it: choose {', '.join(known)}")
