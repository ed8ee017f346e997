"""Run folders read for a report: the finished runs, and what is left out of it, with the reason."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json
from forecast.runs.labels import data_key
from forecast.runs.rows import MARKS, damage, natural, read_folders
from forecast.runs.run import RESULT, finished_result
from forecast.runs.turns import TIMING, Stretch, Turns, cost_key, read_turns

NEEDED = (
    *("command", "seed", "device", "precision", "baselines.last_value", "speed.fit_seconds"),
    *("config.attention.name", "config.context_length", "config.horizon", "config.training.batch_size"),
    *("data.name", "data.targets", "data.windows.train", "data.windows.test"),
    *("model.parameters", "model.steps", "model.best_step", "test.scaled.mse", "test.scaled.mae"),
)
"""What a report is made of; a result without one of them is left out by name."""


@dataclass(frozen=True)
class InTurn:
    """What a run's setting took in turn with the others of its sweep: a stretch a round, of `train` and `inference`."""

    sweep: Path
    stretches: Mapping[str, Sequence[Stretch]]


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its name in the report, its folder, its `result.json`, and what runs of other seeds share.

    `in_turn` is None where the settings of its sweep were not timed in turn.
    """

    name: str
    folder: Path
    result: dict[str, Any]
    of: str
    in_turn: InTurn | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The composed configuration."""
        config: dict[str, Any] = self.result["config"]
        return config

    def number(self, path: str) -> float:
        """Return the number at a dotted path of the result, NaN where there is none."""
        value = look_up(self.result, path)
        return float("nan") if value is None else float(value)


@dataclass(frozen=True)
class Found:
    """What the folders hold: finished runs, and of each other folder its name and why it is left out."""

    runs: tuple[FinishedRun, ...]
    left_out: tuple[tuple[str, str], ...]


def read_runs(roots: Sequence[Path]) -> Found:
    """Return the runs in and below `roots`, in the order of their names; each configuration and seed counts once.

    Raises
    ------
    InputError
        If a root is no folder, or none of them holds a finished run.
    """
    names = _names(roots)
    damaged = {folder: why for folder in names if (why := _damage(folder)) is not None}
    left_out = [(names[folder], why) for folder, why in damaged.items()]
    alike: dict[str, list[Path]] = {}
    for folder in names:
        if folder not in damaged:
            result = finished_result(folder)
            alike.setdefault("" if result is None else data_key(result), []).append(folder)
    runs = []
    turns: dict[Path, Turns] = {}
    for row in (row for folders in alike.values() for row in read_folders(folders, checked=True).to_dict("records")):
        folder = Path(row["folder"])
        if isinstance(row["of"], str):
            if folder.parent not in turns:
                turns[folder.parent] = _turns_of(folder.parent, left_out)
            result = read_json(folder / RESULT)
            timed = turns[folder.parent].get(cost_key(result))
            in_turn = None if timed is None else InTurn(folder.parent, timed)
            runs.append(FinishedRun(names[folder], folder, result, row["of"], in_turn))
        else:
            why = f": {row['error']}" if isinstance(row["error"], str) else ""
            left_out.append((names[folder], f"{row['status']}{why}"))
    if not runs:
        told = f" ({left_out[0][0]}: {left_out[0][1]})" if left_out else ""
        raise InputError(
            f"{', '.join(map(str, roots))}: no finished run there{told}: train some, or name them by --runs"
        )
    return Found(tuple(runs), tuple(left_out))


def _turns_of(sweep: Path, left_out: list[tuple[str, str]]) -> Turns:
    """Return what the settings of a sweep took in turn; a file that is damaged is left out by name."""
    try:
        return read_turns(sweep)
    except InputError:
        left_out.append((TIMING, "damaged: times in turn are not shown; give the command of the sweep again"))
        return {}


def _names(roots: Sequence[Path]) -> dict[Path, str]:
    """Return the run folders, each once, with their names: below the root where there is but one."""
    names: dict[Path, str] = {}
    seen: set[Path] = set()
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder: --runs takes folders of runs, as outputs/sweeps/…")
        for folder in sorted(_run_folders(root), key=lambda each: (str(each.parent), natural(each))):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                below = folder.relative_to(root).as_posix() if len(roots) == 1 else folder.as_posix()
                names[folder] = folder.name if below == "." else below
    return names


def _run_folders(root: Path) -> Iterator[Path]:
    yield from {path.parent for name in MARKS for path in root.rglob(name)}


def _damage(folder: Path) -> str | None:
    """Say what keeps a folder's run from being compared, None if nothing does."""
    if (why := damage(folder)) is not None:
        return why
    if (result := finished_result(folder)) is not None:
        for path in NEEDED:
            if look_up(result, path) is None:
                return f"{RESULT} has no {path}: it is of another version, or the score is no number"
    return None
