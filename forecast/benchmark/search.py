"""The largest look-back that fits: doubling until one does not, then halving the gap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MEMORY, TIME, REFUSED = "memory", "time", "refused"
"""Why a trial failed, as its words begin."""


@dataclass(frozen=True)
class Trial:
    """A look-back that was tried: whether a training step fits, what it took, or why it does not.

    Attributes
    ----------
    peak_bytes, seconds
        Of the step; None where it did not come to its end.
    why
        Empty where it fits, else words that begin with `memory`, `time` or `refused`.
    """

    look_back: int
    peak_bytes: int | None = None
    seconds: float | None = None
    why: str = ""

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return not self.why


def search(attempt: Callable[[int], Trial], *, shortest: int, longest: int, within: float) -> list[Trial]:
    """Try look-backs until the largest that fits is known; give all trials in the order in which they were made.

    Parameters
    ----------
    attempt : callable
        Tries a look-back.
    shortest, longest : int
        Where doubling begins, and what it does not pass.
    within : float
        The search ends once the shortest that does not fit is at most this share above the longest that does.
        Memory alone is searched for: a trial that fails for any other reason ends it.
    """
    trials = [attempt(shortest)]
    while trials[-1].fits and trials[-1].look_back < longest:
        trials.append(attempt(min(2 * trials[-1].look_back, longest)))
    while (middle := _middle(trials, within)) is not None:
        trials.append(attempt(middle))
    return trials


def largest(trials: Sequence[Trial]) -> Trial | None:
    """Give the trial of the largest look-back that fits, None where none does."""
    return max((trial for trial in trials if trial.fits), key=lambda trial: trial.look_back, default=None)


def smallest_failed(trials: Sequence[Trial]) -> Trial | None:
    """Give the trial of the smallest look-back that does not fit, None where all do."""
    return min((trial for trial in trials if not trial.fits), key=lambda trial: trial.look_back, default=None)


def _middle(trials: Sequence[Trial], within: float) -> int | None:
    """Give the look-back in the middle of the gap, None where the search is over."""
    found, failed = largest(trials), smallest_failed(trials)
    if found is None or failed is None:
        return None
    if any(not trial.why.startswith(MEMORY) for trial in trials if not trial.fits):
        return None
    gap = failed.look_back - found.look_back
    return None if gap <= max(1, within * found.look_back) else found.look_back + gap // 2
