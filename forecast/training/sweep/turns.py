"""Time the settings of a sweep in turn after its jobs: on the same machine, within seconds of one another."""

import signal
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
from forecast.common.files import look_up, read_json, sha256, write_sealed
from forecast.common.memory import keep_freed_memory
from forecast.common.processes import Child, Ended
from forecast.common.timing import load_since, read_load
from forecast.data.sources import described_data, load_source
from forecast.data.windows import Batch, Windows
from forecast.evaluation.linear_maps import LinearMaps
from forecast.evaluation.ridge import Ridge
from forecast.runs.integrity import check_stored
from forecast.runs.read import read_jobs
from forecast.runs.results import commit, device_name
from forecast.runs.resume import read_config
from forecast.runs.run import CONFIG, RESULT
from forecast.runs.settings import Settings
from forecast.runs.turns import TIMING, cost_key, read_turns
from forecast.training.prepare import prepare
from forecast.training.steps import Peer, evaluation_batch, inference, precision_of, training_step

ROUNDS = 5
"""Number of rounds. Two equally fast settings have the same order in all five with probability 1/16."""

MOST_ROUNDS = 2 * ROUNDS
"""Maximum rounds, if other processes disturb some of them."""

PROGRESS = 20.0
"""Seconds between two printed lines of progress."""

ROUND_DONE = "round finished"
"""Line that the timing process prints after each round."""

WARM_UP = 2
"""Passes before the first round; they select kernels and allocate memory."""

LONGEST = 30.0
"""Maximum seconds of one step or one batch of forecasts; slower settings are skipped."""

TRAIN, INFERENCE = "train", "inference"

Stretch = dict[str, Any]

THREADS = " threads"
"""Suffix of a CPU's name in a result."""


def time_sweep(sweep: Path, seconds: float, files: Collection[str] = ()) -> None:
    """Time the settings of a sweep's finished jobs in turn, for `seconds` each (0: off), and write the file.

    Do nothing if there is only one setting, or if the file has undisturbed times of these runs. A failure prints one
    line and does not affect the jobs. `files` are the data files on the command line.
    """
    if not seconds:
        return
    results = _results(sweep)
    if len(results) < 2:
        return
    device = str(look_up(next(iter(results.values()))[1], "device"))
    digests = {folder.name: sha256(folder / RESULT) for folder, _ in results.values()}
    facts = {"device": device, "torch": torch.__version__, "commit": commit(), "seconds": seconds, "results": digests}
    if not _is_here(device):
        print(f"not timed in turn: the jobs ran on another device: {device}", file=sys.stderr, flush=True)
        return
    if _is_done(sweep, facts, set(results)):
        return
    print(
        f"timing {len(results)} settings in turn: {ROUNDS} to {MOST_ROUNDS} rounds, each setting at least "
        f"{seconds:g} s in all, longer if steps are slow",
        flush=True,
    )
    reply = _time_in_process([folder for folder, _ in results.values()], seconds, device, files)
    if isinstance(reply, str):
        print(f"not timed in turn: {reply}", file=sys.stderr, flush=True)
        return
    settings = [{"key": key, **setting} for key, setting in zip(results, reply["settings"], strict=True)]
    write_sealed(sweep / TIMING, {**facts, "settings": settings})
    for (folder, _), setting in zip(results.values(), settings, strict=True):
        if setting["why"] is not None:
            print(f"{folder.name}: not timed in turn: {setting['why']}", flush=True)


