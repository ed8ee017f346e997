"""Settings of a run: root, training, trainer and precision."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from forecast.common.conf_files import about_option
from forecast.common.errors import InputError
from forecast.common.options import check_least, check_options
from forecast.data.sources import check_data, check_seed, check_whole
from forecast.data.storage import PLACEMENTS

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
        """Return the length of the run in steps: `max_epochs` or `max_steps`, whichever comes first."""
        passes = float("inf") if self.max_epochs is None else self.max_epochs * num_windows / self.batch_size
        steps = passes if self.max_steps is None else min(passes, self.max_steps)
        return max(1, round(steps))

    def validation_interval(self, num_windows: int) -> int:
        """Return the steps from one validation to the next; one more follows the last step."""
        per_epoch = num_windows / self.batch_size
        return max(1, round(per_epoch / self.validations_per_epoch))


def read_root(config: Mapping[str, Any]) -> Root:
    """Return the root keys, checked.

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
    """Return the `training` group, checked.

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
    """Return the duration that dd:hh:mm:ss says.

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


TRAINER_KEYS_OF_OURS = {
    "precision": "training.precision",
    "max_time": "training.max_time",
    "max_steps": "training.max_steps",
    "max_epochs": "training.max_epochs",
    "gradient_clip_val": "training.max_grad_norm",
    "enable_progress_bar": "training.progress",
    "val_check_interval": "training.validations_per_epoch",
    "callbacks": "callbacks",
    "logger": "logger",
    "default_root_dir": "output_dir",
}
"""What is settled outside the `trainer` group, and where."""

PER_PROCESSOR = 4
"""Most processes of a CPU training for each processor of the machine. A run folder may ask for a million."""


@dataclass(frozen=True)
class TrainerSettings:
    """The `trainer` group: nothing that leaves out windows or changes how steps are counted.

    `devices` is the number of processes on each of `num_nodes` machines, "auto" one for each GPU there.
    """

    accelerator: str
    devices: int | str
    log_every_n_steps: int
    num_nodes: int = 1
    benchmark: bool | None = None
    deterministic: bool | None = None
    detect_anomaly: bool = False


def read_trainer(trainer: Mapping[str, Any]) -> TrainerSettings:
    """Return the `trainer` group, checked.

    Raises
    ------
    InputError
        If it asks for what is not there, or for what is settled elsewhere.
    """
    for key, home in TRAINER_KEYS_OF_OURS.items():
        if key in trainer:
            raise InputError(f"trainer.{key}: is settled by {home}: set that instead")
    check_options(TrainerSettings, trainer, "trainer")
    check_whole(trainer, ("accelerator", "devices", "log_every_n_steps"), "trainer.")
    settings = TrainerSettings(**trainer)
    for key in ("log_every_n_steps", "num_nodes"):
        check_least(getattr(settings, key), 1, f"trainer.{key}")
    if settings.devices != "auto" and (not isinstance(settings.devices, int) or settings.devices < 1):
        raise InputError(f"trainer.devices={settings.devices}: must be auto or a whole number of at least 1")
    if settings.accelerator not in ("auto", "cpu", "gpu", "cuda"):
        raise InputError(f"trainer.accelerator={settings.accelerator}: choose auto, cpu or gpu")
    if settings.accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise InputError(
            f"trainer.accelerator={settings.accelerator}: torch finds no CUDA device here: use trainer=default"
        )
    return settings


def choose_device(trainer: Mapping[str, Any], local_rank: int = 0) -> torch.device:
    """Return the device of a machine's process `local_rank`: CUDA where there is one, else the CPU, for "auto".

    Raises
    ------
    InputError
        As `read_trainer` does.
    """
    cpu = read_trainer(trainer).accelerator == "cpu" or not torch.cuda.is_available()
    return torch.device("cpu") if cpu else torch.device("cuda", local_rank)


def count_processes(trainer: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many processes the `trainer` group asks for on each machine, and how many machines.

    Raises
    ------
    InputError
        As `read_trainer` does, and if there are not as many devices.
    """
    settings = read_trainer(trainer)
    on_cpu = choose_device(trainer).type == "cpu"
    if settings.devices == "auto":
        if on_cpu:
            raise InputError(
                "trainer.devices=auto: counts GPUs, and this trains on the CPU: say how many processes, "
                "as in trainer.devices=2"
            )
        return torch.cuda.device_count(), settings.num_nodes
    assert isinstance(settings.devices, int)
    if on_cpu and settings.devices > (most := PER_PROCESSOR * (os.cpu_count() or 1)):
        raise InputError(
            f"trainer.devices={settings.devices}: a training on the CPU of this machine has at most {most} processes: "
            "lower it"
        )
    if not on_cpu and settings.devices > (found := torch.cuda.device_count()):
        raise InputError(
            f"trainer.devices={settings.devices}: this process sees {found} CUDA devices: lower it, or let each "
            "process see all of its machine's"
        )
    return settings.devices, settings.num_nodes


def check_one_process(trainer: Mapping[str, Any]) -> None:
    """Refuse a job that would itself start processes.

    Raises
    ------
    InputError
        Naming the key and what a sweep has instead.
    """
    for key in ("devices", "num_nodes"):
        if (value := trainer.get(key, 1)) != 1:
            raise InputError(
                f"trainer.{key}={value}: each job of a sweep is one process on one device: set it to 1, and give jobs "
                "side by side with hydra/launcher=joblib, or a GPU each with hydra/launcher=submitit_slurm"
            )


PRECISIONS = ("32-true", "bf16-mixed")

WIDE = 256
"""Width from which a training on a CPU with matrix units gains by bf16. Below it the conversions cost more than the
products save: a step in bf16 took 2.1 times as long as in float32 at width 64, 1.4 at 128, .9 at 256 (patches) and 2.2,
.74 and .44 at 64, 256 and 512 (a token a step), one thread of an Intel Xeon with AMX, torch 2.13."""


def choose_precision(wanted: str, device: torch.device, width: object) -> str:
    """Return Lightning's name of the precision to train in; "auto" is bf16 where a model of this width gains from it.

    Raises
    ------
    InputError
        If `wanted` is none of auto, 32-true, bf16-mixed.
    """
    if wanted == "auto":
        fast = _cuda_bf16(device) if device.type == "cuda" else device.type == "cpu" and _is_wide(width) and _amx_bf16()
        return "bf16-mixed" if fast else "32-true"
    if wanted not in PRECISIONS:
        raise InputError(f"training.precision {wanted!r}: choose auto, {' or '.join(PRECISIONS)}")
    return wanted


def exact_convolutions() -> None:
    """Have convolutions, too, compute in float32 where float32 is said; a GPU would take fewer digits."""
    torch.backends.cudnn.allow_tf32 = False


def _is_wide(width: object) -> bool:
    return isinstance(width, int) and width >= WIDE  # what is no width is refused where the model is made


def _cuda_bf16(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _amx_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    return cpuinfo.is_file() and " amx_bf16" in cpuinfo.read_text(encoding="ascii", errors="ignore")
