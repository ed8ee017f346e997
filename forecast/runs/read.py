"""Reading runs: one row per job of a sweep, and the finished runs below some folders for a report."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import flatten, look_up, read_json
from forecast.common.text import holds_steering
from forecast.evaluation.baselines import EVERY
from forecast.evaluation.interval_scores import REPORTED
from forecast.evaluation.metrics import RELATIVE, skill
from forecast.runs.integrity import ForeignRun
from forecast.runs.labels import data_key, unique_labels
from forecast.runs.results import wrong_kind
from forecast.runs.resume import BUDGET, FREE, FREE_TRAINING
from forecast.runs.run import CONFIG, FAILED, JOB, RESULT, damage_of_finished, finished_result
from forecast.runs.summary import NAIVE_THERE, STRETCHES, baseline_name, scored_split, typical_skill
from forecast.runs.turns import TIMING, Stretch, Turns, cost_key, read_turns

SCORES = {
    "test_mse": "test.scaled.mse",
    "test_mae": "test.scaled.mae",
    "test_mse_original": "test.original.mse",
    "test_mae_original": "test.original.mae",
    "test_rmse": "test.scaled.rmse",
    "test_rmse_original": "test.original.rmse",
    **{f"test_{name}": f"test.original.{name}" for name in RELATIVE},
    **{f"test_{name}": f"test.intervals.{name}" for name in REPORTED},
    "validation_mse": "validation.scaled.mse",
    "validation_mae": "validation.scaled.mae",
}
"""Column → dotted path in a result or in one of its baselines."""

LOAD = ("wall_seconds", "cpu_seconds", "waited_seconds", "other_cpu_seconds", "disturbed")
"""Load figures of each timed stretch; `disturbed` is 1 if other processes took processors that it needed, else 0."""

FIGURES = {
    "skill": "test.skill",
    **{
        key: f"speed.{key}"
        for key in (
            *("train_windows_per_s", "inference_windows_per_s", "step_ms_p50", "step_ms_p95", "data_wait_share"),
            *("arithmetic_share", "peak_memory_mib", "flops_per_window", "logging_share", "fit_seconds"),
            *(f"{stretch}_{name}" for stretch in STRETCHES for name in LOAD),
        )
    },
    "best_step": "model.best_step",
    "parameters": "model.parameters",
    "steps": "model.steps",
    "test_windows": "data.windows.test",
    "evaluation_stride": "data.evaluation_stride",
}
"""Column → dotted path in a model's result; an absent value is an empty cell."""

NUMBERS, COUNTS = [*SCORES, *FIGURES], ["parameters", "steps", "test_windows", "evaluation_stride"]

ALL_ALIKE = "(all alike)"
"""Label of a configuration that needs no words."""

MARKS = (JOB, CONFIG, FAILED)
"""A job's folder has at least one of these files."""

COLUMNS = [
    *("job", "configuration", "overrides", "seed", "status", "error", *NUMBERS, "scored_split", "device", "precision"),
    "folder",
    *(WITHIN := ["of", "words", "settings", "forecasts", "sha256", "baselines"]),
]
"""Columns of the table of jobs; columns of `WITHIN` are nested and not written to a file."""


def read_jobs(sweep: Path) -> pd.DataFrame:
    """Return one row per job, sorted by name: swept values, numbers, status, folder.

    A job is finished, failed (`error` says why, its numbers are empty), unfinished or damaged (`error` names the
    unreadable file). A finished job is a repeat if an earlier job has its configuration, seed, device and data. A job
    that failed because its folder holds another finished run has a second row.
    """
    folders = {path.parent for name in MARKS for path in sweep.glob(f"*/{name}")}
    return read_folders(sorted(folders, key=natural))


def read_folders(folders: Iterable[Path], *, checked: bool = False) -> pd.DataFrame:
    """Return the rows of `read_jobs` for these folders, in their order; they may belong to several sweeps.

    `checked` says that `damage`, which reads every byte of a finished run, was already called on each folder.
    """
    rows = [row for folder in folders for row in _read_job(folder, checked=checked)]
    first: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        if row.get("of") is None:
            continue
        if (other := first.setdefault((row["of"], row["seed"]), row)) is not row:
            why = f"same configuration and seed as {other['job']}, not counted"
            row |= {"of": None, "status": "repeat", "error": why}
    return pd.DataFrame(rows, columns=COLUMNS)


def figures_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a result by column, None for absent numbers; the skill of many series is the median's."""
    figures = {name: look_up(result, path) for name, path in (SCORES | FIGURES).items()}
    return figures if (typical := typical_skill(result)) is None else {**figures, "skill": typical}


