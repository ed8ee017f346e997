"""The jobs of a sweep as lines: one where a job starts and one where it has finished, in whatever process it runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.runs.rows import figures_of
from forecast.training.sweep.table import HEADINGS, cell

SHOWN = ("test_mse", "skill", "train_windows_per_s", "inference_windows_per_s", "peak_memory_mib", "fit_seconds")
"""What is shown of a job while the others run, by `HEADINGS`."""

OF_A_SEARCH = ("validation_mse", "train_windows_per_s", "inference_windows_per_s", "peak_memory_mib", "fit_seconds")
"""The same where a choice is to be made: nothing of the test part."""


class Lines:
    """Prints them.

    Parameters
    ----------
    shown
        What of a finished job, by `HEADINGS`.
    """

    def __init__(self, shown: Sequence[str] = SHOWN) -> None:
        self.shown = shown

    def starts(self, name: str, number: int, *, again: bool) -> None:
        """Say which job starts, or goes on."""
        print(f"job {number}: {name} {'goes on' if again else 'starts'}", flush=True)

    def finished(self, name: str, result: Mapping[str, Any], *, before: bool) -> None:
        """Say what a job came to, unless the run itself has said that it is an earlier one."""
        if before:
            return
        shown = ", ".join(f"{HEADINGS[key]} {text}" for key, text in cells(result, self.shown).items() if text)
        print(f"{name}: finished, {shown}", flush=True)

    def failed(self, name: str, line: str) -> None:
        """Say no more than has been said."""

    def left(self, name: str) -> None:
        """Say that a job is left for another time."""
        print(f"{name}: left, no time to begin it", flush=True)


def cells(result: Mapping[str, Any], shown: Sequence[str]) -> dict[str, str]:
    """Give the text of each figure of `shown`, empty where the result has none."""
    row = {"row": "job", **figures_of(result)}
    return {key: cell(key, row) for key in shown}
