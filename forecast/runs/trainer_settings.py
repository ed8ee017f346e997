"""The `trainer` group, checked before anything is read: what Lightning's trainer runs on."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from forecast.common.checks import check_least, check_options
from forecast.common.errors import InputError
from forecast.data.settings import check_whole

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
    """Give the `trainer` group, checked.

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
    """Give the device of a machine's process `local_rank`: CUDA where there is one, else the CPU, for "auto".

    Raises
    ------
    InputError
        As `read_trainer` does.
    """
    cpu = read_trainer(trainer).accelerator == "cpu" or not torch.cuda.is_available()
    return torch.device("cpu") if cpu else torch.device("cuda", local_rank)


def count_processes(trainer: Mapping[str, Any]) -> tuple[int, int]:
    """Give how many processes the `trainer` group asks for on each machine, and how many machines.

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
