"""Settings of a sweep, checked before its first job."""

from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.types import Override, ValueType
from omegaconf import DictConfig, OmegaConf

from forecast.common.errors import InputError
from forecast.common.settings import option, read_options, settings
from forecast.runs.read import FIGURES
from forecast.runs.resume import BUDGET, FREE, FREE_TRAINING
from forecast.runs.settings import check_one_process
from forecast.training.sweep.overrides import LONGEST, NAME

OF_THE_TEST_PART = ("test", "baselines")
"""Parts that no search may look at: it would choose by the part that is to be scored once."""

ONE_FOR_ALL = (*FREE, *(f"training.{key}" for key in FREE_TRAINING if key not in BUDGET))
"""Keys that a whole sweep shares: a folder that differs in them alone counts as the same run's."""


@settings
class SweepSettings:
    """The `sweep` group: settings that the jobs of a multirun share."""

    name: str | None = option("Name of the sweep's folder; null: made from the command line.")
    objective: str = option("The number of result.json that a search minimizes, none of the test part.")
    minutes: float | None = option(
        "Time after which no further job begins.", unit="minutes", above=0, null="null for no limit"
    )
    isolate: bool = option("Run each job in a process of its own.")
    search: bool = option("Choose among the jobs: show validation alone, and rank it.")
    repeat_timing: float = option(
        "Time in which each setting is timed again, in turn with the others; 0: not at all.", unit="seconds", least=0
    )


def check_words(overrides: Sequence[Override]) -> None:
    """Refuse to sweep settings that all jobs share, to move them elsewhere, and to ask for one job twice."""
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
    """Return the `sweep` group, checked together with the keys that a sweep fixes."""
    plain = OmegaConf.to_container(config.sweep, resolve=True)
    assert isinstance(plain, dict)
    values: dict[str, Any] = {str(key): value for key, value in plain.items()}
    if isinstance(values.get("name"), (int, float)):  # sweep.name=2024 is meant as a word
        values["name"] = str(values["name"])
    sweep = SweepSettings(**read_options(SweepSettings, values, "sweep"))
    if sweep.name is not None and NAME.fullmatch(sweep.name) is None:
        raise InputError(
            f"sweep.name={sweep.name}: must be 1 to {LONGEST} of the letters A-Z a-z 0-9 . _ -, the first no sign"
        )
    _check_objective(sweep.objective)
    resume = config.get("resume")
    if resume not in (None, False, "auto"):
        raise InputError(f"resume={resume}: each job of a sweep resumes itself: leave it out")
    check_one_process({key: OmegaConf.select(config, f"trainer.{key}", default=1) for key in ("devices", "num_nodes")})
    return sweep


def _check_objective(path: str) -> None:
    parts = path.split(".")
    if any(part in OF_THE_TEST_PART for part in parts):
        raise InputError(f"sweep.objective={path}: is of the test part: choose one of validation, as validation.skill")
    scores = [f"validation.{unit}.{score}" for unit in ("scaled", "original") for score in ("mse", "mae")]
    others = [place for place in FIGURES.values() if place.split(".")[0] in ("speed", "model")]
    if path not in (known := [*scores, "validation.skill", *others]):
        raise InputError(f"sweep.objective={path}: no result has it: choose {', '.join(known)}")
