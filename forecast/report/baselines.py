"""The baselines that the runs of a section have scored, each once where it is the same for all."""

from dataclasses import dataclass
from typing import Any

from forecast.common.nested import look_up
from forecast.evaluation.metrics import skill
from forecast.report.comparisons import MSE
from forecast.report.sections import Section
from forecast.runs.table import NAMES

LINEAR = "linear"


@dataclass(frozen=True)
class Baseline:
    """A baseline's row: its name, what it is called, its part of a result, its skill on test (NaN without a season)."""

    name: str
    label: str
    scores: dict[str, Any]
    skill: float

    @property
    def mse(self) -> float:
        """The test MSE on z-scores."""
        return float(look_up(self.scores, MSE))


def baselines_of(section: Section) -> list[Baseline]:
    """Give the baselines, one row for each score that one has: the linear one may change with the look-back.

    The linear one is fitted on a look-back of its own, no longer than it can take: that is the one it is told by.
    """
    rows = []
    for name, title in NAMES.items():
        alike: dict[str, tuple[dict[str, Any], float, set[int]]] = {}
        for setting in section.settings:
            for run in setting.runs:
                scores = run.result["baselines"].get(name)
                if (mse := look_up(scores, MSE)) is not None:
                    gain = skill(mse, run.number(f"baselines.seasonal_naive.{MSE}"))
                    seen = look_up(run.result, "linear_fit.look_back") if name == LINEAR else None
                    alike.setdefault(f"{mse:.6g}", (scores, gain, set()))[2].add(seen or setting.look_back)
        for scores, gain, look_backs in alike.values():
            at = f", look-back {', '.join(f'{each:,}' for each in sorted(look_backs))}" if len(alike) > 1 else ""
            rows.append(Baseline(name, title + at, scores, gain))
    return rows
