"""Times settings in turn, in a process of its own: `python -m forecast.training.sweep.turns_worker`.

It reads one line of JSON, `{"folders": [...], "seconds": 4.0, "files": [...]}`, and prints one: what each setting took
in each round.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import torch

from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.processes import end_with_the_starter
from forecast.common.timing import load_since, read_load
from forecast.data.sources import described_data
from forecast.data.windows import Batch, Windows
from forecast.evaluation.linear_start import LinearMaps
from forecast.evaluation.ridge import Ridge
from forecast.runs.resume import read_config
from forecast.runs.run import CONFIG
from forecast.runs.settings import Settings
from forecast.runs.stored import check_stored
from forecast.training.prepare import prepare
from forecast.training.steps import Peer, evaluation_batch, inference, precision_of, training_step
from forecast.training.sweep.turns import ROUNDS

MOST_ROUNDS = 2 * ROUNDS
"""Rounds at the most, where other processes disturb some of them."""

WARM_UP = 2
"""Passes before the first round: kernels are chosen and memory is first touched in them."""

LONGEST = 30.0
"""Seconds of one step or one batch of forecasts, beyond which a setting is left out."""

TRAIN, INFERENCE = "train", "inference"

Stretch = dict[str, Any]


@dataclass(frozen=True)
class Passes:
    """What is repeated in a stretch.

    Parameters
    ----------
    begin
        Puts the model into the mode of a pass and returns what makes one.
    windows
        Of a pass.
    """

    begin: Callable[[], Callable[[], object]]
    windows: int


def time_in_turn(folders: Sequence[Path], seconds: float, files: Collection[str] = ()) -> dict[str, Any]:
    """Time the settings of run folders in rounds, in an order that turns with each round.

    Further rounds follow while others disturb some and not all of them.

    Parameters
    ----------
    folders
        One run of each setting.
    seconds
        Of each setting, half of them training steps and half forecasts; at least a pass of each in each round.
    files
        Data files that the user's own command names; others are read only where a run folder may say so.

    Returns
    -------
    dict
        `settings`, one for each folder: `why` it could not be timed, or None, and by stretch the list of its rounds.
    """
    made = [_ready(folder, files) for folder in folders]
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
    """Make passes until the seconds are over, one at least, and return the windows and the load of the stretch."""
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
    """Return what a run folder says of its model and its data, and nothing that a run does beside its steps.

    Raises
    ------
    InputError
        If it cannot be read, or names what a folder may not name.
    """
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
    """Build a run's model with fresh weights, and return a training step and a batch of forecasts on its own data.

    The step is forward, backward and update at a rate of 0, so that no weight moves.

    Raises
    ------
    InputError
        If the run's configuration or data cannot be used, or its steps are compiled.
    """
    if config["training"].get("compile"):
        raise InputError("its steps are compiled, and those that are timed here are not")
    no_map = Ridge(torch.zeros(1, int(config["horizon"])), "none", penalty=0.0, every=1)
    made = prepare(Settings.parse(config), maps=LinearMaps(no_map, None))
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


def main() -> None:
    """Time what standard input says and print the answer; end when the process that started this one does."""
    answer: IO[str] = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed on the way is no answer
    work: Mapping[str, Any] = json.loads(sys.stdin.readline())
    end_with_the_starter()
    told = time_in_turn([Path(folder) for folder in work["folders"]], float(work["seconds"]), work["files"])
    answer.write(json.dumps(told))
    answer.close()


if __name__ == "__main__":
    main()
