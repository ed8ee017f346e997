"""The parts of the configuration that the program itself acts on, checked before anything is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from forecast.common.checks import check_least, check_options
from forecast.common.errors import InputError
from forecast.common.nearest import about_option
from forecast.data.placement import PLACEMENTS
from forecast.data.settings import check_data, check_seed, check_whole

GROUPS = (
    *("data", "model", "attention", "cross_attention", "optimizer", "scheduler"),
    *("training", "trainer", "callbacks", "logger"),
)
"""The groups that every run needs; `decoder_attention` may be null."""


@dataclass(frozen=True)
class Root:
    """The keys at the root of the configuration."""

    context_length: int
    horizon: int
    seed: int
    loss: str
    output_dir: str
    resume: bool | str


@dataclass(frozen=True)
class TrainingSettings:
    """The `training` group."""

    max_epochs: float | None
    max_steps: int | None
    max_time: str | None
    batch_size: int
    evaluation_batch_size: int
    evaluation_stride: int
    first_origin: int | None
    validations_per_epoch: float
    precision: str
    max_grad_norm: float | None
    start_confidence: float | None
    share_prior: float
    linear_path_rate: float
    checkpoint_minutes: float
    progress: bool
    profile: bool
    activation_checkpointing: bool
    data_placement: str
    compile: bool

    def total_steps(self, num_windows: int) -> int:
        """Give the length of the run in steps: `max_epochs` or `max_steps`, whichever comes first."""
        passes = float("inf") if self.max_epochs is None else self.max_epochs * num_windows / self.batch_size
        steps = passes if self.max_steps is None else min(passes, self.max_steps)
        return max(1, round(steps))

    def validation_interval(self, num_windows: int) -> int:
        """Give the steps from one validation to the next; one more follows the last step."""
        per_epoch = num_windows / self.batch_size
        return max(1, round(per_epoch / self.validations_per_epoch))


def read_root(config: Mapping[str, Any]) -> Root:
    """Give the root keys, checked.

    Raises
    ------
    InputError
        If one is of the wrong kind or out of its range.
    """
    for key in config:
        if key not in (*Root.__annotations__, *GROUPS, "decoder_attention", "sweep"):
            raise InputError(f"{key}: {about_option(str(key))}")
    check_groups(config)
    check_whole(config, Root.__annotations__, "")
    values = {key: config[key] for key in Root.__annotations__}
    for key, value in values.items():
        if key == "resume":
            check_resume(value)
        elif not isinstance(value, Root.__annotations__[key]) or isinstance(value, bool):
            raise InputError(f"{key}={value}: must be {Root.__annotations__[key].__name__}")
    for key in ("context_length", "horizon"):
        check_least(values[key], 1, key)
    check_seed(values["seed"], "seed")
    check_data(config["data"])
    return Root(**values)


def check_groups(config: Mapping[str, Any]) -> None:
    """Refuse a configuration in which a group of options is absent, or none.

    Raises
    ------
    InputError
        Naming it.
    """
    for key in (*GROUPS, *(["decoder_attention"] if config.get("decoder_attention") is not None else [])):
        if not isinstance(config.get(key), Mapping):
            raise InputError(f"{key}={config.get(key)}: must be a group of options, as the files of conf/ are")


def check_resume(value: Any) -> None:
    """Refuse what says neither whether nor where to go on.

    Raises
    ------
    InputError
        Naming the three ways.
    """
    if value is not False and not (isinstance(value, str) and value):
        raise InputError(f"resume={value}: choose false, auto (the newest run of this configuration), or a run folder")


def read_training(config: Mapping[str, Any]) -> TrainingSettings:
    """Give the `training` group, checked.

    Raises
    ------
    InputError
        If a value is of the wrong kind or out of its range.
    """
    check_options(TrainingSettings, config, "training")
    check_whole(config, TrainingSettings.__annotations__, "training.")
    settings = TrainingSettings(**config)
    for key in ("max_steps", "batch_size", "evaluation_batch_size", "evaluation_stride", "first_origin"):
        if getattr(settings, key) is not None:
            check_least(getattr(settings, key), 1, f"training.{key}")
    confidence = settings.start_confidence
    if confidence is not None and not 0.5 <= confidence < 1:
        raise InputError(f"training.start_confidence={confidence}: must be at least 0.5 and below 1, or null")
    if not 0 <= settings.linear_path_rate < float("inf"):
        raise InputError(f"training.linear_path_rate={settings.linear_path_rate}: must be at least 0 and finite")
    if not 0 <= settings.share_prior < float("inf"):
        raise InputError(f"training.share_prior={settings.share_prior}: must be at least 0 and finite")
    for key in ("max_epochs", "validations_per_epoch", "max_grad_norm", "checkpoint_minutes"):
        value = getattr(settings, key)
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"training.{key}={value}: must be above 0 and finite")
    if settings.max_epochs is None and settings.max_steps is None:
        raise InputError("training.max_epochs=None and training.max_steps=None: give one of them: a run has an end")
    if settings.data_placement not in PLACEMENTS:
        choices = f"{', '.join(PLACEMENTS[:-1])} or {PLACEMENTS[-1]}"
        raise InputError(f"training.data_placement={settings.data_placement}: choose {choices}")
    if settings.max_time is not None:
        parse_time(settings.max_time)
    return settings


def parse_time(text: str) -> timedelta:
    """Give the duration that dd:hh:mm:ss says.

    Raises
    ------
    InputError
        If it says none.
    """
    pieces = text.split(":")
    if len(pieces) != 4 or not all(piece.isdecimal() and len(piece) < 7 for piece in pieces):
        raise InputError(f"training.max_time={text}: must be dd:hh:mm:ss, such as 00:00:10:00 for ten minutes")
    days, hours, minutes, seconds = map(int, pieces)
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if not duration:
        raise InputError(f"training.max_time={text}: must be at least one second: a run makes at least one step")
    return duration
