"""The start of a run: in a new folder, or in the folder of the same run, unfinished or finished."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.conf_files import configuration_folder, load_choice
from forecast.common.errors import InputError
from forecast.common.files import flatten, folder_lock, read_json
from forecast.common.targets import TARGET
from forecast.data.sources import data_digest, described_data, expanded, lies_within, resume_command
from forecast.runs.integrity import check_links, check_stored
from forecast.runs.results import lacking, wrong_kind
from forecast.runs.run import CONFIG, RESULT, Run, is_finished
from forecast.runs.settings import Settings

BUDGET = ("max_epochs", "max_steps", "max_time")
"""Keys of `training` for the length of a run, which may change on resuming."""

DATA_PATH = "data.path"
"""Option that gives the present location of a run's data file."""

FREE_GROUPS = ("trainer", "logger")
"""Groups that may differ within one run."""

FREE = (*FREE_GROUPS, "resume", "output_dir", "sweep", "ensemble")
FREE_TRAINING = (*BUDGET, "progress", "checkpoint_minutes", "profile", "activation_checkpointing", "data_placement")

RESTART_HINT, RESTART_JOB_HINT = "start a new run with resume=false", "remove that folder, or choose another sweep.name"
"""Advice for starting over: a single run, and a job of a sweep."""


@dataclass
class StartState:
    """The start of a run: its settings (those of the folder that `resume` names), folder, result and restart hint.

    `run` is None until the folder is made. `result` is the content of `result.json` if the run is finished.
    `restart_hint` is the advice for a folder that cannot be resumed.
    """

    settings: Settings
    run: Run | None = None
    result: dict[str, Any] | None = None
    restart_hint: str = RESTART_HINT


@contextmanager
def start_state(
    settings: Settings, *, folder: Path | None = None, overrides: Sequence[str] | None = None
) -> Iterator[StartState]:
    """Find where a run starts, and lock its folder if there is one.

    `settings.resume` is false, "auto" or a run folder. `folder` is a given folder of the run, as in a sweep; it need
    not exist. `overrides` are the words of the command line; with None, all settings count as explicit.
    """
    wanted, resume = settings, settings.resume
    hint = RESTART_HINT if folder is None else RESTART_JOB_HINT
    merged = None
    if folder is None and resume == "auto":
        folder = newest_like(settings.plain)
    elif folder is None and resume is not False:
        folder = Path(str(resume))
        merged = _of_folder(folder, settings.plain, overrides)
        wanted = wanted if merged is None else Settings.parse(merged)
    with ExitStack() as stack:
        if folder is None or not (folder / CONFIG).is_file():
            yield StartState(wanted)
            return
        shared = is_finished(folder)
        stack.enter_context(folder_lock(folder, shared=shared))  # several sweeps may read a finished job
        check_links(folder)
        stored = read_config(folder)
        if merged is not None:  # a run folder must not choose the data file or its address
            stored = {**stored, "data": wanted.plain["data"]}
        finished = is_finished(folder)
        if shared and not finished:
            raise InputError(f"{folder}: another process is clearing it: wait for it, or start another run")
        named = resume not in (False, "auto")  # only then may the length differ
        if differing := differences(wanted.plain, stored, budget=finished or not named):
            cure = RESTART_HINT if named else RESTART_JOB_HINT
            if (typed := _of_typed(differing, overrides or ())) or not named:
                differing = typed or differing
            elif words := [word for word in overrides or () if not _may_change(_key(word))]:
                cure = f"leave out {' '.join(words)}, since a run has the options of its folder, or {cure}"
            raise InputError(f"{folder}: holds another run: {'; '.join(differing[:3])}: {cure}")
        run = Run(folder)
        if finished:
            named_file = merged is None or DATA_PATH in map(_key, overrides or ())
            result = _finished_result(run, hint, wanted.data.path if named_file else None)
            yield StartState(wanted, run, result=result)
        else:
            run.clear_temporary()
            # the choice of precision=auto stays
            yield StartState(wanted.at_precision(stored["training"]["precision"]), run, restart_hint=hint)


def _finished_result(run: Run, hint: str, user_file: str | None) -> dict[str, Any]:
    """Return the result of a finished run; `user_file` is the data file that the user named."""
    try:
        run.check()
        result: dict[str, Any] = read_json(run.path / RESULT)
        if (key := wrong_kind(result) or lacking(result)) is not None:
            raise ValueError(f"{key} is missing or of a wrong type")
        path, digest = result["data"]["path"], result["data"].get("sha256")
    except InputError as error:
        raise InputError(f"{error}, or {hint}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{run.path / RESULT}: not readable ({error}): the run folder is damaged: {hint}") from None
    file = _comparable(run, path, user_file)
    if file is not None and digest is not None and data_digest(file) not in (None, digest):
        raise InputError(f"{file}: has changed since {run.path} was finished: {hint}")
    return result


def _comparable(run: Run, path: str | None, user_file: str | None) -> Path | None:
    """Return the data file to compare with a finished run: the user's, or a file in the run folder."""
    if user_file is not None:
        return expanded(user_file)
    return Path(path) if path is not None and lies_within(Path(path), run.path) else None


def _key(override: str) -> str:
    return override.lstrip("+").split("=")[0]


