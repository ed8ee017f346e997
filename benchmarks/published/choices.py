"""Score settings on rows before the published windows, where they may be chosen.

`python -m benchmarks.published.choices --tasks epf_de --name small --words "model.patch_length=6"`. Each task's table
ends before its windows; ETT and Weather end before the test rows of the standard tables too. The newest part of what is
left takes the place of the test split.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.published.contest import digest_of, folder_of
from benchmarks.published.lanes import in_lanes
from benchmarks.published.record import add_row, read_rows
from benchmarks.published.tasks import TASKS, Task, data_folder
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json
from forecast.common.tables import table, write_between
from forecast.runs.run import MANIFEST, RESULT

RECORD = Path("benchmarks/records/published/choices.csv")
FOLDER = Path("outputs/choices")


@dataclass(frozen=True)
class Part:
    """The rows of a task on which settings are chosen: how many, and their split."""

    rows: int
    split: str
    stride: int = 1


YEAR = "{train: 41600, validation: 1600, test: 8736}"
SHARES = "{train: 0.7, validation: 0.1, test: 0.2}"

PARTS: Mapping[str, Part] = {
    "epf_np": Part(51_936, YEAR),
    "epf_de": Part(51_936, YEAR),
    "proenfo_gfc14": Part(14_160, SHARES, 5),
    "ETT_15T": Part(46_080, SHARES, 11),
    "ETT_1H": Part(11_520, SHARES, 5),
    "jena_weather_10T": Part(42_157, SHARES, 11),
    "jena_weather_1H": Part(7_026, SHARES),
}
"""The parts by task. The two tasks with few rows have none: a training there has no rows left to choose on."""

SCORES = {
    "SQL": "test.intervals.sql",
    "MASE": "test.original.mase",
    "validation_SQL": "validation.intervals.sql",
    "path_SQL": "linear_path.test.intervals.sql",
    "ridge_SQL": "baselines.linear.test.intervals.sql",
    "naive_SQL": "baselines.seasonal_naive.test.intervals.sql",
    "share": "model.mixing_weight",
    "best_step": "model.best_step",
    "steps": "model.steps",
    "seconds": "speed.fit_seconds",
}
"""Columns of the record and their paths in `result.json`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published.choices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--name", help="name of the settings in the record")
    parser.add_argument("--words", default="", help="overrides of the training command, as one text")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the runs (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table between its marks in this file")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


BEGIN = "<!-- choices: written by python -m benchmarks.published.choices --write docs/measurements/published.md -->"
END = "<!-- /choices -->"


def _run(options: argparse.Namespace) -> None:
    if options.write is not None:
        if (rows := read_rows(options.record, "task", "name")).empty:
            raise InputError(f"{options.record}: no settings scored yet: name some with --name")
        write_between(options.write, BEGIN, END, summary(rows))
        return
    if options.name is None:
        raise InputError("--name is missing: name the settings")
    folder = data_folder()
    for name in options.tasks:
        rows = read_rows(options.record, "task", "name")
        if ((rows["task"] == name) & (rows["name"] == options.name)).any():
            print(f"{name}: the record has {options.name}")
            continue
        row = score(TASKS[name], folder, options.name, shlex.split(options.words), options.folder)
        add_row(options.record, row)
        print(f"{name}: SQL {row['SQL']:.3f}, seasonal naive {row['naive_SQL']:.3f}", flush=True)
    print(summary(read_rows(options.record, "task", "name")))


def words_of(task: Task, frame: pd.DataFrame, path: Path, chosen: Sequence[str]) -> list[str]:
    """Return the overrides of the training on the rows of `PARTS`; a `chosen` word replaces one of the same key."""
    part = PARTS[task.name]
    words = task.words(frame, path)
    words += [f"data.split={part.split}", f"training.evaluation_stride={part.stride}"]
    keys = {word.partition("=")[0] for word in chosen}
    return [*(word for word in words if word.partition("=")[0] not in keys), *chosen]


def score(task: Task, data: Path, name: str, chosen: Sequence[str], folder: Path) -> dict[str, Any]:
    """Train with the public command and return the row of the record.

    Raises
    ------
    InputError
        If the training fails.
    """
    words, run = run_of(task, data, name, chosen, folder)
    result = read_json(run / RESULT)
    numbers = {column: look_up(result, key) for column, key in SCORES.items()}
    return {
        "task": task.name,
        "name": name,
        **{column: round(value, 5) if isinstance(value, float) else value for column, value in numbers.items()},
        "command": shlex.join(["python", "train.py", *words]),
        "commit": result["commit"],
        "machine": result["device"],
    }


def run_of(task: Task, data: Path, name: str, chosen: Sequence[str], folder: Path) -> tuple[list[str], Path]:
    """Train with the public command, unless that was done, and return its words and the folder of the run.

    Raises
    ------
    InputError
        If the training fails.
    """
    frame = task.table(data).iloc[: PARTS[task.name].rows]
    place = folder / f"{task.name}_{name}"
    path = place / "past.csv"
    words = words_of(task, frame, path, chosen)
    runs = folder_of(place / "runs", [*words, digest_of(frame)])
    if not any(runs.glob(f"*/*/{MANIFEST}")):
        place.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index_label="date")
        command = ["-m", "forecast.training", *words, f"output_dir={runs}", "resume=auto", "training.progress=false"]
        in_lanes([lambda commands: commands.run(command)])
    return words, next(runs.glob(f"*/*/{MANIFEST}")).parent


def summary(rows: pd.DataFrame) -> str:
    """Return the table of the scores relative to the seasonal naive forecast, in the order of the record."""
    cells = []
    for task, own in rows.groupby("task", sort=False):
        for row in own.to_dict("records"):
            relative = [f"{row[key] / row['naive_SQL']:.3f}" for key in ("SQL", "path_SQL", "ridge_SQL")]
            cells.append([str(task), row["name"], *relative, f"{row['seconds'] / 60:.1f}"])
    return table(("task", "settings", "model", "its linear path", "ridge", "minutes"), cells)


if __name__ == "__main__":
    sys.exit(main())
