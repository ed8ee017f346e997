"""Runs that differ in nothing but their seed, as one: its numbers are means over them."""

from dataclasses import dataclass

import numpy as np

from forecast.common.nested import look_up
from forecast.runs.reading import FinishedRun, InTurn


def conditions_of(run: FinishedRun) -> str:
    """Give what a run's costs were measured on and with: what changes them and none of its scores, or is told so."""
    training = run.config["training"]
    processes = int(run.result.get("processes", 1))
    words = [
        str(run.result["device"]),
        *([f"{processes} processes"] if processes > 1 else []),
        str(run.result["precision"]),
        f"batches of {training['batch_size']} and {training.get('evaluation_batch_size')}",
        *(["activation checkpointing"] if training.get("activation_checkpointing") else []),
        *(["table mapped"] if look_up(run.result, "data.placement.where") == "mapped" else []),
    ]
    return ", ".join(words)


@dataclass(frozen=True)
class Setting:
    """One line of a report.

    Parameters
    ----------
    arm
        What tells it from others but for the look-back, the mechanism's name first.
    look_back
        Steps.
    runs
        One a seed.
    """

    arm: str
    look_back: int
    runs: tuple[FinishedRun, ...]

    @property
    def key(self) -> tuple[str, int]:
        """What it is known by among the settings of its data."""
        return self.arm, self.look_back

    @property
    def mechanism(self) -> str:
        """The self-attention of its encoder."""
        return str(self.runs[0].config["attention"]["name"])

    @property
    def seeds(self) -> list[int]:
        """The seeds, rising."""
        return sorted(run.result["seed"] for run in self.runs)

    @property
    def conditions(self) -> str:
        """What costs were measured on and with, of each run where they differ; under others they are not compared."""
        return " / ".join(dict.fromkeys(map(conditions_of, self.runs)))

    @property
    def is_linear_path(self) -> bool:
        """Whether validation gave no run's encoder-decoder a weight: its forecasts are the linear path's."""
        return all(run.number("model.share") == 0 for run in self.runs)

    @property
    def in_turn(self) -> InTurn | None:
        """What it took in turn with other settings; None where its runs are not of one sweep that did this."""
        first, *others = (run.in_turn for run in self.runs)
        return (
            first
            if all(first is not None and each is not None and each.sweep == first.sweep for each in others)
            else None
        )

    def values(self, path: str) -> np.ndarray:
        """Give the number of each run at a dotted path of its result."""
        return np.array([run.number(path) for run in self.runs])

    def mean(self, path: str) -> float:
        """Give the mean over the seeds, NaN where a run lacks the number."""
        return float(self.values(path).mean())

    def spread(self, path: str) -> float:
        """Give the standard deviation over the seeds (n - 1), NaN of a single one."""
        return float(self.values(path).std(ddof=1)) if len(self.runs) > 1 else float("nan")
