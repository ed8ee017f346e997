"""The folder of a sweep's job: the one that holds its configuration, whatever words asked for it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import folder_lock, read_json, write_sealed
from forecast.runs.resume import differences, read_config
from forecast.runs.run import CONFIG, JOB, Run, finished_result
from forecast.runs.settings import Settings
from forecast.training.sweep.overrides import canonical, in_order, is_seed, parse


def job_folder(named: Path, settings: Settings, token: str = "") -> Path:
    """Return the folder of the job with these settings among those beside `named`, or else `named`.

    Another job of this command, known by its `token`, may be at work elsewhere without a run yet, and is left alone.
    """
    there = (named / CONFIG).is_file()
    differing = differences(settings.plain, stored_config(named), budget=True) if there else []
    if there and not differing:
        return named
    wanted = settings.settled().plain
    folders = {path.parent for name in (CONFIG, JOB) for path in named.parent.glob(f"*/{name}")}
    for folder in sorted(folders):
        if folder != named and _holds(folder, wanted, token):
            return folder
    if there:
        told = "; ".join(differing[:3])
        raise InputError(f"{named}: holds another run: {told}: choose another sweep.name, or remove the folder")
    return named


def stored_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a job's run, from the result of a finished one if its own file is damaged."""
    try:
        return read_config(folder)
    except InputError:
        result = finished_result(folder)
        if not isinstance(result, Mapping) or not isinstance(result.get("config"), Mapping):
            raise
        return dict(result["config"])


def clear_damaged(folder: Path, damage: str) -> None:
    """Remove the files of a damaged run, so that its job is trained again, and say so."""
    with folder_lock(folder):
        print(f"{folder.name}: trained again: {damage}", file=sys.stderr, flush=True)
        Run(folder).clear()
        (folder / CONFIG).unlink(missing_ok=True)


def describe(folder: Path, words: Sequence[str], config: Mapping[str, Any], token: str) -> None:
    """Write what distinguishes this job from the rest of its sweep, which the table's rows are made from.

    Overrides from earlier commands are kept, and new ones in `words` added. Until the job has a run, its configuration
    is stored here, so that other words for it find the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = read_json(folder / JOB)
    known = parse(before["overrides"]) if before else []
    keys = {override.get_key_element() for override in known}
    new = [override for override in parse(words) if override.get_key_element() not in keys]
    if before is None or new or not (folder / CONFIG).is_file():
        every = in_order([*known, *new])
        configuration = [canonical(override) for override in every if not is_seed(override)]
        facts = {"overrides": [*map(canonical, every)], "configuration": configuration}
        write_sealed(folder / JOB, {**facts, "config": config, "sweep": token})


def _holds(folder: Path, config: Mapping[str, Any], token: str) -> bool:
    try:
        if (folder / CONFIG).is_file():
            return not differences(config, read_config(folder), budget=True)
        asked = read_json(folder / JOB)
        if "config" not in asked or asked["sweep"] == token:
            return False
        return not differences(config, asked["config"], budget=True)
    except InputError:  # a damaged folder is nobody's but that job's
        return False
