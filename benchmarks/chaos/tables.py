"""Read malformed tables with predict from a finished run, and with short trainings."""

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.chaos import mutated_files, mutations
from benchmarks.chaos.bench import NOTE, REFUSE, SAME, Bench, Malformed
from benchmarks.chaos.command import GROWTH, Ended, run
from benchmarks.chaos.fixtures import HORIZON, PATCHES, RUN, SMALL, Fixtures, copied, facts, hourly
from benchmarks.chaos.trial import Place, Verdict, complaint

TRAININGS = 0.15
"""Fraction of the trials that train on the table; the others forecast from it."""

ROWS = {"predict": 160, "train": 400}

NOTED = ("note", "left out", "sorted", "order", "read as", "after the last", "begins", "without", "no value", "blank")
"""Words in the lines that report a repair of a table."""

FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def prepare(fixtures: Fixtures) -> None:
    """Compute the results of the valid table."""
    for tool in ROWS:
        _sound(fixtures, tool)


def trial(place: Place) -> Verdict:
    """Mutate a table and run a command that reads it."""
    rng = place.random
    tool = "train" if rng.random() < TRAININGS else "predict"
    work = place.folder / "work"
    if tool == "predict":
        copied(place.fixtures.finished, place.folder)
    else:
        work.mkdir()
    frame = hourly(ROWS[tool])
    bench = Bench(work, frame, rng, look_back=48 if tool == "predict" else len(frame))
    every = {**mutations.MUTATIONS, **mutated_files.MUTATIONS}
    made = rng.choices(list(every), list(every.values()))[0](bench)
    command = _command(tool, made.path.name)
    ended = run(command, work, place.logs, seconds=place.patience, fresh=place.fresh)
    wrong = wrong_with(work, ended, made, tool, place.fixtures)
    came = "refused" if ended.code else "finite"
    return Verdict(wrong is None, f"{made.what}, then {tool} (expected: {made.expected})", wrong or came, [ended])


def _command(tool: str, name: str) -> list[str]:
    if tool == "predict":
        return ["predict", "--run", RUN, f"--input={name}", "--output", "out.csv"]
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    words = [*SMALL, *PATCHES, "training.max_steps=4", "training.validations_per_epoch=1"]
    return ["train", "data=csv", f"data.path={quoted}", *words]


def _sound(fixtures: Fixtures, tool: str) -> object:
    """Return the result of the command for the valid table, which is cached."""
    key = f"table-{tool}"
    if key not in fixtures.references:
        folder = fixtures.folder / key
        work = copied(fixtures.finished, folder) if tool == "predict" else folder
        work.mkdir(parents=True, exist_ok=True)
        hourly(ROWS[tool]).to_csv(work / "good.csv", index=False)
        ended = run(_command(tool, "good.csv"), work, folder / "logs", seconds=120)
        if ended.code:
            raise RuntimeError(f"{tool} cannot read the valid table: {ended.text[-1000:]}")
        fixtures.references[key] = _came(work, tool)
    return fixtures.references[key]


def _came(work: Path, tool: str) -> object:
    if tool == "predict":
        return (work / "out.csv").read_text(encoding="utf-8")
    (folder,) = (path.parent for path in work.glob("outputs/*/*/manifest.json"))
    return facts(folder)


def wrong_with(work: Path, ended: Ended, made: Malformed, tool: str, fixtures: Fixtures) -> str | None:
    """Return what is wrong with the outcome of a malformed table, None if nothing is."""
    if (wrong := complaint(ended)) is not None:
        return wrong
    if ended.growth is not None and ended.growth > GROWTH:
        return f"grew by {ended.growth / 2**30:.1f} GiB"
    if ended.code:
        left = [*work.glob("out.*"), *work.glob("outputs/*/*/result.json")]
        return f"refused, but it wrote {left[0].name}" if left else None
    forecasts = [work / "out.csv"] if tool == "predict" else list(work.glob("outputs/*/*/forecast.csv"))
    if len(forecasts) != 1:
        return f"exit code 0 and {len(forecasts)} forecasts"
    origin = made.origin if tool == "predict" else None  # a training forecasts its last test window
    if (wrong := _unsound(forecasts[0], origin)) is not None:
        return wrong
    if made.expected == REFUSE:
        return f"silent: accepted, {_output(ended)}"
    if made.expected == NOTE and not _is_noted(ended, tool):
        return "silent: accepted without a note"
    if (
        made.expected == SAME
        and not _is_same(_came_of(work, tool), _sound(fixtures, tool))
        and not _is_noted(ended, tool)
    ):
        return "silent: the result differs from the valid table"
    return None


def _came_of(work: Path, tool: str) -> object:
    try:
        return _came(work, tool)
    except ValueError:
        return None


def _unsound(path: Path, origin: pd.Timestamp | None) -> str | None:
    """Return what is wrong with a forecast: its size, non-finite numbers, or names that a spreadsheet executes."""
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return "the forecast is not a table"
    if any(cell.startswith(FORMULAS) for cell in rows[0]):
        return f"the forecast has a formula as a name: {rows[0]}"
    if not all(map(math.isfinite, numbers_of(path))):
        return "the forecast is not finite"
    if len(rows) - 1 < HORIZON:
        return f"the forecast has {len(rows) - 1} rows"
    if origin is not None and pd.Timestamp(rows[1][0]) != origin + pd.Timedelta("1h"):
        return f"silent: the forecast begins at {rows[1][0]}, but the last value is at {origin}"
    return None


def numbers_of(path: Path) -> list[float]:
    """Return the values of a forecast; an empty cell is NaN."""
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    return [float(cell or "nan") for row in rows[1:] for cell in row[1:]]


def _output(ended: Ended) -> str:
    return f"{' / '.join(ended.out.strip().splitlines())[:200]}"


def _is_noted(ended: Ended, tool: str) -> bool:
    """Return whether a line of the output reports a repair of the table."""
    return any(word in line for line in ended.text.splitlines()[:8] for word in NOTED)


def _is_same(actual: object, expected: object) -> bool:
    if isinstance(actual, str) and isinstance(expected, str):
        one, other = (list(csv.reader(text.splitlines())) for text in (actual, expected))
        if [row[0] for row in one] != [row[0] for row in other]:
            return False
        first, second = (np.array([row[1:] for row in rows[1:]], dtype=float) for rows in (one, other))
        return first.shape == second.shape and bool(np.allclose(first, second, rtol=1e-6))
    return actual == expected
