"""The settings of a sweep timed in turn after its jobs: the same machine for all, within seconds of one another."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json, write_sealed
from forecast.common.processes import environment, python
from forecast.runs.results import device_name
from forecast.runs.rows import read_jobs
from forecast.runs.run import RESULT
from forecast.runs.turns import TIMING, cost_key, read_turns

WORKER = python("forecast.training.sweep.turns_worker")
"""The command of the process that times them."""


ROUNDS = 5
"""Rounds in which every setting is timed. Two that are alike lie in the same order in all five once in 16 times."""

THREADS = " threads"
"""Ends the name of a processor in a result."""


def time_sweep(sweep: Path, seconds: float, files: Collection[str] = ()) -> None:
    """Time the settings of a sweep's finished jobs in turn, and write the file.

    Nothing is done where there is one setting, or where the file has all of them, timed undisturbed. What fails here
    is one line: the jobs are none the worse.

    Parameters
    ----------
    seconds
        Of each setting; 0 for none.
    files
        Data files that the command line names.
    """
    if not seconds:
        return
    results = _results(sweep)
    if len(results) < 2:
        return
    device = str(look_up(next(iter(results.values()))[1], "device"))
    facts = {"device": device, "torch": torch.__version__, "seconds": seconds}
    if not _is_here(device):
        print(f"not timed in turn: the jobs ran on {device}, which is not here", file=sys.stderr, flush=True)
        return
    if _is_done(sweep, facts, set(results)):
        return
    print(f"timing {len(results)} settings in turn, {seconds:g} s each and more where steps are long", flush=True)
    told = _ask([folder for folder, _ in results.values()], seconds, device, files)
    if isinstance(told, str):
        print(f"not timed in turn: {told}", file=sys.stderr, flush=True)
        return
    settings = [{"key": key, **setting} for key, setting in zip(results, told["settings"], strict=True)]
    write_sealed(sweep / TIMING, {**facts, "settings": settings})
    for (folder, _), setting in zip(results.values(), settings, strict=True):
        if setting["why"] is not None:
            print(f"{folder.name}: not timed in turn: {setting['why']}", flush=True)


def _results(sweep: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return a finished run of each setting by its key, by rising look-back: those on the device of most."""
    jobs = read_jobs(sweep)
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for folder in map(Path, jobs.loc[jobs["of"].notna(), "folder"]):
        result = read_json(folder / RESULT)
        found.setdefault(cost_key(result), (folder, result))
    devices = Counter(str(result["device"]) for _, result in found.values())
    kept = {key: each for key, each in found.items() if str(each[1]["device"]) == devices.most_common(1)[0][0]}
    return dict(sorted(kept.items(), key=lambda item: int(item[1][1]["config"]["context_length"])))


def _is_here(device: str) -> bool:
    names = [device_name(torch.device("cpu"))]
    if torch.cuda.is_available():
        names.append(device_name(torch.device("cuda")))
    return _machine(device) in map(_machine, names)


def _machine(device: str) -> str:
    return device.rpartition(", ")[0] if device.endswith(THREADS) else device


def _is_done(sweep: Path, facts: Mapping[str, Any], keys: set[str]) -> bool:
    """Say whether the file has these settings, timed in the same way, in enough rounds that nothing disturbed."""
    try:
        turns = read_turns(sweep)
    except InputError:
        return False
    if not turns:
        return False
    content = read_json(sweep / TIMING)
    rounds = zip(*(stretches for setting in turns.values() for stretches in setting.values()), strict=True)
    clean = sum(not any(stretch.disturbed for stretch in each) for each in rounds)
    alike = all(content.get(name) == value for name, value in facts.items())
    return alike and clean >= ROUNDS and {setting["key"] for setting in content["settings"]} == keys


def _ask(folders: Sequence[Path], seconds: float, device: str, files: Collection[str]) -> dict[str, Any] | str:
    """Return what the process says that times them, or why it says nothing."""
    threads = device.rpartition(", ")[2].removesuffix(THREADS) if device.endswith(THREADS) else None
    asked = {"folders": [str(folder) for folder in folders], "seconds": seconds, "files": sorted(files)}
    work = json.dumps(asked) + "\n"
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(**({} if threads is None else {"OMP_NUM_THREADS": threads})),
            process_group=0,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with suppress(BrokenPipeError):  # it has ended already, and its exit code says so
                    process.stdin.write(work.encode())
                    process.stdin.flush()
                told = process.stdout.read()  # its own input stays open until then: it ends where this process does
            finally:
                process.kill()
                with suppress(BrokenPipeError):
                    process.stdin.close()
        if process.returncode == 0 or told:
            answer: dict[str, Any] = json.loads(told)
            return answer
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"its process ended with exit code {process.returncode}"
