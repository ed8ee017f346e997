"""Run folders with made-up results, in the format that the program writes and a report reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from forecast.common.files import write_sealed
from forecast.common.timing import Load
from forecast.report.groups import RunGroup
from forecast.runs.turns import TIMING, cost_key
from tests.support.small import compose, seal

HORIZON, WINDOWS, TRAIN_WINDOWS = 96, 2000, 8000
START = "2017-07-01"

CONFIG = compose("data=etth1", "data.path=ETTh1.csv", "training.precision=32-true", "model.linear_path=false")


QUIET, BUSY = Load(50.0, 95.0, 0.5, 0.6), Load(50.0, 60.0, 35.0, 38.0)
"""Loads of a machine with two processors."""


def correlated(seed: int, count: int = WINDOWS, phi: float = 0.98) -> np.ndarray:
    """Return an autoregression with coefficient `phi`, mean 0 and variance 1."""
    draws = np.random.default_rng(seed).standard_normal(count)
    draws[1:] *= np.sqrt(1 - phi**2)
    return np.asarray(lfilter([1.0], [1.0, -phi], draws))


def errors(level: float, own: int, *, spread: float = 0.015, count: int = WINDOWS) -> np.ndarray:
    """Return window errors around `level`: a difficulty common to all models times a model's noise with seed `own`."""
    difficulty = np.exp(0.4 * correlated(999, count))
    return np.asarray(level * difficulty / difficulty.mean() * (1 + spread * correlated(own, count)))


def result_of(
    mechanism: str = "full",
    look_back: int = 512,
    seed: int = 1,
    *,
    mse: float = 0.4,
    train: float = 100.0,
    inference: float = 400.0,
    memory: float = 700.0,
    steps: int = 500,
    best_step: int = 400,
    linear: float = 0.38,
    config: Mapping[str, Any] | None = None,
    windows: int = WINDOWS,
    mixing_weight: float | None = None,
    load: Mapping[str, Load] | None = None,
) -> dict[str, Any]:
    """Return the content of a `result.json`; `train` and `inference` are windows per second, `memory` is MiB.

    `load` is the machine's load during `train` and `inference`; the default is a quiet machine.
    """
    full_config = {**deepcopy(CONFIG), "attention": {"name": mechanism}, "context_length": look_back, "seed": seed}
    for path, value in (config or {}).items():
        *groups, key = path.split(".")
        node = full_config
        for group in groups:
            node = node[group]
        node[key] = value
    return {
        "command": f"python train.py attention={mechanism} context_length={look_back} seed={seed} data=etth1",
        "config": full_config,
        "seed": seed,
        "status": "finished",
        "device": "A processor, 2 threads",
        "processes": 1,
        "precision": "32-true",
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
        "commit": "fbc11413b8ef52d752ec155d420b6ac13c27f97b",
        "data": {
            "name": full_config["data"]["name"],
            "path": "ETTh1.csv",
            "sha256": "f18d",
            "rows": 17420,
            "channels": ["OT"],
            "targets": ["OT"],
            "frequency": "h",
            "first_test_target": f"{START} 00:00:00",
            "evaluation_stride": 1,
            "windows": {"train": TRAIN_WINDOWS, "validation": 2785, "test": windows},
            "windows_left_out": {"train": 0, "validation": 0, "test": 0},
        },
        "model": {"parameters": 100_000, "steps": steps, "best_step": best_step, "mixing_weight": mixing_weight},
        "speed": {
            "train_windows_per_s": train,
            "inference_windows_per_s": inference,
            "peak_memory_mib": memory,
            "fit_seconds": 60.0,
            "step_ms_p50": 12.0,
            "step_ms_p95": 14.0,
            **(load or {}).get("train", QUIET).figures("train"),
            **(load or {}).get("inference", QUIET).figures("inference"),
        },
        **_scores(mse, skill=1 - mse / 0.5),
        "linear_path": None,
        "baselines": {"last_value": _scores(1.3), "seasonal_naive": _scores(0.5), "linear": _scores(linear)},
    }


