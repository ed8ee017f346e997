"""The times of a sweep's settings, taken in turn: `timing.json` in its folder, as it is read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import flatten, look_up, read_json

TIMING = "timing.json"
"""What the settings took in turn, in the folder of a sweep."""

COSTLY = ("attention", "decoder_attention", "cross_attention", "model", "data", "context_length", "horizon", "loss")
"""Root keys of a configuration that change what a step or a forecast takes."""

COSTLY_KEYS = (
    *(f"training.{key}" for key in ("batch_size", "evaluation_batch_size", "activation_checkpointing", "compile")),
    "optimizer._target_",
)
"""Keys of other groups that do."""


@dataclass(frozen=True)
class Stretch:
    """Passes of one setting, one after the other.

    Parameters
    ----------
    windows
        Windows that went through them.
    wall_seconds, cpu_seconds
        Time on the wall, and processor time of the process.
    disturbed
        Whether other processes took processors that it needed; None where nobody can say.
    """

    windows: int
    wall_seconds: float
    cpu_seconds: float
    disturbed: bool | None

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Stretch":
        """Return a stretch of the file.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is not what was written.
        """
        windows, wall = int(content["windows"]), float(content["wall_seconds"])
        if windows < 1 or not 0 < wall < float("inf") or content["disturbed"] not in (True, False, None):
            raise ValueError
        return cls(windows, wall, float(content["cpu_seconds"]), content["disturbed"])


Turns = dict[str, dict[str, list[Stretch]]]
"""By the key of a setting and by `train` or `inference`: a stretch for each round, in their order."""


def cost_key(result: Mapping[str, Any]) -> str:
    """Return what runs have in common whose steps and forecasts take as long."""
    flat = flatten(result["config"])
    kept = {key: flat[key] for key in flat if key.split(".")[0] in COSTLY or key in COSTLY_KEYS}
    ran = [look_up(result, path) for path in ("device", "precision", "data.sha256")]
    return json.dumps([kept, *ran], sort_keys=True)


def read_turns(sweep: Path) -> Turns:
    """Return what the settings of a sweep took in turn, nothing where they were not timed."""
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
