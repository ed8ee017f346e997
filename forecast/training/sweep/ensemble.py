"""The end of an ensemble: the scores of the mean forecast of its members, in the folder of their sweep."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json
from forecast.common.progress import say
from forecast.common.text import duration
from forecast.data.sources import load_source
from forecast.predict.ensemble_scores import member_line, score_ensemble
from forecast.runs.ensemble import write_ensemble
from forecast.runs.read import read_jobs
from forecast.runs.results import command_line
from forecast.runs.resume import differences, read_config
from forecast.runs.run import INPUT, RESULT, Run
from forecast.runs.settings import Settings, exact_convolutions
from forecast.runs.summary import baseline_warning, interval_line, next_line, print_table, scored_split, writes_board
from forecast.training.prepare import make_data
from forecast.training.sweep.job import typed_as


def finish_ensemble(folder: Path, settings: Settings, seeds: Sequence[int]) -> None:
    """Score the mean forecast of the finished runs of these seeds, write it into `folder`, and print what is next.

    `settings` are those of the command: the folder may hold other runs, and its files choose neither data nor device.
    """
    runs = _members(folder, settings, seeds)
    with typed_as([sys.argv[0], f"ensemble={len(seeds)}", f"seed={seeds[0]}", *_other_words()]):
        result = score_members(folder, runs, settings)
    print_table(result)
    print(member_line(result))
    print(
        f"Cost: {len(runs)} trainings, {duration(result['speed']['fit_seconds'])} of fitting, "
        f"{result['model']['parameters']:,} parameters; a forecast takes the time of {len(runs)}."
    )
    if scored_split(result) == "test" and (intervals := interval_line(result)):
        print(intervals)
    if warning := baseline_warning(result):
        Console(soft_wrap=True).print(Text(f"WARNING: {warning}", "bold yellow"))
    place = shlex.quote(str(folder))
    board = f"; TensorBoard: tensorboard --logdir {place}" if writes_board(settings.logger) else ""
    print(f"Ensemble folder: {place} (ensemble.json{board})")
    print(next_line(folder, read_json(runs[0].path / RESULT), runs[0].path / INPUT))  # its intervals tell the levels


def score_members(folder: Path, runs: Sequence[Run], settings: Settings, **more: Any) -> dict[str, Any]:
    """Score the mean forecast of finished runs in `folder`, and write the file of the ensemble; return its content.

    `more` are further entries of the file.
    """
    on_cpu = settings.trainer.accelerator == "cpu" or not torch.cuda.is_available()
    device = torch.device("cpu" if on_cpu else "cuda")
    exact_convolutions()
    say(f"scoring the mean forecast of {len(runs)} models")
    data = make_data(settings, load_source(settings.data), device)
    _check_data(runs, data.source.sha256)
    data.to(device)
    result = score_ensemble(runs, data)
    config = {**settings.plain, "ensemble": len(runs)}
    content = {"command": command_line(), **result, "config": config, **more}
    write_ensemble(folder, [run.path.name for run in runs], content)
    return content


def _other_words() -> list[str]:
    """Return the words of the command, which is now a sweep over seeds, without those that make it one."""
    return [word for word in sys.argv[1:] if word != "-m" and not word.startswith(("ensemble=", "seed="))]


def _check_data(runs: Sequence[Run], digest: str | None) -> None:
    """Raise InputError if a member was trained on other content of the data file than is there now."""
    others = [run.path for run in runs if look_up(read_json(run.path / RESULT), "data.sha256") != digest]
    if others:
        names = ", ".join(str(path) for path in others)
        raise InputError(
            f"{names}: the data file has changed since: restore it, or remove what has changed to train again"
        )


def _members(folder: Path, settings: Settings, seeds: Sequence[int]) -> list[Run]:
    """Return the finished runs of the seeds in `folder` that differ from `settings` in their seed alone."""
    jobs = read_jobs(folder)
    members = []
    for row in jobs[jobs["of"].notna() & jobs["seed"].isin(seeds)].sort_values("seed").to_dict("records"):
        lines = differences(settings.plain, read_config(Path(row["folder"])), budget=True)
        if all(line.startswith("seed is ") for line in lines):
            members.append(Run(Path(row["folder"])))
    if len(members) != len(seeds):
        raise InputError(f"{folder}: has {len(members)} of {len(seeds)} members: choose another sweep.name")
    return members