def _scores(mse: float, **more: float) -> dict[str, Any]:
    part = {"scaled": {"mse": mse, "mae": mse / 2}, "original": {"mse": 100 * mse, "mae": 5 * mse}, **more}
    return {"validation": deepcopy(part), "test": deepcopy(part)}


def write_turns(
    sweep: Path, times: Mapping[tuple[str, int], Sequence[float]], *, disturbed: Sequence[int] = ()
) -> None:
    """Write the interleaved times of the runs below `sweep`: mechanism and look-back → milliseconds per round.

    A forecast takes half as long as a training step. `disturbed` are the numbers of disturbed rounds.
    """
    settings: dict[str, dict[str, Any]] = {}
    for path in sorted(sweep.glob("*/result.json")):
        result = json.loads(path.read_text())
        rounds = times.get((result["config"]["attention"]["name"], result["config"]["context_length"]))
        if rounds is not None:
            stretches = {
                name: [
                    {"windows": 1000, "wall_seconds": time * part, "cpu_seconds": 0.1, "disturbed": number in disturbed}
                    for number, time in enumerate(rounds)
                ]
                for name, part in (("train", 1.0), ("inference", 0.5))
            }
            settings[cost_key(result)] = {"why": None, **stretches}
    write_sealed(sweep / TIMING, {"settings": [{"key": key, **setting} for key, setting in settings.items()]})


def no_pictures(group: RunGroup) -> Iterator[tuple[str, str, bytes]]:
    """Yield placeholders for the pictures, whose drawing is slow."""
    for cost in ("train", "inference", "memory"):
        yield f"error-{cost}", f"Error against {cost}", b"a picture"


def write_run(folder: Path, result: Mapping[str, Any], mse: np.ndarray | None = None) -> Path:
    """Write the folder of a finished run; `mse` are the errors of its hourly test windows."""
    folder.mkdir(parents=True)
    for name, content in (("result", result), ("config", result["config"])):
        (folder / f"{name}.json").write_text(json.dumps(content))
    if mse is not None:
        origins = pd.date_range(START, periods=len(mse), freq="h")
        tables = [
            pd.DataFrame({"part": part, "origin": origins, "mse": mse, "mae": mse}) for part in ("validation", "test")
        ]
        pd.concat(tables, ignore_index=True).to_parquet(folder / "errors.parquet")
    seal(folder)
    return folder


def study(root: Path, *, seeds: tuple[int, ...] = (1, 2, 3)) -> Path:
    """Write a study over mechanisms and look-backs with known differences.

    `linear` is cheaper from a look-back of about 210 on and has 3 % more error. `probsparse` is cheaper from about
    1,200 on and has the error of `full`. `mean` is the cheapest; it has the error of `full` at 96 and 10 % more beyond.
    """
    costs = {"full": (1.0, 2.0), "linear": (2.2, 1.0), "probsparse": (12.5, 1.0), "mean": (5.0, 0.8)}
    for number, (mechanism, (base, power)) in enumerate(costs.items()):
        for look_back in (96, 720, 2880):
            worse = {"linear": 1.03, "mean": 1.0 if look_back == 96 else 1.1}.get(mechanism, 1.0)
            for seed in seeds:
                level = 0.4 * worse * (1 - 0.02 * (look_back > 96))
                series = errors(level, own=10 * number + seed + look_back)
                cost = base * (look_back / 96) ** power * (1 + 0.01 * seed)
                result = result_of(
                    mechanism, look_back, seed, mse=float(series.mean()), train=1000 / cost, inference=4000 / cost,
                    memory=500 + 2 * cost, linear=0.39 if look_back == 96 else 0.375,
                )  # fmt: skip
                write_run(root / f"attention-{mechanism}_context_length-{look_back}_seed-{seed}", result, series)
    return root
