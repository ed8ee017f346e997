"""Checks of a run folder from another machine: its files are unchanged, and it names no code to run."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.common.errors import InputError
from forecast.common.files import sha256
from forecast.common.targets import TARGET, check_plain, loggers_of

CURE = "the run folder is damaged: copy it again, or train again"


class ForeignRun(InputError):
    """A run that this program must not judge: it has links, or is of another version."""


class DamagedRun(InputError):
    """A file of a finished run is not the file that was saved."""


def check_links(folder: Path) -> None:
    """Refuse a run folder with a link in it: the target could be anywhere."""
    for place in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
        if (link := next((path for path in place.iterdir() if path.is_symlink()), None)) is not None:
            raise ForeignRun(f"{link}: is a link: a run folder must hold the files themselves: replace it by a copy")


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return size in bytes and SHA-256 of the existing files of `folder` among `names`."""
    files = [folder / name for name in sorted(names) if (folder / name).is_file()]
    return {file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in files}


def check_files(folder: Path, described: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise DamagedRun if one of the files `names` differs from what `describe_files` returned when it was saved."""
    for name in names:
        if name in described and (why := _difference(folder / name, described[name])) is not None:
            raise DamagedRun(f"{folder / name}: {why}: {CURE}")


def _difference(file: Path, saved: Any) -> str | None:
    if not isinstance(saved, Mapping) or not {"bytes", "sha256"} <= saved.keys():
        return "the manifest does not describe it"
    if not file.is_file():
        return "is missing"
    if (size := file.stat().st_size) != saved["bytes"]:
        return f"not the file that was saved (it has {size:,} bytes, {saved['bytes']} were saved)"
    if sha256(file) != saved["sha256"]:
        return "not the file that was saved (its hash differs)"
    return None


INTERPOLATION = "${"
"""Start of an interpolation of OmegaConf, which could read an environment variable."""

LIGHTNING = ("EarlyStopping", "LearningRateMonitor", "DeviceStatsMonitor", "StochasticWeightAveraging")
"""Callbacks of Lightning that write no files and take plain values."""


def _torch_names(module: Any, kind: type) -> frozenset[str]:
    """Return the full names of the subclasses of `kind` in a torch module."""
    classes = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    return frozenset(
        f"{module.__name__}.{name}" for name, value in classes.items() if issubclass(value, kind) and value is not kind
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
"""Targets allowed in each group of a run folder's configuration; nothing else is imported."""


def check_stored(config: Mapping[str, Any], file: Path) -> None:
    """Refuse a folder's configuration with anything but plain values and the targets of `NAMES`.

    Nothing is imported, resolved or opened here. `file` is the configuration's file, for messages.
    """
    for key, value in _texts(config):
        if INTERPOLATION in value:
            raise InputError(
                f"{file}: {key}={value}: interpolations of a run folder are not resolved: write the value itself"
            )
    for group, names in NAMES.items():
        if isinstance(nodes := config.get(group), Mapping):
            many: Mapping[str, Any] = {group: nodes}
            if group == "callbacks":
                many = {f"callbacks.{name}": node for name, node in nodes.items()}
            elif group == "logger":
                many = loggers_of(nodes)
            for where, node in many.items():
                _check_node(node, where, names, file)
    others = {str(key): value for key, value in config.items() if key not in NAMES}
    for group, value in others.items():
        for key, last in _keys(value, group):
            if last == TARGET:
                raise InputError(f"{file}: {key}: a target is not allowed here: remove it")


def _check_node(node: Any, where: str, names: frozenset[str], file: Path) -> None:
    if not isinstance(node, Mapping) or TARGET not in node:
        raise InputError(f"{file}: {where}={node}: needs a {TARGET}")
    if not isinstance(name := node[TARGET], str) or name not in names:
        raise InputError(
            f"{file}: {where}.{TARGET}={name}: a folder may name {', '.join(sorted(names))}; if you trust it, pass "
            "the whole command line of the run and resume=auto"
        )
    check_plain(node, where)


def _texts(content: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in nested plain values, including keys, with its path."""
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
    """Yield every key in nested plain values with its path."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{where}.{key}", str(key)
            yield from _keys(value, f"{where}.{key}")
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from _keys(value, f"{where}[{place}]")
