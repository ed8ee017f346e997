"""The content of `result.json`."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.common.files import flatten, look_up
from forecast.common.text import shown
from forecast.data.training_range import TrainingRange
from forecast.evaluation.adaptive import LEAST_OF_SERIES
from forecast.evaluation.baselines import EVERY
from forecast.evaluation.coverage import coverage_facts
from forecast.evaluation.evaluate import Row
from forecast.evaluation.holdout import METHODS
from forecast.evaluation.interval_scores import IntervalScores
from forecast.evaluation.limits import Limits
from forecast.evaluation.metrics import skill
from forecast.tables.panel import Ids

PARTS = ("validation", "test")

MANY = 10
"""Number of series from which the typical skill is stored too: one series may decide a mean over all."""


def assemble(
    rows: Mapping[str, Row | None],
    *,
    targets: list[str],
    scale: np.ndarray,
    facts: Mapping[str, Any],
    ids: Ids | None = None,
) -> dict[str, Any]:
    """Return the content of `result.json`.

    `rows` has `model`, `linear_path` and `BASELINES`, None if absent, and the baselines on request. The reference of
    `skill` is `seasonal_naive`, that of `skill_last_value` is `last_value`. `scale` has one standard deviation per
    target. `facts` are all other entries: command, config, data, model, speed, … `ids` are the series of a panel, of
    which the `WORST` are named.
    """
    scored = {name: None if row is None else row.scores(scale) for name, row in rows.items()}
    model = rows["model"]
    assert model is not None
    assert scored["model"] is not None
    parts: dict[str, Any] = dict(scored["model"])
    for part in PARTS:
        for key, name in (("skill", "seasonal_naive"), ("skill_last_value", "last_value")):
            if (reference := scored[name]) is not None:
                parts[part][key] = skill(parts[part]["scaled"]["mse"], reference[part]["scaled"]["mse"])
    parts["test"]["by_step"] = _by_step(rows, scale)
    if ids is None:
        parts["test"]["by_series"] = _by_series(rows, targets, scale)
    else:
        parts["test"]["worst_series"] = _worst_series(model, ids)
        parts["test"]["coverage_by_series"] = _coverage_by_series(model, ids)
    baselines = {name: scored[name] for name in EVERY if name in scored}
    naive = rows["seasonal_naive"]
    if naive is not None and (len(targets) >= MANY or ids is not None):
        for name, row in rows.items():
            if row is not None and is_on_all_windows(row.more):
                own = parts if name == "model" else scored[name]
                assert own is not None
                own["test"]["typical"] = _typical(row, naive)
    return {
        **facts,
        **parts,
        "linear_path": scored["linear_path"],
        "baselines": baselines,
        "calibration": _calibration_facts(model),
    }


def _typical(row: Row, naive: Row) -> dict[str, float]:
    """Return the skill of the median series, and the number of series with a lower MSE than the seasonal naive one."""
    own, reference = (_series_mse(each) for each in (row, naive))
    skills = [skill(*pair) for pair in zip(own, reference, strict=True)]
    known = [value for value in skills if not np.isnan(value)]
    better = sum(one < other for one, other in zip(own, reference, strict=True))
    return {"skill": float(np.median(known)) if known else float("nan"), "better": better}


def _series_mse(row: Row) -> list[float]:
    """Return the test MSE of each series, z-scores."""
    if row.test.by_id is not None:
        return list(row.test.by_id.scaled_mse().tolist())
    sums = row.test.sums
    mse: list[float] = (sums.squared.sum(0) / sums.count.sum(0)).tolist()
    return mse


def _calibration_facts(row: Row) -> dict[str, Any]:
    """Return which windows calibrate the intervals of a row, and how many of their residuals are stored."""
    assert row.calibration is not None
    return {
        "method": row.calibrated_by,
        "explanation": METHODS[row.calibrated_by],
        "windows": row.calibration_windows,
        "training_windows": row.training_windows,
        "stored": len(row.calibration.scores),
        "quantiles": list(row.calibration.trained),
        "power": 0.0 if row.adaptive is None else row.adaptive.power,
    }


def is_on_all_windows(scores: Mapping[str, Any]) -> bool:
    """Return whether a row was scored on all windows of its result, so that its errors compare with the model's."""
    return "windows" not in scores


RUN, PRETRAINED = "run", "pretrained"
"""Kinds of start besides random weights."""


def start_name(start: Mapping[str, Any] | None) -> str:
    """Return in words which weights a training began with; `start` is `start_from` of its result."""
    if not start:
        return "random weights"
    if start.get("kind") == PRETRAINED:
        return f"the pretrained network {str(start['weights'])[:8]}"
    return f"the weights of {shown(str(start['run']))}"


