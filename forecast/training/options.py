"""Options of a training as Python values: the settings that they give, and the command line with the same words."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from forecast.common.conf_files import about_option, choice_files
from forecast.common.configuration import COMPLAINTS, compose_words
from forecast.common.errors import InputError
from forecast.common.settings import options_of
from forecast.data.settings import FILE, DataSettings
from forecast.runs.ensemble import MOST
from forecast.runs.settings import Settings
from forecast.tables.flaws import value_word
from forecast.training.start_from import composed, word_of

PLACES = {
    **{name: name for name in ("attention", "model", "experiment", "optimizer", "scheduler", "trainer")},
    **{name: name for name in ("callbacks", "logger", "training")},
    "decoder_attention": "attention@decoder_attention",
    "cross_attention": "attention@cross_attention",
}
"""Groups whose choice is one word, and the place of each on the command line."""

REFUSED = {
    **dict.fromkeys(("path", "source", "file_name", "url", "sha256", "about"), "the frame is the data"),
    **dict.fromkeys(("output_dir", "resume", "sweep"), "folder= names the run folder"),
}
"""Options of the command line that a call does not take, with the reason."""


@dataclass(frozen=True)
class Options:
    """Options of a training: `choices` by the group's place, and `values` by their dotted names."""

    choices: dict[str, Any]
    values: dict[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Options":
        """Return the options of a call; raise InputError for a name or a choice that does not exist."""
        of_data = {name for name, each in options_of(DataSettings).items() if each.applies_to(FILE)}
        choices, values = dict[str, Any](), dict[str, Any]()
        for name, given in options.items():
            if name == "start_from" and (given := getattr(given, "path", given)) is None:
                raise InputError("start_from: is an ensemble, or no model: give one run, such as a member")
            if name == "start_from" and isinstance(given, Path):
                given = word_of(given)
            value = _plain(name, given)
            if name in REFUSED:
                raise InputError(f"{name}: {REFUSED[name]}: leave it out")
            if name in PLACES and not isinstance(value, dict):
                choices[PLACES[name]] = _checked_choice(name, value)
            elif name in of_data and name != "data":
                values[f"data.{name}"] = value
            elif isinstance(value, dict):
                if name in PLACES and "name" in value:
                    choices[PLACES[name]] = _checked_choice(name, value.pop("name"))
                values |= {f"{name}.{key}": one for key, one in value.items()}
            else:
                values[name] = value
        return cls(choices, values)

    def with_split(self, split: Mapping[str, int]) -> "Options":
        """Return the options with the split of a table of training and validation rows."""
        for name in ("data.split", "data.last_rows"):
            if name in self.values:
                raise InputError(f"{name.removeprefix('data.')}: validation= splits the rows: leave one of them out")
        return replace(self, values={**self.values, "data.split": dict(split)})

    def settings(self, table: Path) -> tuple[Settings, int]:
        """Return the settings of a training on a file, and the number of seeds to train."""
        config = compose_words(["data=csv", *(f"{place}={_text(choice)}" for place, choice in self.choices.items())])
        for key, value in {"data.path": str(table), **self.values}.items():
            try:
                OmegaConf.update(config, key, value, merge=True)
            except COMPLAINTS:
                raise InputError(f"{key}: {about_option(key)}") from None
        plain = composed(config, self.words(table))
        members = plain["ensemble"]
        if isinstance(members, bool) or not isinstance(members, int) or not 1 <= members <= MOST:
            raise InputError(f"ensemble={members}: must be a whole number from 1 to {MOST:,}")
        return Settings.parse({**plain, "ensemble": 1}), members

    def words(self, table: Path) -> list[str]:
        """Return the words of the command line that trains the same."""
        chosen = [f"{place}={_text(choice)}" for place, choice in self.choices.items()]
        values = [f"{key}={_text(value)}" for key, value in self.values.items()]
        return ["data=csv", value_word("data.path", str(table)), *chosen, *values]


def _checked_choice(name: str, value: Any) -> Any:
    """Return the choice of a group: a word, None, or the words of several loggers."""
    files = [file.stem for file in choice_files(PLACES[name].partition("@")[0])]
    words = value if isinstance(value, list) and name == "logger" else [value]
    if wrong := [word for word in words if word is not None and word not in files]:
        raise InputError(f"{name}={wrong[0]!r}: choose one of {', '.join(files)}")
    return value


def _plain(name: str, value: Any) -> Any:
    """Return a value as text, number, list or dict; raise InputError if it is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        value = str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value.replace("${", "\\${")  # else OmegaConf would interpolate
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray | pd.Index | pd.Series):
        return [_plain(name, one) for one in value]
    raise InputError(f"{name}={value!r}: must be text, a number, a list or a dict")


def _text(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str):
        return value_word("", value.replace("\\${", "${")).removeprefix("=")
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
