"""The times of a sweep's settings, measured in turn, from `timing.json` in its folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import flatten, look_up, read_json

TIMING = "timing.json"

COSTLY = ("attention", "decoder_attention", "cross_attention", "model", "data", "context_length", "horizon", "loss")
"""Root keys of a configuration that change the time of a step or a forecast."""

COSTLY_KEYS = (
    *(f"training.{key}" for key in ("batch_size", "evaluation_batch_size", "activation_checkpointing", "compile")),
    "optimizer._target_",
)
"""Keys of other groups that change it."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive passes of one setting over `windows` windows: wall-clock and processor time of the process.

    `disturbed` says whether other processes took processors that it needed; None where unknown.
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
"""By setting key, then `train` or `inference`: one stretch per round, in order."""


def cost_key(result: Mapping[str, Any]) -> str:
    """Return a key that runs share if their steps and forecasts cost the same time."""
    flat = flatten(result["config"])
    kept = {key: flat[key] for key in flat if key.split(".")[0] in COSTLY or key in COSTLY_KEYS}
    ran = [look_up(result, path) for path in ("device", "precision", "data.sha256")]
    return json.dumps([kept, *ran], sort_keys=True)


def read_turns(sweep: Path) -> Turns:
    """Return the times of a sweep's settings in turn, empty if they were not timed."""
    content = read_json(sweep / TIMING)
    try:
        return {} if content is None else _turns(content)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        raise InputError(f"{sweep / TIMING}: is not what the program writes: the file is damaged") from None


def _turns(content: Mapping[str, Any]) -> Turns:
    made = {
        str(setting["key"]): {name: [Stretch.read(each) for each in setting[name]] for name in ("train", "inference")}
        for setting in content["settings"]
        if setting["why"] is None
    }
    if len({len(stretches) for setting in made.values() for stretches in setting.values()}) > 1:
        raise ValueError("not as many rounds of each")
    return made
