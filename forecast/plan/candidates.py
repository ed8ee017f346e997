"""Mechanisms of a plan, each with the configuration of its training."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from forecast import attention
from forecast.attention._parsing import FUSED, parse, split_word
from forecast.common.configuration import compose_words
from forecast.common.errors import InputError
from forecast.data.sources import Source
from forecast.runs.settings import Settings, follow_table
from forecast.training.start_from import composed

CHOICE, START = "attention=", "start_from="
OPTION = "--mechanisms"


@dataclass(frozen=True)
class Candidate:
    """A mechanism with its label and the settings of its training, or None and the reason `why`."""

    label: str
    settings: Settings | None
    why: str = ""

    @property
    def config(self) -> dict[str, Any] | None:
        """The configuration as plain values, for the measuring process."""
        return None if self.settings is None else self.settings.plain

    def at_table(self, source: Source) -> "Candidate":
        """Return this candidate with the lengths that follow from the table."""
        return self if self.settings is None else replace(self, settings=follow_table(self.settings, source)[0])


def candidates_of(overrides: Sequence[str], mechanisms: Sequence[str]) -> list[Candidate]:
    """Return the candidates: `mechanisms` such as `probsparse:factor=3`, or those in `attention=…`, or all.

    A training that begins with weights (`start_from`) has their mechanism alone.
    """
    if sweeps := [word for word in overrides if word.lstrip("+~").startswith("sweep.")]:
        raise InputError(f"{sweeps[0]}: a plan is about one training: leave it out")
    words = [word for word in overrides if not word.startswith(CHOICE)]
    chosen = [name for word in overrides if word.startswith(CHOICE) for name in word.removeprefix(CHOICE).split(",")]
    if chosen and mechanisms:
        raise InputError(f"{CHOICE}{','.join(chosen)}, {OPTION} {' '.join(mechanisms)}: use only one of the two")
    for name in chosen:
        if name not in attention.available():
            raise InputError(f"{CHOICE}{name}: choose from {', '.join(attention.available())}")
    begins = any(word.lstrip("+").startswith(START) and word != f"{START}null" for word in words)
    if begins and not chosen and not mechanisms:
        config = composed(compose_words(words), words)
        candidates = [Candidate(str(config["attention"]["name"]), Settings.parse(config))]
    else:
        named = dict.fromkeys(chosen or mechanisms or attention.available())
        candidates = [_candidate(word, words) for word in named]
    for candidate in candidates:
        if candidate.settings is not None:
            _check(candidate.settings)
    if all(candidate.settings is None for candidate in candidates):
        raise InputError(candidates[0].why)
    return candidates


def _candidate(word: str, overrides: Sequence[str]) -> Candidate:
    label = parse(word, OPTION).label
    name, changed = split_word(word, OPTION, FUSED)
    choice = [f"{CHOICE}{name}", *(f"attention.{key}={json.dumps(value)}" for key, value in changed.items())]
    try:
        config = composed(compose_words([*overrides, *choice]), [*overrides, *choice])
    except InputError as refused:
        return Candidate(label, None, str(refused))
    return Candidate(label, Settings.parse(config))


def _check(settings: Settings) -> None:
    """Refuse unavailable devices, resumed trainings and several processes."""
    settings.trainer.device()
    if settings.resume:
        raise InputError(f"resume={settings.resume}: a plan is for a training from the start: leave it out")
    for key in ("devices", "num_nodes"):
        if (value := getattr(settings.trainer, key)) != 1:
            raise InputError(f"trainer.{key}={value}: a plan is measured in one process: set it to 1")