def damage(folder: Path) -> str | None:
    """Return why a folder is damaged: a file that is unreadable or differs from the manifest; None if it is intact."""
    for name in (*MARKS, RESULT):
        try:
            content = read_json(folder / name)
        except (OSError, InputError):
            return f"{name} is not readable: the folder is damaged"
        if content is not None and not isinstance(content, dict):
            return f"{name} is not written by this program: the folder is damaged"
        if holds_steering(content):
            return f"{name} holds control characters: the folder is damaged"
        if name == RESULT and content is not None and (key := wrong_kind(content)) is not None:
            return f"{name} has {key} of a wrong type: the folder is damaged"
    try:
        why = damage_of_finished(folder)
    except ForeignRun as error:
        why = str(error)
    return None if why is None else why.replace(f"{folder}/", "")


def _read_job(folder: Path, *, checked: bool) -> list[dict[str, Any]]:
    if (why := None if checked else damage(folder)) is None:
        try:
            return _rows_of(folder)
        except (KeyError, TypeError, AttributeError):
            why = "its files are not written by this program: the folder is damaged"
    return [{"job": folder.name, "overrides": folder.name, "folder": str(folder), "status": "damaged", "error": why}]


def _rows_of(folder: Path) -> list[dict[str, Any]]:
    words = read_json(folder / JOB) or {"overrides": [folder.name], "configuration": [folder.name]}
    failed = read_json(folder / FAILED)
    result = finished_result(folder)
    row = {
        "job": folder.name,
        "configuration": " ".join(words["configuration"]),
        "words": words["configuration"],
        "overrides": " ".join(words["overrides"]),
        "status": "unfinished",
        "folder": str(folder),
    }
    rows = []
    if result is not None:
        figures = figures_of(result)
        facts = {key: result.get(key) for key in ("status", "seed", "device", "precision", "baselines")}
        rows.append({**row, **figures, **facts, "scored_split": scored_split(result), **_identity(result)})
    if failed is not None:
        overrides = " ".join(failed.get("overrides", words["overrides"]))
        rows.append({**row, "overrides": overrides, "status": "failed", "error": failed["error"]})
    return rows or [row]