def forecast_facts(result: Mapping[str, Any], training: TrainingRange, limits: Limits) -> dict[str, Any]:
    """Return what a forecast says about its run, for the manifest.

    These are the start, the calibration with its known coverages, the validation MSE of each row, the range of
    training, and the limits that no forecast crosses.
    """
    rows = {"model": result, **result["baselines"]}
    return {
        "start_from": result["start_from"],
        "calibration": {
            **result["calibration"],
            **coverage_facts(result),
            "last_training_row": result["data"]["last_training_row"],
        },
        "validation_mse": {
            name: row["validation"]["scaled"]["mse"] for name, row in rows.items() if row and is_on_all_windows(row)
        },
        "training_range": training.to_dict(),
        "limits": limits.to_dict(),
    }


def _by_step(rows: Mapping[str, Row | None], scale: np.ndarray) -> list[IntervalScores]:
    model, naive = rows["model"], rows["seasonal_naive"]
    assert model is not None
    steps = model.test.by_step(scale)
    if naive is None:
        return steps
    references = naive.test.sums.by_step()
    pairs = zip(steps, references, strict=True)
    return [{**step, "skill": skill(_mse(step), reference["mse"])} for step, reference in pairs]


def _by_series(rows: Mapping[str, Row | None], targets: list[str], scale: np.ndarray) -> dict[str, IntervalScores]:
    model, naive = rows["model"], rows["seasonal_naive"]
    assert model is not None
    series = model.test.by_series(targets, scale)
    if naive is None:
        return series
    references = naive.test.sums.by_series(targets, scale)
    return {name: {**row, "skill": skill(_mse(row), references[name]["mse"])} for name, row in series.items()}


WORST, WORST_SCORES = 5, ("mase", "sql", "wape", "rmse")
"""Series of a panel that a result names, those with the largest MASE, and their scores; all are in their own file."""


def _worst_series(model: Row, ids: Ids) -> dict[str, IntervalScores]:
    """Return the scores of the series of a panel with the largest MASE, the worst first, by their ids."""
    frame = series_scores(model, ids).nlargest(WORST, "mase")
    rows = frame[list(WORST_SCORES)].to_numpy().tolist()
    finite = [[value if np.isfinite(value) else None for value in row] for row in rows]
    return {
        ids.shown(int(place)): dict(zip(WORST_SCORES, row, strict=True))
        for place, row in zip(frame.index.to_numpy(), finite, strict=True)
    }


COVERED = 0.6, 0.95
"""Coverages of the 80 % interval in a single series that are usual by chance."""


def _coverage_by_series(model: Row, ids: Ids) -> dict[str, float | None]:
    """Return deciles of the 80 % coverage of the series with enough windows, and the share of them within `COVERED`."""
    scores = series_scores(model, ids)
    horizon = len(model.test.sums.count)
    known = scores.loc[scores["targets"] >= LEAST_OF_SERIES * horizon, "coverage_80"].dropna().to_numpy()
    if not len(known):
        return {"series": 0}
    low, middle, high = np.quantile(known, [0.1, 0.5, 0.9]).tolist()
    within = float(((known >= COVERED[0]) & (known <= COVERED[1])).mean())
    return {"series": len(known), "low": low, "median": middle, "high": high, "within": within}


def series_scores(row: Row, ids: Ids) -> pd.DataFrame:
    """Return the test scores of each series of a panel: id, MASE, SQL, WAPE, RMSE, coverage, and number of targets."""
    assert row.test.by_id is not None
    columns = row.test.by_id.by_series()
    return pd.concat([ids.frame(np.arange(len(ids))), pd.DataFrame(columns)], axis=1)


def _mse(row: IntervalScores) -> float:
    mse = row["mse"]
    assert mse is not None
    return mse


