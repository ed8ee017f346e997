"""Where a run begins: in a new folder, or in one that holds the same run, unfinished or finished."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.checkpoint import checkpoints, newest_checkpoint
from forecast.claim import claimed
from forecast.earlier import whole
from forecast.errors import InputError
from forecast.files import sha256
from forecast.nested import flatten
from forecast.run import CONFIG, MANIFEST, RESULT, Run

BUDGET = ("max_epochs", "max_steps", "max_time")
"""Keys of `training` that say how long a run is; a run that is resumed may be given others."""

FREE_GROUPS = ("trainer", "logger")
"""Groups that do not make another run of it."""

FREE = (*FREE_GROUPS, "resume", "output_dir", "sweep")
FREE_TRAINING = (*BUDGET, "progress", "checkpoint_minutes", "profile", "activation_checkpointing", "data_placement")

ANEW, ELSEWHERE = "begin a new run with resume=false", "remove that folder, or choose another sweep.name"
"""How a run is begun anew: where it has a folder of its own, and where its folder is that of a job of a sweep."""


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
        What to go on from, None to begin at the first step; what an earlier start left there is then to go.
    result
        The content of the folder's `result.json` where the run is finished.
    anew
        How to begin the run anew where the folder cannot be gone on with.
    """

    config: dict[str, Any]
    run: Run | None = None
    checkpoint: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    anew: str = ANEW


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
    anew = ANEW if folder is None else ELSEWHERE
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
        finished = (folder / MANIFEST).is_file()
        named = resume not in (False, "auto")  # only then may the length be another
        if differing := differences(wanted, stored, budget=finished or not named):
            cure = ANEW if named else ELSEWHERE
            raise InputError(f"{folder}: holds another run: {'; '.join(differing[:3])}: {cure}")
        yield _finished(Run(folder), wanted, anew) if finished else _unfinished(Run(folder), wanted, stored, anew)


def _finished(run: Run, wanted: dict[str, Any], anew: str) -> Beginning:
    try:
        result = json.loads((run.path / RESULT).read_text(encoding="utf-8"))
        path, digest = result["data"]["path"], result["data"].get("sha256")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{run.path / RESULT}: not readable ({error}): the run folder is damaged") from None
    if path is not None and digest is not None and Path(path).is_file() and sha256(Path(path)) != digest:
        raise InputError(f"{path}: has changed since {run.path} was finished: {anew}")
    return Beginning(wanted, run, result=result)


def _unfinished(run: Run, wanted: dict[str, Any], stored: Mapping[str, Any], anew: str) -> Beginning:
    run.clear_temporary()
    there = checkpoints(run.checkpoints)
    checkpoint = newest_checkpoint(run.checkpoints)
    if checkpoint is None and (run.path / RESULT).is_file():
        raise InputError(f"{run.path}: has a result, yet no manifest and no checkpoint: the run folder is damaged")
    if checkpoint is None and there:
        print(f"{run.path}: none of its checkpoints is whole: begins again at the first step", file=sys.stderr)
    precision = stored["training"]["precision"]  # what "auto" came to is kept
    return Beginning({**wanted, "training": {**wanted["training"], "precision": precision}}, run, checkpoint, anew=anew)


def _of_folder(folder: Path, composed: dict[str, Any], overrides: Sequence[str] | None) -> dict[str, Any]:
    """Give the folder's configuration, with what may be overridden taken from the command line."""
    if not (folder / CONFIG).is_file():
        raise InputError(f"resume={folder}: no run folder (it has no {CONFIG}): give one of outputs/…")
    keys = None if overrides is None else [override.lstrip("+").split("=")[0] for override in overrides]
    if keys is None or not all(key == "resume" or _is_free(key) for key in keys):
        return composed  # the whole command line, which has to agree
    if "trainer=smoke" in (overrides or ()):
        raise InputError("trainer=smoke: sets a run's length too: to go on, give training.max_steps=30 in its place")
    stored = read_config(folder)
    groups = {group: dict(stored[group]) for group in (*FREE_GROUPS, "training")}
    for group, options in groups.items():
        if group in keys:  # another file of conf/
            options.clear()
            options |= composed[group]
        options |= {key: value for key, value in composed[group].items() if f"{group}.{key}" in keys}
    return {**stored, **groups, "resume": composed["resume"]}


def _is_free(key: str) -> bool:
    return any(_within(key, group) for group in FREE_GROUPS) or key in {f"training.{name}" for name in FREE_TRAINING}


def _within(key: str, group: str) -> bool:
    return key == group or key.startswith(f"{group}.")


def _newest_like(config: Mapping[str, Any]) -> Path | None:
    """Give the newest folder of this configuration, its length included."""
    parent = Run.parent(Path(str(config["output_dir"])), str(config["data"]["name"]))
    for path in sorted(parent.glob(f"*/{CONFIG}"), reverse=True):
        try:
            stored = read_config(path.parent)
        except InputError:
            continue
        if not differences(config, stored, budget=True):
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
        content = whole(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
        groups = [content[group] for group in (*FREE_GROUPS, "training")]
        if not all(isinstance(group, dict) for group in groups) or not isinstance(groups[-1]["precision"], str):
            raise ValueError("it is no configuration")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{folder / CONFIG}: not readable ({error}): the run folder is damaged") from None
    return content


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any], *, budget: bool = False) -> list[str]:
    """Give a line for each value that makes another run of it: trainer and logger do not.

    Parameters
    ----------
    budget
        Whether the length of the run counts too.
    """
    ours, theirs = _settled(wanted, budget), _settled(stored, budget)
    if ours.get("training.precision") == "auto":
        theirs["training.precision"] = "auto"
    absent = "absent"
    return [
        f"{key} is {theirs.get(key, absent)} there and {ours.get(key, absent)} here"
        for key in sorted(ours | theirs)
        if ours.get(key, absent) != theirs.get(key, absent)
    ]


def _settled(config: Mapping[str, Any], budget: bool) -> dict[str, Any]:
    free = set(FREE_TRAINING) - (set(BUDGET) if budget else set())
    if config["training"].get("compile"):
        free.discard("activation_checkpointing")  # another program is compiled then, which rounds in its own way
    kept = {key: value for key, value in config.items() if key not in FREE}
    training = {key: value for key, value in config["training"].items() if key not in free}
    return flatten({**kept, "training": training})
