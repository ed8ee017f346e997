"""The settings of a sweep timed in turn after its jobs: on the same machine, within seconds of one another."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json, write_sealed
from forecast.common.processes import run_python
from forecast.common.timing import load_since, read_load
from forecast.data.sources import described_data
from forecast.data.windows import Batch, Windows
from forecast.evaluation.linear_start import LinearMaps
from forecast.evaluation.ridge import Ridge
from forecast.runs.integrity import check_stored
from forecast.runs.read import read_jobs
from forecast.runs.results import device_name
from forecast.runs.resume import read_config
from forecast.runs.run import CONFIG, RESULT
from forecast.runs.settings import Settings
from forecast.runs.turns import TIMING, cost_key, read_turns
from forecast.training.prepare import prepare
from forecast.training.steps import Peer, evaluation_batch, inference, precision_of, training_step

ROUNDS = 5
"""Rounds in which every setting is timed. Two equal ones lie in the same order in all five once in 16 times."""

MOST_ROUNDS = 2 * ROUNDS
"""Most rounds, if other processes disturb some of them."""

WARM_UP = 2
"""Passes before the first round, which choose kernels and touch memory first."""

LONGEST = 30.0
"""Seconds of one step or one batch of forecasts, above which a setting is left out."""

TRAIN, INFERENCE = "train", "inference"

Stretch = dict[str, Any]

THREADS = " threads"
"""Ending of a processor's name in a result."""


def time_sweep(sweep: Path, seconds: float, files: Collection[str] = ()) -> None:
    """Time the settings of a sweep's finished jobs in turn, `seconds` each (0: not at all), and write the file.

    Do nothing if there is one setting, or if the file has all of them, timed undisturbed. A failure prints one line:
    the jobs are not affected. `files` are the data files on the command line.
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
    """Return a finished run per setting by its key, by rising look-back, from the device with the most."""
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
    """Return whether the file has these settings, timed in the same way, in enough undisturbed rounds."""
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
    """Return the reply of the process that times them, or why there is none."""
    threads = int(device.rpartition(", ")[2].removesuffix(THREADS)) if device.endswith(THREADS) else None
    request = {"folders": [str(folder) for folder in folders], "seconds": seconds, "files": sorted(files)}
    ended = run_python("forecast.training.sweep.turns:time_in_turn", request, threads=threads)
    if ended.reply is not None:
        reply: dict[str, Any] = ended.reply
        return reply
    return ended.printed.splitlines()[-1] if ended.printed else f"its process ended with exit code {ended.code}"


@dataclass(frozen=True)
class Passes:
    """Passes repeated in a stretch: `begin` sets the model's mode and returns a pass over `windows`."""

    begin: Callable[[], Callable[[], object]]
    windows: int


def time_in_turn(folders: Sequence[str], seconds: float, files: Collection[str] = ()) -> dict[str, Any]:
    """Time the settings of run folders, one per setting, in rounds that alternate their order, in a process of its own.

    Each setting gets `seconds`, half of them for training steps and half for forecasts, at least a pass of each in each
    round. Further rounds follow while other processes disturb some and not all of them. The command line names the data
    `files`; others are read only where a run folder may say so. The result's `settings` has an entry per folder: `why`
    it could not be timed, or None, and by stretch the list of its rounds.
    """
    made = [_ready(Path(folder), files) for folder in folders]
    settings: list[dict[str, Any]] = [
        {"why": each, TRAIN: [], INFERENCE: []} if isinstance(each, str) else {"why": None, TRAIN: [], INFERENCE: []}
        for each in made
    ]
    timed = [(passes, setting) for passes, setting in zip(made, settings, strict=True) if not isinstance(passes, str)]
    clean = done = 0
    while done < ROUNDS or (done < MOST_ROUNDS and 0 < clean < ROUNDS):
        stretches = []
        for passes, setting in timed if done % 2 == 0 else reversed(timed):
            for name, each in passes.items():
                stretches.append(_stretch(each, seconds / (2 * ROUNDS)))
                setting[name].append(stretches[-1])
        clean += not any(stretch["disturbed"] for stretch in stretches)
        done += 1
    return {"settings": settings}


def _stretch(passes: Passes, seconds: float) -> Stretch:
    """Make passes for `seconds`, one at least, and return the windows and the load of the stretch."""
    run, number = passes.begin(), 0
    _synchronize()
    before = read_load()
    while number == 0 or perf_counter() - before.wall < seconds:
        run()
        _synchronize()
        number += 1
    load = load_since(before)
    return {"windows": passes.windows * number, **vars(load), "disturbed": load.disturbed}


def _ready(folder: Path, files: Collection[str]) -> dict[str, Passes] | str:
    """Return the passes of a run's setting, each warmed up, or why there are none."""
    try:
        ready = _passes(_configuration(folder, files))
        slow = any(_warm_up(passes) > LONGEST for passes in ready.values())
    except InputError as error:
        return str(error)
    except MemoryError:
        return "the memory is too small"
    except RuntimeError as error:
        if not ran_out_of_memory(error):
            raise
        return "the memory is too small"
    return f"a pass takes more than {LONGEST:g} s" if slow else ready


def _warm_up(passes: Passes) -> float:
    """Make a cold pass, and a warm one if it was not too long, and return the seconds of the last."""
    run, taken = passes.begin(), 0.0
    for _ in range(WARM_UP):
        before = perf_counter()
        run()
        _synchronize()
        taken = perf_counter() - before
        if taken > LONGEST:
            break
    return taken


def _configuration(folder: Path, files: Collection[str]) -> dict[str, Any]:
    """Return a run folder's model and data configuration, without what a run does beside its steps."""
    config = {
        **read_config(folder),
        "callbacks": {},
        "logger": {"_target_": "forecast.training.tensorboard.logger.Board"},
    }
    check_stored(config, folder / CONFIG)
    if config["data"].get("path") not in files:
        config["data"] = described_data(config["data"], folder, lambda path: f"give data.path={path} to the sweep")
    return config


def _passes(config: Mapping[str, Any]) -> dict[str, Passes]:
    """Return a training step and a batch of forecasts of a run's model, with fresh weights, on its own data.

    The step is forward, backward and update at a rate of 0, so that no weight moves.
    """
    if config["training"].get("compile"):
        raise InputError("its steps are compiled, and those that are timed here are not")
    no_map = Ridge(torch.zeros(1, int(config["horizon"])), "none", penalty=0.0, every=1)
    made = prepare(Settings.parse(config), linear_maps=LinearMaps(no_map, None))
    task, size, scored = made.task.to(made.device), made.settings.training.batch_size, evaluation_batch(made)
    taught, forecast = _batch(made.data.parts["train"], size), _batch(made.data.parts["test"], scored)
    optimizer = task.configure_optimizers()["optimizer"]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    precision = precision_of(made)
    peer = Peer("setting", task, optimizer, lambda: task.training_loss(taught), lambda: task(forecast))
    return {
        TRAIN: Passes(lambda: training_step(peer, precision), size),
        INFERENCE: Passes(lambda: inference(peer, "fp32"), scored),
    }


def _batch(windows: Windows, size: int) -> Batch:
    return windows.batch(torch.arange(size, device=windows.starts.device) % len(windows))


def _synchronize() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
