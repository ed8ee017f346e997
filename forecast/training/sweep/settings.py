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
from forecast.training.start_from import LATEST
from forecast.training.sweep.overrides import LONGEST, NAME

TEST_KEYS = ("test", "baselines")
"""Keys of a result that a search may not use: the test split must not influence a choice."""

ONE_FOR_ALL = (*FREE, "evaluation", *(f"training.{key}" for key in FREE_TRAINING if key not in BUDGET))
"""Keys that all jobs of a sweep share: a folder that differs only in these belongs to the same run."""


@settings
class SweepSettings:
    """The `sweep` group: settings that the jobs of a multirun share."""

    name: str | None = option("Folder under <output_dir>/sweeps; null: made from the command line.")
    objective: str = option("Number in result.json that a search minimizes, not from the test split.")
    minutes: float | None = option(
        "Minutes after which no further job starts; the same command continues.",
        unit="minutes",
        above=0,
        null="null for no limit",
    )
    isolate: bool = option("true: each job in its own process.")
    repeat_timing: float = option(
        "Seconds of timing for each setting after the jobs; 0: none.", unit="seconds", least=0
    )


def check_words(overrides: Sequence[Override]) -> None:
    """Refuse to sweep settings that all jobs share, to change the jobs' folders, to repeat a value, and a moving start.

    The latest run is another one for each job, and for the next command.
    """
    for override in overrides:
        if override.key_or_group == "hydra.sweep" or override.key_or_group.startswith("hydra.sweep."):
            raise InputError(
                f"{override.input_line}: the program chooses the folders of a sweep: set output_dir or sweep.name"
            )
        key, swept = override.key_or_group, override.is_sweep_override()
        if swept and (key in ONE_FOR_ALL or key.split(".")[0] in ONE_FOR_ALL):
            raise InputError(
                f"{override.input_line}: all jobs of a sweep share one {override.key_or_group}: use a single value"
            )
        if key == "start_from" and LATEST in (override.sweep_string_iterator() if swept else [override.value()]):
            raise InputError(
                f"{override.input_line}: each job would begin with the job before it: give a run folder, outputs/…"
            )
        if override.value_type in (ValueType.CHOICE_SWEEP, ValueType.SIMPLE_CHOICE_SWEEP):
            values = list(override.sweep_string_iterator())
            if twice := [value for value in values if values.count(value) > 1]:
                raise InputError(f"{override.input_line}: {twice[0]} occurs twice, but each job runs once: remove one")


def read_sweep(config: DictConfig) -> SweepSettings:
    """Return the `sweep` group, checked together with the keys that a sweep fixes."""
    plain = OmegaConf.to_container(config.sweep, resolve=True)
    assert isinstance(plain, dict)
    values: dict[str, Any] = {str(key): value for key, value in plain.items()}
    if isinstance(values.get("name"), (int, float)):  # sweep.name=2024 is a name, not a number
        values["name"] = str(values["name"])
    sweep = SweepSettings(**read_options(SweepSettings, values, "sweep"))
    if sweep.name is not None and NAME.fullmatch(sweep.name) is None:
        raise InputError(
            f"sweep.name={sweep.name}: must be 1 to {LONGEST} of the characters A-Z a-z 0-9 . _ -, starting with a "
            "letter or digit"
        )
    _check_objective(sweep.objective)
    resume = config.get("resume")
    if resume not in (None, False, "auto"):
        raise InputError(f"resume={resume}: the jobs of a sweep resume automatically: leave it out")
    check_one_process({key: OmegaConf.select(config, f"trainer.{key}", default=1) for key in ("devices", "num_nodes")})
    return sweep


def _check_objective(path: str) -> None:
    parts = path.split(".")
    if any(part in TEST_KEYS for part in parts):
        cure = "choose a validation score such as validation.scaled.mse"
        raise InputError(f"sweep.objective={path}: is a test score: {cure}")
    scores = [f"validation.{unit}.{score}" for unit in ("scaled", "original") for score in ("mse", "mae")]
    others = [place for place in FIGURES.values() if place.split(".")[0] in ("speed", "model")]
    if path not in (known := [*scores, "validation.skill", *others]):
        raise InputError(f"sweep.objective={path}: no result has this number: choose {', '.join(known)}")