def window_errors(row: Row, index: pd.DatetimeIndex) -> pd.DataFrame:
    """Return one row per window: split, origin (time of the first target), MSE and MAE on z-scores.

    In a panel, whose series of one date move together, a row has the means of the windows of one origin.
    """
    frames = []
    for part, evaluation in row.splits.items():
        columns = {"origin": index[evaluation.origin], "mse": evaluation.mse, "mae": evaluation.mae}
        frame = pd.DataFrame({"part": part, **columns})
        if evaluation.by_id is not None:  # the series of one date move together
            frame = frame.groupby(["part", "origin"], as_index=False).mean()
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the numbers depend on."""
    packages = ("torch", "lightning", "numpy", "pandas", "scikit-learn", "hydra-core")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


PROGRAM = (":/forecast", ":/conf", ":/train.py", ":/pyproject.toml")
"""Files of the program, from the root of the checkout; other files may change during a run."""


@cache
def commit(files: tuple[str, ...] = PROGRAM) -> str | None:
    """Return the checkout's commit, with `+changes` if these files differ; None outside a checkout of the package.

    Cached by the first run of a process: later commits do not change the code in memory.
    """
    folder = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != folder.parent:
            return None
        head = git("rev-parse", "HEAD")
        return head + ("+changes" if git("status", "--porcelain", "--untracked-files=no", "--", *files) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def device_name(device: torch.device) -> str:
    """Return the name of the GPU, or of the CPU with the number of threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="ascii", errors="ignore").splitlines() if information.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def command_line() -> str:
    """Return the command that started this process, quoted for a shell."""
    if sys.argv[0].startswith("forecast "):  # the console command
        return shlex.join([*sys.argv[0].split(), *sys.argv[1:]])
    script = Path(sys.argv[0])
    if script.name == "__main__.py":  # started by `python -m forecast.training`
        return shlex.join(["python", "-m", f"forecast.{script.parent.name}", *sys.argv[1:]])
    return shlex.join(["python", *sys.argv])


NUMBERS = (
    *("seed", "processes", "speed", "model", "test", "validation", "linear_path", "baselines", "linear_fit"),
    *("data.rows", "data.season", "data.windows", "data.windows_left_out", "data.evaluation_stride"),
    *("config.horizon", "config.context_length", "config.training.batch_size"),
)
"""Values and groups of values that are numbers or null."""

TEXTS = (
    *("command", "status", "device", "precision", "commit", "data.name", "data.path", "data.sha256"),
    *("calibration.method", "calibration.explanation"),
    *("data.frequency", "config.attention.name", "config.model.name"),
    *(f"start_from.{key}" for key in ("kind", "run", "weights", "pretrained_on")),
)
"""Values that are texts or null."""

LISTS = ("data.targets", "data.channels")

WHOLE = (
    *("seed", "processes", "data.rows", "data.season", "data.evaluation_stride", "model.steps", "model.best_step"),
    *("config.horizon", "config.context_length", "config.training.batch_size"),
    *("calibration.windows", "calibration.stored", "model.validation_blocks"),
)
"""Values that are whole numbers or null."""

STEPS = "test.by_step"
"""The only list of numbers: scores per horizon step."""

SHOWN = (
    *("command", "status", "config.horizon", "data.name", "data.windows.test", "model.steps", "model.best_step"),
    "speed",
)
"""Values that the lines after a training need."""

ROWS = ("linear_path", "baselines.last_value", "baselines.seasonal_naive", "baselines.linear")
"""Forecasters other than the model; a row may be null."""

SCORES = ("test.scaled.mse", "test.scaled.mae", "test.original.mse", "test.original.mae", "validation.scaled.mse")


def wrong_kind(result: Mapping[str, Any]) -> str | None:
    """Return the path of the first value of an unexpected type, None if all are valid."""
    for path in (*WHOLE, *TEXTS, *LISTS, STEPS):
        value = look_up(result, path)
        if isinstance(value, Mapping) or (path in WHOLE and not isinstance(value, int | None)):
            return path
    for path, value in flatten(result).items():
        if _is_in(path, NUMBERS) and not (_are_steps(value) if path == STEPS else _is_number(value)):
            return path
        if _is_in(path, TEXTS) and not (value is None or isinstance(value, str)):
            return path
        if _is_in(path, LISTS) and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
            return path
    groups = ("speed", "test", "validation", "baselines", "data", "config", "model", "calibration")
    if (wrong := _no_group(result, groups)) is not None:
        return wrong
    inner = _no_group(result.get("config", {}), ("data", "model", "training", "attention"))
    return None if inner is None else f"config.{inner}"


def _no_group(content: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if not isinstance(content.get(name, {}), Mapping)), None)


def lacking(result: Mapping[str, Any]) -> str | None:
    """Return the path of the first missing value that printing a finished run needs, None if all are present."""
    for path in ROWS:
        group, _, key = path.rpartition(".")
        if key not in (result.get(group, {}) if group else result):
            return path
    rows = [f"{row}." for row in ROWS if look_up(result, row) is not None]
    paths = [*SHOWN, *(f"{row}{score}" for row in ("", *rows) for score in SCORES)]
    return next((path for path in paths if look_up(result, path) is None), None)


def _is_in(path: str, groups: tuple[str, ...]) -> bool:
    return any(path == group or path.startswith(f"{group}.") for group in groups)


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (int, float))


def _are_steps(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(step, Mapping) and all(map(_is_number, step.values())) for step in value
    )