def _of_typed(differing: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the lines of `differences` about options that the command line names.

    The others differ only since the command line leaves them at their defaults.
    """
    keys = [place_of(word) for word in overrides]
    return [line for line in differing if any(_within(line.split(" is ")[0], key) for key in keys)]


def place_of(override: str) -> str:
    """Return where an override acts: `decoder_attention` for attention@decoder_attention=full."""
    return _key(override).lstrip("~").rpartition("@")[2]


def _of_folder(folder: Path, composed: dict[str, Any], overrides: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the folder's configuration with permitted overrides, None if the whole command line has to match it."""
    if not (folder / CONFIG).is_file():
        raise InputError(f"resume={folder}: no run folder (it has no {CONFIG}): give one of outputs/…")
    keys = None if overrides is None else [_key(override) for override in overrides]
    if keys is None or not all(map(_may_change, keys)):
        return None
    if "trainer=smoke" in (overrides or ()):
        raise InputError("trainer=smoke: also sets the length of the run: to resume, use training.max_steps=30 instead")
    stored = read_config(folder)
    replaced = {
        group for group in FREE_GROUPS if group in keys or f"{group}.{TARGET}" in keys
    }  # another choice or class
    check_stored({key: value for key, value in stored.items() if key not in replaced}, folder / CONFIG)
    _check_whole(stored, folder / CONFIG)
    _check_processes(folder, stored["trainer"], keys)
    groups = {group: {} if group in replaced else dict(stored[group]) for group in (*FREE_GROUPS, "training")}
    for group, options in groups.items():
        options |= {
            key: value for key, value in composed[group].items() if group in replaced or f"{group}.{key}" in keys
        }
    return {**stored, **groups, "data": _data(folder, stored, composed, keys), "resume": composed["resume"]}


def _data(folder: Path, stored: Mapping[str, Any], composed: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the folder's `data` group, with the data file of the command line if given."""
    data: dict[str, Any] = stored["data"]
    if DATA_PATH in keys:
        path = composed["data"]["path"]
        if data.get("source") != "file":
            raise InputError(f"{DATA_PATH}={path}: {folder} was trained on a simulation: leave it out")
        return {**data, "path": path}
    if is_finished(folder):  # its data is not read again
        return data
    return described_data(data, folder, lambda path: resume_command(folder, path))


def _check_whole(config: Mapping[str, Any], file: Path) -> None:
    """Refuse a folder's configuration that lacks an option of this version."""
    source = config["data"]["source"]
    base = "_file" if source == "file" else source
    files = {(each.parent.name, each.stem): each for each in configuration_folder().glob("*/*.yaml")}
    for place in (("data", base), ("model", config["model"]["name"]), ("training", "default")):
        group, known = place[0], load_choice(files[place]) if place in files else ()
        if absent := [str(key) for key in known if key not in config[group]]:
            raise InputError(f"{file}: has no {group}.{absent[0]}: it is of another version: train it again")


def _check_processes(folder: Path, trainer: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refuse a folder that would start more processes than this machine has CPUs, or wait for other machines."""
    most = {"devices": os.cpu_count() or 1, "num_nodes": 1}
    for key, largest in most.items():
        value = trainer.get(key, 1)
        if isinstance(value, int) and value > largest and not {"trainer", f"trainer.{key}"} & set(keys):
            raise InputError(f"{folder}: trainer.{key}={value} is more than this machine has: add trainer.{key}=…")


def _may_change(key: str) -> bool:
    free = ("resume", DATA_PATH, *(f"training.{name}" for name in FREE_TRAINING))
    return key in free or any(_within(key, group) for group in FREE_GROUPS)


def _within(key: str, group: str) -> bool:
    return key == group or key.startswith(f"{group}.")


def newest_like(config: Mapping[str, Any]) -> Path | None:
    """Return the newest folder with this configuration, including the run's length."""
    parent = Run.parent(Path(str(config["output_dir"])), str(config["data"]["name"]))
    for path in sorted(parent.glob(f"*/{CONFIG}"), reverse=True):
        try:
            stored = read_config(path.parent)
        except InputError as error:
            print(f"resume=auto: skipped: {error}", file=sys.stderr)
            continue
        if not differences(config, stored, budget=True):
            return path.parent
    return None


def read_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a run folder."""
    try:
        content: dict[str, Any] = read_json(folder / CONFIG)
        groups = [content[group] for group in (*FREE_GROUPS, "data", "model", "training")]
        names = content["data"]["source"], content["model"]["name"], content["training"]["precision"]
        if not all(isinstance(group, dict) for group in groups) or not all(isinstance(name, str) for name in names):
            raise ValueError("it is not a configuration")
    except InputError:
        raise
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder / CONFIG}: not readable ({error}): the run folder is damaged") from None
    return content


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any], *, budget: bool = False) -> list[str]:
    """Return a line for each difference that makes another run; the length of the run counts only with `budget`.

    The start comes first, since other options follow from it.
    """
    ours, theirs = _settled(wanted, budget), _settled(stored, budget)
    if ours.get("training.precision") == "auto":
        theirs["training.precision"] = "auto"
    absent = "absent"
    return [
        f"{key} is {theirs.get(key, absent)} there and {ours.get(key, absent)} here"
        for key in sorted(ours | theirs, key=lambda key: (key != "start_from", key))
        if ours.get(key, absent) != theirs.get(key, absent)
    ]


def _settled(config: Mapping[str, Any], budget: bool) -> dict[str, Any]:
    free = set(FREE_TRAINING) - (set(BUDGET) if budget else set())
    if config["training"].get("compile"):
        free.discard("activation_checkpointing")  # it changes the compiled code and its rounding
    fixed = {key: value for key, value in config.items() if key not in FREE}
    fixed.setdefault("evaluation", {"baselines": []})  # runs of earlier versions have none
    training = {key: value for key, value in config["training"].items() if key not in free}
    return flatten({**fixed, "training": training})
