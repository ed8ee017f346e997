"""Where a run begins: in a new folder, or in one that holds the same run, unfinished or finished."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.checkpoint import newest_checkpoint
from forecast.claim import claimed
from forecast.errors import InputError
from forecast.nested import flatten
from forecast.run import CONFIG, MANIFEST, RESULT, Run

BUDGET = ("max_epochs", "max_steps", "max_time")
"""Keys of `training` that say how long a run is; a run that is resumed may be given others."""

FREE_GROUPS = ("trainer", "logger")
"""Groups that do not make another run of it."""

FREE = (*FREE_GROUPS, "resume", "output_dir", "sweep")
FREE_TRAINING = (*BUDGET, "progress", "checkpoint_minutes")


@dataclass
class Beginning:
    """What a run begins with.

    Parameters
    ----------
    config
        The configuration that holds: the folder's own where one is named.
    run
        The folder, None until it is made.
    checkpoint
        What to go on from, None to begin at the first step.
    result
        The content of the folder's `result.json` where the run is finished.
    """

    config: dict[str, Any]
    run: Run | None = None
    checkpoint: dict[str, Any] | None = None
    result: dict[str, Any] | None = None


@contextmanager
def begin(
    config: Mapping[str, Any], *, folder: Path | None = None, overrides: Sequence[str] | None = None
) -> Iterator[Beginning]:
    """Find out where the run that `config` describes begins, and hold its folder if there is one.

    Parameters
    ----------
    config
        Plain values; its `resume` is false, "auto", or a run folder.
    folder
        The very folder of the run, as in a sweep; it need not exist.
    overrides
        What was given on the command line; None if `config` was made otherwise: it then counts as a whole.

    Raises
    ------
    InputError
        If the folder is no run, holds another one, or is in use.
    """
    wanted = dict(config)
    resume = wanted.get("resume", False)
    if folder is None and resume not in (False, "auto"):
        folder = Path(str(resume))
        wanted = _of_folder(folder, wanted, overrides)
    if folder is None and resume == "auto":
        folder = _newest_like(wanted)
    with ExitStack() as stack:
        if folder is None or not (folder / CONFIG).is_file():
            yield Beginning(wanted)
            return
        stack.enter_context(claimed(folder))
        stored = read_config(folder)
        if differing := differences(wanted, stored):
            raise InputError(f"{folder}: holds another run: {'; '.join(differing[:3])}: give it a folder of its own")
        yield _in_folder(Run(folder), wanted, stored)


def _in_folder(run: Run, wanted: dict[str, Any], stored: Mapping[str, Any]) -> Beginning:
    if (run.path / MANIFEST).is_file():
        if _budget(wanted) != _budget(stored):
            raise InputError(
                f"{run.path}: finished with {_budget(stored)}, not {_budget(wanted)}: begin a new run with resume=false"
            )
        return Beginning(wanted, run, result=json.loads((run.path / RESULT).read_text(encoding="utf-8")))
    run.clear_temporary()
    checkpoint = newest_checkpoint(run.checkpoints)
    if checkpoint is None:
        run.clear()
    precision = stored["training"]["precision"]  # what "auto" came to is kept
    return Beginning({**wanted, "training": {**wanted["training"], "precision": precision}}, run, checkpoint)


def _of_folder(folder: Path, composed: dict[str, Any], overrides: Sequence[str] | None) -> dict[str, Any]:
    """Give the folder's configuration, with what may be overridden taken from the command line."""
    if not (folder / CONFIG).is_file():
        raise InputError(f"resume={folder}: no run folder (it has no {CONFIG}): give one of outputs/…")
    keys = None if overrides is None else [override.lstrip("+~").split("=")[0] for override in overrides]
    if keys is None or not all(key == "resume" or _is_free(key) for key in keys):
        return composed  # the whole command line, which has to agree
    stored = read_config(folder)
    mine = {key: composed[key] for key in FREE_GROUPS if any(_within(word, key) for word in keys)}
    training = {name: composed["training"][name] for name in FREE_TRAINING if f"training.{name}" in keys}
    return {**stored, **mine, "training": {**stored["training"], **training}, "resume": composed["resume"]}


def _is_free(key: str) -> bool:
    return any(_within(key, group) for group in FREE_GROUPS) or key in {f"training.{name}" for name in FREE_TRAINING}


def _within(key: str, group: str) -> bool:
    return key == group or key.startswith(f"{group}.")


def _newest_like(config: Mapping[str, Any]) -> Path | None:
    """Give the newest folder of this configuration: finished with the same budget, or not finished."""
    parent = Run.parent(Path(str(config["output_dir"])), str(config["data"]["name"]))
    for path in sorted(parent.glob(f"*/{CONFIG}"), reverse=True):
        try:
            stored = read_config(path.parent)
        except InputError:
            continue
        finished = (path.parent / MANIFEST).is_file()
        if not differences(config, stored) and not (finished and _budget(config) != _budget(stored)):
            return path.parent
    return None


def read_config(folder: Path) -> dict[str, Any]:
    """Give the configuration that a run folder was made with.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(content.get("training"), dict):
            raise ValueError("it is no configuration")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder / CONFIG}: not readable ({error}): the run folder is damaged") from None
    return content


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Give a line for each value that makes another run of it: trainer, logger and budget do not."""
    ours, theirs = _settled(wanted), _settled(stored)
    if ours.get("training.precision") == "auto":
        theirs["training.precision"] = "auto"
    absent = "absent"
    return [
        f"{key} is {theirs.get(key, absent)} there and {ours.get(key, absent)} here"
        for key in sorted(ours | theirs)
        if ours.get(key, absent) != theirs.get(key, absent)
    ]


def _settled(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in FREE}
    training = {key: value for key, value in config["training"].items() if key not in FREE_TRAINING}
    return flatten({**kept, "training": training})


def _budget(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: config["training"].get(key) for key in BUDGET}
