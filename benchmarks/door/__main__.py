"""The door test: `python -m benchmarks.door`.

Each generated table is trained by `python train.py data=csv data.path=…` alone. Its forecasts are scored
against a future that the program never reads. A row that the record has is not measured again.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.door import origins
from benchmarks.door.scores import Forecasts, failures, scores, tables
from benchmarks.door.series import ID, TABLES, Table
from benchmarks.processes import run_to_its_end
from benchmarks.published.contest import only_run
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import folder_lock, look_up, read_json, replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import write_between
from forecast.runs.run import RESULT
from forecast.training.sweep.sweep import JOBS_LEFT

RECORD = Path("benchmarks/records/door/door.csv")
FOLDER = Path("outputs/door")
PROGRAM = Path(__file__).resolve().parents[2]
"""This checkout."""

NOW, BEFORE, PRETRAINED = "now", "before", "from the pretrained network"
KEY = ["program", "name"]

BEGIN = "<!-- door: written by python -m benchmarks.door --write docs/measurements/door-test.md -->"
END = "<!-- /door -->"

WORDS = re.compile(r"'?(data\.[a-z_]+=\[[^\]]+\])'?")
"""Overrides that the program prints for a file with known columns."""

FACTS = {
    "context_length": "config.context_length",
    "horizon": "config.horizon",
    "patch_length": "config.model.patch_length",
    "commit": "commit",
    "machine": "device",
}
"""Columns of the record and their paths in `result.json`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0, or `JOBS_LEFT` after the time limit."""
    names = [each.name for each in TABLES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.door",
        description="Train on each generated table, score the forecasts from its later origins, and add a row to the "
        "record. Run the same command again to continue.",
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help="names of tables")
    parser.add_argument("--files", type=int, help="most files of a monthly or yearly table, for a short form")
    parser.add_argument("--program", type=Path, default=PROGRAM, help="another checkout, whose rows are called before")
    parser.add_argument("--pretrained", action="store_true", help="begin with the pretrained network")
    parser.add_argument("--record", type=Path, default=RECORD, help=f"CSV file of the rows (default: {RECORD})")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"folder of files and runs (default: {FOLDER})")
    parser.add_argument("--minutes", type=float, help="time after which no table starts")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables between their marks in this file")
    options = parser.parse_args(arguments)
    codes: list[int] = []
    return finish(lambda: codes.append(_run(options))) or codes[0]


def _run(options: argparse.Namespace) -> int:
    if options.write is not None:
        write_between(options.write, BEGIN, END, tables(read(options.record)))
        return 0
    program = options.program.resolve()
    if not (program / "train.py").is_file():
        raise InputError(f"--program {options.program}: has no train.py: name a checkout")
    arm = BEFORE if program != PROGRAM else PRETRAINED if options.pretrained else NOW
    started = time.monotonic()
    for drawn in [each for each in TABLES if each.name in options.only]:
        if (arm, drawn.name) in {tuple(key) for key in read(options.record)[KEY].to_numpy().tolist()}:
            continue
        if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
            print(f"time limit of {options.minutes:g} minutes reached: run the same command again to continue")
            return JOBS_LEFT
        files = min(drawn.files, options.files or drawn.files)
        start = ["start_from=pretrained"] if options.pretrained else []
        row = row_of(drawn, program, options.folder.resolve() / arm, files, start)
        _add({"program": arm, **row}, options.record)
        print(f"{drawn.name}: {row['seconds']:.0f} s; not met: {', '.join(failures(row)) or 'nothing'}", flush=True)
    return 0


def read(record: Path) -> pd.DataFrame:
    """Return the record; an empty table if there is none yet."""
    return pd.read_csv(record) if record.is_file() else pd.DataFrame(columns=KEY)


def _add(row: dict[str, Any], record: Path) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(record.parent, wait=True), replacing(record) as file:
        rows = pd.concat([read(record), pd.DataFrame([row])], ignore_index=True).sort_values(KEY)
        write_frame(file, rows, index=False, float_format="%.6g")


def row_of(drawn: Table, program: Path, folder: Path, files: int, start: Sequence[str] = ()) -> dict[str, Any]:
    """Train on the files of a table, forecast from their origins, and return the scores; `start` are more words."""
    started = time.monotonic()
    place = folder / drawn.name.replace(" ", "_")
    drawn_files = [drawn.draw(seed) for seed in range(1, files + 1)]
    runs, words = [], set[str]()
    for seed, frame in enumerate(drawn_files, start=1):
        run, used, trains, line = trained(drawn.file(frame), drawn, program, place / str(seed), start)
        facts = {"name": drawn.name, "trains": trains, "reason": "" if trains else line, "files": files}
        if run is None:
            return {**facts, **_ending(started)}
        runs.append(run)
        words |= set(used)
    results = [read_json(run / RESULT) for run in runs]
    horizon = look_up(results[0], "config.horizon")
    forecasts = _forecasts(drawn, runs, drawn_files, program, drawn.origins(horizon), horizon)
    chosen = {column: look_up(results[0], path) for column, path in FACTS.items()}
    return {**facts, "words": " ".join(sorted(words)), **chosen, **scores(forecasts, drawn), **_ending(started)}


def _ending(started: float) -> dict[str, Any]:
    return {
        "seconds": round(time.monotonic() - started, 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def trained(
    frame: pd.DataFrame, drawn: Table, program: Path, place: Path, start: Sequence[str]
) -> tuple[Path | None, list[str], bool, str]:
    """Train on a file by the first command; for known columns once more, with the words that the program prints.

    Return the run, or None if none trains; the words; whether the first command trains; and its last line.
    """
    file = place / "my.csv"
    place.mkdir(parents=True, exist_ok=True)
    frame.to_csv(file, date_format=drawn.step.dates)
    code, printed = _train(program, place / "first", file, start)
    words = sorted(set(WORDS.findall(printed))) if drawn.later else []
    folder = place / "first"
    if words:
        folder = place / "words"
        _train(program, folder, file, [*words, *start])
    lines = printed.replace(str(file), file.name).strip().splitlines()  # a record has no paths of a machine
    return only_run(folder / "outputs"), words, code == 0, lines[-1] if lines else ""


def _train(program: Path, folder: Path, file: Path, words: Sequence[str]) -> tuple[int, str]:
    """Run the training command in a folder, unless it has its run; return the exit code and the printed lines."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "printed.txt"
    if only_run(folder / "outputs") is not None:
        return 0, log.read_text(encoding="utf-8")
    command = [sys.executable, str(program / "train.py"), "data=csv", f"data.path={file}", *words]
    with log.open("wb") as stream:
        code = run_to_its_end(command, cwd=folder, env=_environment(program), stdout=stream, stderr=subprocess.STDOUT)
    return code, log.read_text(encoding="utf-8")


