"""The coverages that a run knows of its intervals, and a warning where one differs from its level."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecast.common.text import counted
from forecast.evaluation.holdout import IN_SAMPLE
from forecast.evaluation.interval_scores import LEVELS

TOLERANCE = 0.15
"""A coverage differs from a level c if it is further away than this times sqrt(c (1 - c)).

That is 6 points at 80 % and 3.3 points at 95 %: the standard error of the coverage of about 44 independent windows.
"""

SOURCES = {"held_out_coverage": "held-out validation", "test_coverage": "the test split"}
"""Windows of a known coverage, by the key of its facts."""


@dataclass(frozen=True)
class Coverage:
    """The share of targets that a central interval of `percent` held, on the windows `where`."""

    percent: int
    share: float
    where: str

    @property
    def distance(self) -> float:
        """Distance from the level, in standard deviations of a single target."""
        level = self.percent / 100
        return abs(self.share - level) / math.sqrt(level * (1 - level))

    @property
    def words(self) -> str:
        """The coverage as a clause."""
        return f"{self.percent} % covered {100 * self.share:.1f} % of {self.where}"

    @property
    def warning(self) -> str | None:
        """A warning if the coverage differs from the level by more than `TOLERANCE`, else None."""
        if self.distance <= TOLERANCE:
            return None
        kind = "narrow" if self.share < self.percent / 100 else "wide"
        return f"{self.percent} % intervals were too {kind} on {self.where}: they covered {100 * self.share:.1f} %"


def coverage_facts(result: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Return the known coverages of a run by the keys of `SOURCES`, each by its level; None where unknown.

    Windows that selected the model and calibrated its intervals say nothing, so without a test split only held-out
    windows count.
    """
    has_test = (result["data"].get("scored_split") or "test") == "test"
    parts = {"held_out_coverage": result["validation"], "test_coverage": result["test"] if has_test else {}}
    scores = {key: part.get("intervals") or {} for key, part in parts.items()}
    return {key: {str(level): own.get(f"coverage_{level}") for level in LEVELS} for key, own in scores.items()}


def worst(facts: Sequence[Mapping[str, Any]], levels: Sequence[float]) -> list[Coverage]:
    """Return the known coverage furthest from its level, of each of `LEVELS` that is nearest to one of `levels`.

    `facts` are the facts of one or several runs, as of `coverage_facts`. A level of unknown coverage is left out.
    """
    nearest = {min(LEVELS, key=lambda known: abs(known - level)) for level in levels}
    found = []
    for percent in sorted(nearest):
        known = [
            Coverage(percent, share, where)
            for run in facts
            for key, where in SOURCES.items()
            if (share := (run.get(key) or {}).get(str(percent))) is not None
        ]
        found += [max(known, key=lambda coverage: coverage.distance)] if known else []
    return found


def coverage_warnings(facts: Sequence[Mapping[str, Any]], levels: Sequence[float]) -> list[str]:
    """Return the warnings of the `worst` coverages."""
    return [text for coverage in worst(facts, levels) if (text := coverage.warning) is not None]


def calibrating_windows(calibration: Mapping[str, Any]) -> str:
    """Return which windows calibrated the intervals of a run, from the `calibration` of its result."""
    windows, stored = calibration["windows"], calibration.get("stored", calibration["windows"])
    training = calibration.get("training_windows", 0)
    count = f"{windows:,}" if training or stored == windows else f"{stored:,} of {windows:,}"
    selected = ", which also selected the model" if calibration["method"] == IN_SAMPLE else ""
    more = f"{',' if selected else ''} and {counted(training, 'training window')}" if training else ""
    return f"{count} validation {'window' if windows == 1 else 'windows'}{selected}{more}"