def _results(sweep: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return a finished run per setting, by increasing look-back, only from the most frequent device."""
    jobs = read_jobs(sweep)
    runs: dict[str, tuple[Path, dict[str, Any]]] = {}
    for folder in map(Path, jobs.loc[jobs["of"].notna(), "folder"]):
        result = read_json(folder / RESULT)
        runs.setdefault(cost_key(result), (folder, result))
    devices = Counter(str(result["device"]) for _, result in runs.values())
    chosen = {key: run for key, run in runs.items() if str(run[1]["device"]) == devices.most_common(1)[0][0]}
    return dict(sorted(chosen.items(), key=lambda item: int(item[1][1]["config"]["context_length"])))


def _is_here(device: str) -> bool:
    names = [device_name(torch.device("cpu"))]
    if torch.cuda.is_available():
        names.append(device_name(torch.device("cuda")))
    return _machine(device) in map(_machine, names)


def _machine(device: str) -> str:
    return device.rpartition(", ")[0] if device.endswith(THREADS) else device


def _is_done(sweep: Path, facts: Mapping[str, Any], keys: set[str]) -> bool:
    """Return whether the file has the times of these settings, from enough undisturbed rounds."""
    try:
        turns = read_turns(sweep)
    except InputError:
        return False
    if not turns:
        return False
    content = read_json(sweep / TIMING)
    rounds = zip(*(stretches for setting in turns.values() for stretches in setting.values()), strict=True)
    clean = sum(not any(stretch.disturbed for stretch in stretches) for stretches in rounds)
    alike = all(content.get(name) == value for name, value in facts.items())
    return alike and clean >= ROUNDS and {setting["key"] for setting in content["settings"]} == keys


def _time_in_process(
    folders: Sequence[Path], seconds: float, device: str, files: Collection[str]
) -> dict[str, Any] | str:
    """Return the reply of the process that times the folders' settings, or the reason for its failure."""
    threads = int(device.rpartition(", ")[2].removesuffix(THREADS)) if device.endswith(THREADS) else None
    request = {"folders": [str(folder) for folder in folders], "seconds": seconds, "files": sorted(files)}
    with Child("forecast.training.sweep.turns:time_in_turn", request, threads=threads) as child:
        ended = _wait(child)
    if ended.reply is not None:
        reply: dict[str, Any] = ended.reply
        return reply
    if ended.code < 0:
        return f"its process was ended by {signal.Signals(-ended.code).name}"
    lines = [line for line in ended.printed.splitlines() if line != ROUND_DONE]
    return lines[-1] if lines else f"its process ended with exit code {ended.code}"


def _wait(child: Child) -> Ended:
    """Wait for the process that times, and print a line of progress every `PROGRESS` seconds."""
    while True:
        try:
            return child.wait(PROGRESS)
        except TimeoutError:
            done = child.printed.splitlines().count(ROUND_DONE)
            finished = f"{done} round{'s' * (done > 1)} finished"
            print(f"timing: {finished if done else 'preparing the models'}", flush=True)


@dataclass(frozen=True)
class Passes:
    """Repeated passes: `begin` sets the model's mode and returns a function that runs a pass over `windows`."""

    begin: Callable[[], Callable[[], object]]
    windows: int


def time_in_turn(folders: Sequence[str], seconds: float, files: Collection[str] = ()) -> dict[str, Any]:
    """Time the settings of run folders, one folder per setting, in rounds of alternating order.

    Half of a setting's `seconds` goes to training steps and half to forecasts, with at least one pass of each per
    round. If other processes disturb some rounds but not all, more rounds follow. `files` are the data files on the
    command line; other files are read only if a run folder may name them. The result's `settings` has an entry per
    folder: `why` it could not be timed, or None, and the rounds of training steps and of forecasts.
    """
    ready = [_ready(Path(folder), files) for folder in folders]
    settings: list[dict[str, Any]] = [
        {"why": passes if isinstance(passes, str) else None, TRAIN: [], INFERENCE: []} for passes in ready
    ]
    timed = [(passes, setting) for passes, setting in zip(ready, settings, strict=True) if not isinstance(passes, str)]
    clean = done = 0
    while done < ROUNDS or (done < MOST_ROUNDS and 0 < clean < ROUNDS):
        stretches = []
        for passes, setting in timed if done % 2 == 0 else reversed(timed):
            for name, repeated in passes.items():
                stretches.append(_stretch(repeated, seconds / (2 * ROUNDS)))
                setting[name].append(stretches[-1])
        clean += not any(stretch["disturbed"] for stretch in stretches)
        done += 1
        print(ROUND_DONE, flush=True)
    return {"settings": settings}


def _stretch(passes: Passes, seconds: float) -> Stretch:
    """Run passes for `seconds`, at least one, and return the number of windows and the load."""
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
    """Return the passes of a run's setting after a warm-up, or the reason why it cannot be timed."""
    try:
        ready = _passes(_configuration(folder, files))
        slow = any(_warm_up(passes) > LONGEST for passes in ready.values())
    except InputError as error:
        return str(error)
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        return "not enough memory"
    return f"a pass takes more than {LONGEST:g} s" if slow else ready


def _warm_up(passes: Passes) -> float:
    """Run a cold pass, and a warm one unless the first was too long; return the seconds of the last pass."""
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
    """Return a run folder's configuration without callbacks and logging."""
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
    """Return a training step and a batch of forecasts of a run's model, with new weights, on the run's data.

    The step is forward, backward and update, with a learning rate of 0 so that the weights stay the same.
    """
    if config["training"].get("compile"):
        raise InputError("its training steps are compiled, which this timing does not support")
    no_map = Ridge(torch.zeros(1, int(config["horizon"])), "none", penalty=0.0, every=1)
    settings = Settings.parse(config)
    made = prepare(settings, load_source(settings.data), linear_maps=LinearMaps(no_map, None))
    keep_freed_memory(made.device)  # as the trainings do
    task, size, scored = made.task.to(made.device), made.settings.training.batch_size, evaluation_batch(made)
    train, test = _batch(made.data.parts["train"], size), _batch(made.data.parts["test"], scored)
    optimizer = task.configure_optimizers()["optimizer"]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    precision = precision_of(made)
    peer = Peer("setting", task, optimizer, lambda: task.training_loss(train), lambda: task(test))
    return {
        TRAIN: Passes(lambda: training_step(peer, precision), size),
        INFERENCE: Passes(lambda: inference(peer, "fp32"), scored),
    }


def _batch(windows: Windows, size: int) -> Batch:
    return windows.batch(torch.arange(size, device=windows.starts.device) % len(windows))


def _synchronize() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