def _forecasts(
    drawn: Table, runs: Sequence[Path], frames: Sequence[pd.DataFrame], program: Path, count: int, horizon: int
) -> list[Forecasts]:
    """Forecast from the origins of each file, in one process of the program under test."""
    requests: list[dict[str, Any]] = []
    for run, frame in zip(runs, frames, strict=True):
        table = run / "with_future.csv"
        frame.to_csv(table, date_format=drawn.step.dates)
        paths = {"run": str(run), "table": str(table), "output": str(run / "door.npz")}
        request = {**paths, "rows": drawn.step.rows, "origins": count}
        requests.append({**request, "id_column": ID, "target": drawn.targets[0]} if drawn.ids else request)
    subprocess.run(
        [sys.executable, origins.__file__],
        input=json.dumps(requests).encode(),
        env=_environment(program),
        cwd=runs[0],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [
        _read(Path(request["output"]), frame, drawn, horizon) for request, frame in zip(requests, frames, strict=True)
    ]


def _read(file: Path, frame: pd.DataFrame, drawn: Table, horizon: int) -> Forecasts:
    """Return the forecasts of the scored columns, with the truth."""
    with np.load(file) as content:
        arrays = dict(content)
    if drawn.ids:
        frame = frame.reset_index().pivot(index="date", columns=ID, values=drawn.targets[0])[arrays["targets"]]
    targets = [str(name) for name in arrays.pop("targets")]
    scored = targets if drawn.ids or not drawn.targets else drawn.targets
    places = [targets.index(name) for name in scored]
    arrays = {name: values[:, :, places] for name, values in arrays.items()}
    values = frame[[targets[place] for place in places]].to_numpy()
    history, future = values[: drawn.step.rows], values[drawn.step.rows :]
    count = len(arrays["forecast"])
    return Forecasts(
        truth=future[: count * horizon].reshape(count, horizon, -1),
        forecast=arrays["forecast"],
        lower=arrays["lower"],
        upper=arrays["upper"],
        errors={name.removeprefix("error_"): each for name, each in arrays.items() if name.startswith("error_")},
        scale=np.nanstd(np.where(history == -9999, np.nan, history), axis=0),
    )


def _environment(program: Path) -> dict[str, str]:
    """Return an environment whose first import path is the program under test."""
    paths = [str(program), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    sys.exit(main())
