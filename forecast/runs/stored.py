"""What the configuration of a run folder may say, whatever its origin: plain values, and names of a closed list."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.common.errors import InputError
from forecast.common.targets import TARGET, check_plain

INTERPOLATION = "${"
"""Begins what OmegaConf would look up: an environment variable, for one."""

LIGHTNING = ("EarlyStopping", "LearningRateMonitor", "DeviceStatsMonitor", "StochasticWeightAveraging")
"""Callbacks of Lightning that write no file of their own and take plain values."""


def _torch_names(module: Any, kind: type) -> frozenset[str]:
    """Return the full names of the classes of a torch module below `kind`."""
    found = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    return frozenset(
        f"{module.__name__}.{name}" for name, value in found.items() if issubclass(value, kind) and value is not kind
    )


NAMES = {
    "optimizer": _torch_names(torch.optim, Optimizer),
    "scheduler": _torch_names(torch.optim.lr_scheduler, LRScheduler)
    | {
        "forecast.training.schedule.cosine",
        "forecast.training.schedule.halving",
        "forecast.training.schedule.one_cycle",
    },
    "callbacks": frozenset(f"lightning.pytorch.callbacks.{name}" for name in LIGHTNING)
    | {"forecast.training.callbacks.figures.Figures", "forecast.training.callbacks.probe.Probe"},
    "logger": frozenset({"forecast.training.tensorboard.logger.Board"}),
}
"""What a folder may name in each group of its configuration. Nothing else that it names is imported."""


def check_stored(config: Mapping[str, Any], file: Path) -> None:
    """Refuse a folder's configuration that names anything but plain values and what `NAMES` lists.

    Nothing is imported, resolved or opened here.

    Parameters
    ----------
    config
        The groups that are to be taken from the folder.
    file
        Where they were read, for the messages.

    Raises
    ------
    InputError
        Naming the key, and how the command line can say the same.
    """
    for key, value in _texts(config):
        if INTERPOLATION in value:
            raise InputError(
                f"{file}: {key}={value}: nothing is looked up for a folder: write the value itself in its place"
            )
    for group, names in NAMES.items():
        if isinstance(nodes := config.get(group), Mapping):
            many = nodes.items() if group == "callbacks" else [(None, nodes)]
            for name, node in many:
                _check_node(node, group if name is None else f"{group}.{name}", names, file)
    for key, value in config.items():
        if key not in NAMES:
            _check_no_target(value, str(key), file)


def _check_node(node: Any, where: str, names: frozenset[str], file: Path) -> None:
    if not isinstance(node, Mapping) or TARGET not in node:
        raise InputError(f"{file}: {where}={node}: needs a {TARGET}")
    if not isinstance(name := node[TARGET], str) or name not in names:
        raise InputError(
            f"{file}: {where}.{TARGET}={name}: a folder may name {', '.join(sorted(names))}; if you trust it, give "
            "the whole command line of the run, and resume=auto"
        )
    check_plain(node, where)


def _check_no_target(value: Any, where: str, file: Path) -> None:
    for key, text in _keys(value, where):
        if text == TARGET:
            raise InputError(f"{file}: {key}: nothing is made there: take it out")


def _texts(content: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in nested plain values, keys among them, with its place."""
    if isinstance(content, str):
        yield where, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield where, str(key)
            yield from _texts(value, f"{where}.{key}" if where else str(key))
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from _texts(value, f"{where}[{place}]")


def _keys(content: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield every key in nested plain values with its place."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{where}.{key}", str(key)
            yield from _keys(value, f"{where}.{key}")
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from _keys(value, f"{where}[{place}]")
