"""The baselines that the runs of a section have scored, each once where it is the same for all."""

from dataclasses import dataclass
from typing import Any

from forecast.nested import look_up
from forecast.reporting.comparisons import MSE
from forecast.reporting.sections import Section
from forecast.table import NAMES


@dataclass(frozen=True)
class Baseline:
    """A baseline's row: its name, the look-backs of the runs it was scored beside, its part of a result."""

    name: str
    label: str
    look_backs: tuple[int, ...]
    scores: dict[str, Any]

    @property
    def mse(self) -> float:
        """The test MSE on z-scores."""
        return float(look_up(self.scores, MSE))


def baselines_of(section: Section) -> list[Baseline]:
    """Give the baselines, one row for each score that one has: the linear one may change with the look-back."""
    rows = []
    for name, title in NAMES.items():
        alike: dict[str, tuple[dict[str, Any], set[int]]] = {}
        for setting in section.settings:
            for run in setting.runs:
                scores = run.result["baselines"].get(name)
                if look_up(scores, MSE) is not None:
                    alike.setdefault(f"{look_up(scores, MSE):.6g}", (scores, set()))[1].add(setting.look_back)
        for scores, found in alike.values():
            look_backs = tuple(sorted(found))
            at = f", look-back {', '.join(f'{each:,}' for each in look_backs)}" if len(alike) > 1 else ""
            rows.append(Baseline(name, title + at, look_backs, scores))
    return rows