def summarise(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per configuration: means over its seeds, standard deviations (`_sd`, with n - 1), and n.

    The baselines follow, each once if its score is the same in all jobs, then the jobs that did not finish.
    """
    finished = jobs[jobs["of"].notna()]
    rows: list[dict[str, Any]] = []
    groups = [group for _, group in finished.groupby("of", sort=False)]
    for words, group in zip(_configuration_labels(groups), groups, strict=True):
        numbers = group[NUMBERS].astype(float)
        spread = numbers.drop(columns=COUNTS).std(ddof=1).add_suffix("_sd")
        facts = {
            "configuration": words,
            "n": len(group),
            "status": " ".join(sorted(set(group["status"]))),
            **{key: group[key].iloc[0] for key in ("scored_split", "device", "precision")},
        }
        rows.append({"row": "model"} | facts | dict(numbers.mean()) | dict(spread))
    rows += _baselines(finished)
    rest = jobs[jobs["of"].isna()]
    for job in rest.to_dict("records"):
        rows.append({"row": "job", "configuration": job["overrides"], "status": job["status"], "error": job["error"]})
    measured = [name for name in NUMBERS if name not in COUNTS]
    numbers_and_spreads = [*(f"{name}{end}" for name in measured for end in ("", "_sd")), *COUNTS]
    facts_and_error = ["scored_split", "device", "precision", "error"]
    columns = ["row", "configuration", "n", "status", *numbers_and_spreads, *facts_and_error]
    return pd.DataFrame(rows, columns=columns)


def _configuration_labels(groups: Sequence[pd.DataFrame]) -> list[str]:
    """Return the words of each configuration, with device, precision or data added if the words are not unique."""
    words = [max(group["configuration"], key=len) for group in groups]  # some jobs may have fewer
    first = [group.iloc[0] for group in groups]
    facts = [
        {key: job[key] for key in ("device", "precision")} | job["settings"] | {"sha256": str(job["sha256"])[:8]}
        for job in first
    ]
    return unique_labels(words, facts)


def _baselines(finished: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row per baseline, or one per score if data, horizon or look-back differ."""
    rows = []
    for name in EVERY:
        alike: dict[str, list[pd.Series]] = {}
        for _, job in finished.iterrows():
            if scored := job["baselines"].get(name):
                alike.setdefault(f"{look_up(scored, 'test.scaled.mse'):.6g}", []).append(job)
        for group in alike.values():
            words = [job["words"] for job in group]
            shared = [word for word in words[0] if all(word in other for other in words)]
            first = group[0]["baselines"]
            naive = look_up(first.get("seasonal_naive"), SCORES["test_mse"])
            numbers = {column: look_up(first[name], path) for column, path in SCORES.items()}
            naive = look_up(first[name], NAIVE_THERE) or naive
            gain = None if naive is None else skill(numbers["test_mse"], naive)
            gain = gain if (typical := typical_skill(first[name])) is None else typical
            label = " ".join([baseline_name(name, first[name]), *(shared if len(alike) > 1 else [])])
            rows.append({"row": name, "configuration": label, **numbers, "skill": gain})
    return rows


PLACES = ("name", "path", "file_name", "url", "about", "sha256", "targets")
"""Keys of `data` that name a file and its targets; a result has the hash of the file and the list of the targets."""


def _identity(result: dict[str, Any]) -> dict[str, Any]:
    """Return the values that runs of other seeds share: configuration, device, precision and data.

    `data.perfect_foresight` is left out: it is a statement on the data and changes no number. The hash of the weights
    of a start counts, since other weights may be at its place by now.
    `forecasts` is a key of the forecast series, which runs of other configurations may share.
    """
    free = {*FREE, "evaluation", "seed"}
    aside = {f"training.{key}" for key in FREE_TRAINING if key not in BUDGET} | {"data.perfect_foresight"}
    values = flatten(result["config"]).items()
    settings = {key: value for key, value in values if key.split(".")[0] not in free and key not in aside}
    if start := look_up(result, "start_from.weights"):
        settings["start_from.weights"] = start[:8]
    sha256 = look_up(result, "data.sha256")
    told = {f"data.{key}" for key in PLACES} if sha256 else set()  # the hash and the targets tell the same
    scored = {key: value for key, value in settings.items() if key not in told}
    facts = [scored, result.get("device"), result.get("precision"), sha256, look_up(result, "data.targets")]
    of = json.dumps(facts, sort_keys=True)
    return {"of": of, "settings": settings, "forecasts": data_key(result), "sha256": sha256}


def natural(folder: Path) -> list[Any]:
    """Return a sort key for folder names that compares numbers by size."""
    pieces = re.split(r"(\d+)", folder.name)
    return [(not piece.isdecimal(), int(piece) if piece.isdecimal() else piece) for piece in pieces]


NEEDED = (
    *("command", "seed", "device", "precision", "baselines.last_value", "speed.fit_seconds"),
    *("config.attention.name", "config.context_length", "config.horizon", "config.training.batch_size"),
    *("data.name", "data.targets", "data.windows.train", "data.windows.test"),
    *("model.parameters", "model.steps", "model.best_step", "test.scaled.mse", "test.scaled.mae"),
)
"""Required values of a result; a report skips a result that lacks one and names it."""


@dataclass(frozen=True)
class InTurn:
    """Interleaved timings of a run's setting: one stretch per round, of `train` and `inference`."""

    sweep: Path
    stretches: Mapping[str, Sequence[Stretch]]


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its name in the report, its folder, its `result.json`, and the key shared with other seeds.

    `in_turn` is None if its sweep has no interleaved timings.
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
        """Return the number at a dotted path of the result, NaN if absent."""
        value = look_up(self.result, path)
        return float("nan") if value is None else float(value)


@dataclass(frozen=True)
class Found:
    """Finished runs, and the name and reason of each folder that is left out."""

    runs: tuple[FinishedRun, ...]
    left_out: tuple[tuple[str, str], ...]


def read_runs(roots: Sequence[Path]) -> Found:
    """Return the runs in and below `roots`, sorted by name; each configuration and seed counts once."""
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
    if not runs and left_out and all(why == NOT_COMPARED for _, why in left_out):
        raise InputError(
            f"{', '.join(map(str, roots))}: a report compares scores on a test split, and no run there has one: train "
            "with a test split to compare"
        )
    if not runs:
        example = f" ({left_out[0][0]}: {left_out[0][1]})" if left_out else ""
        raise InputError(
            f"{', '.join(map(str, roots))}: no finished run there{example}: train some, or name them by --runs"
        )
    return Found(tuple(runs), tuple(left_out))


def _turns_of(sweep: Path, left_out: list[tuple[str, str]]) -> Turns:
    """Return the interleaved timings of a sweep; add a damaged file to `left_out`."""
    try:
        return read_turns(sweep)
    except InputError:
        left_out.append((TIMING, "damaged: times in turn are not shown; run the command of the sweep again"))
        return {}


def _names(roots: Sequence[Path]) -> dict[Path, str]:
    """Return each run folder once with its name, relative to the root if there is only one root."""
    names: dict[Path, str] = {}
    seen: set[Path] = set()
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder: --runs takes folders of runs, as outputs/sweeps/…")
        folders = {path.parent for name in MARKS for path in root.rglob(name)}
        for folder in sorted(folders, key=lambda path: (str(path.parent), natural(path))):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                below = folder.relative_to(root).as_posix() if len(roots) == 1 else folder.as_posix()
                names[folder] = folder.name if below == "." else below
    return names


NOT_COMPARED = "has no test split: its scores are of the validation split, which selected its weights"
"""Why a report leaves a run out that was scored on validation."""


def _damage(folder: Path) -> str | None:
    """Return why a folder's run cannot be compared, None if it can."""
    if (why := damage(folder)) is not None:
        return why
    if (result := finished_result(folder)) is not None:
        for path in NEEDED:
            if look_up(result, path) is None:
                return f"{RESULT} has no {path}: it is of another version, or the score is not a number"
        if scored_split(result) != "test":
            return NOT_COMPARED
    return None
