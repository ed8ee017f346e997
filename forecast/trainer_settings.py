"""The `trainer` group, checked before anything is read: what Lightning's trainer runs on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from forecast.checks import check_least, check_options
from forecast.data.settings import check_whole
from forecast.errors import InputError

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


@dataclass(frozen=True)
class TrainerSettings:
    """The `trainer` group: nothing that leaves out windows or changes how steps are counted."""

    accelerator: str
    devices: int | str
    log_every_n_steps: int
    benchmark: bool | None = None
    deterministic: bool | None = None
    detect_anomaly: bool = False


def choose_device(trainer: Mapping[str, Any]) -> torch.device:
    """Give the device that the `trainer` group asks for: CUDA where there is one, else the CPU, for "auto".

    Raises
    ------
    InputError
        If it asks for what is not there, for more than one device, or for what is settled elsewhere.
    """
    for key, home in TRAINER_KEYS_OF_OURS.items():
        if key in trainer:
            raise InputError(f"trainer.{key}: is settled by {home}: set that instead")
    check_options(TrainerSettings, trainer, "trainer")
    check_whole(trainer, ("accelerator", "devices", "log_every_n_steps"), "trainer.")
    check_least(trainer["log_every_n_steps"], 1, "trainer.log_every_n_steps")
    if trainer["devices"] != 1:
        raise InputError(f"trainer.devices={trainer['devices']}: this version trains on one device: set it to 1")
    accelerator = trainer["accelerator"]
    if accelerator not in ("auto", "cpu", "gpu", "cuda"):
        raise InputError(f"trainer.accelerator={accelerator}: choose auto, cpu or gpu")
    if accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise InputError(f"trainer.accelerator={accelerator}: torch finds no CUDA device here: use trainer=default")
    return torch.device("cpu" if accelerator == "cpu" or not torch.cuda.is_available() else "cuda:0")
