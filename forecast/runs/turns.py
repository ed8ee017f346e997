"""Interleaved timings of the settings of a sweep, from `timing.json` in its folder."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import flatten, look_up, read_json, sha256
from forecast.runs.run import RESULT

TIMING = "timing.json"

COSTLY = (
    *("attention", "decoder_attention", "cross_attention", "model", "data", "context_length", "horizon"),
    *("loss", "quantiles"),
)
"""Root keys of a configuration that affect the time of a step or a forecast."""

COSTLY_KEYS = (
    *(f"training.{key}" for key in ("batch_size", "evaluation_batch_size", "activation_checkpointing", "compile")),
    "optimizer._target_",
)
"""Keys of other groups that affect it."""

LINEAR_PATH_RATE = "training.linear_path_rate"
"""A rate of 0 saves the step of the linear path; other rates cost the same."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive passes of one setting over `windows` windows: wall-clock and CPU time of the process.

    `disturbed` says whether other processes took processors that it needed; None if unknown.
    """

    windows: int
    wall_seconds: float
    cpu_seconds: float
    disturbed: bool | None

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Stretch":
        """Parse a stretch of the file; raise KeyError, TypeError or ValueError if it is malformed."""
        windows, wall = int(content["windows"]), float(content["wall_seconds"])
        if windows < 1 or not 0 < wall < float("inf") or content["disturbed"] not in (True, False, None):
            raise ValueError
        return cls(windows, wall, float(content["cpu_seconds"]), content["disturbed"])


Turns = dict[str, dict[str, list[Stretch]]]
"""Stretches by setting key, then `train` or `inference`: one per round, in order."""


def cost_key(result: Mapping[str, Any]) -> str:
    """Return a key that runs share if their steps and forecasts take the same time."""
    flat = flatten(result["config"])
    costly = {key: flat[key] for key in flat if key.split(".")[0] in COSTLY or key in COSTLY_KEYS}
    costly[LINEAR_PATH_RATE] = flat.get(LINEAR_PATH_RATE) != 0
    conditions = [look_up(result, path) for path in ("device", "precision", "data.sha256")]
    return json.dumps([costly, *conditions], sort_keys=True)


def read_turns(sweep: Path) -> Turns:
    """Return the interleaved timings of a sweep, empty if there are none.

    Those of a job that was trained again since then are left out.
    """
    content = read_json(sweep / TIMING)
    try:
        return {} if content is None else _turns(content, _trained_again(content, sweep))
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        raise InputError(f"{sweep / TIMING}: not written by this program: the file is damaged") from None


def _trained_again(content: Mapping[str, Any], sweep: Path) -> set[str]:
    """Return the keys of the settings whose timed job has another result now; `results` is in their order."""
    timed = zip(content["settings"], content.get("results", {}).items(), strict=False)
    results = [(str(setting["key"]), sweep / folder / RESULT, digest) for setting, (folder, digest) in timed]
    return {key for key, path, digest in results if path.is_file() and sha256(path) != digest}


def _turns(content: Mapping[str, Any], without: Collection[str]) -> Turns:
    turns = {
        str(setting["key"]): {name: [Stretch.read(row) for row in setting[name]] for name in ("train", "inference")}
        for setting in content["settings"]
        if setting["why"] is None and str(setting["key"]) not in without
    }
    if len({len(stretches) for setting in turns.values() for stretches in setting.values()}) > 1:
        raise ValueError("unequal numbers of rounds")
    return turns
