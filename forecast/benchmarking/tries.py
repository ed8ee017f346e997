"""What tries a look-back: in this process on a GPU, in one of its own on a CPU, and not at all where it is foretold."""

from collections.abc import Callable
from dataclasses import replace

from forecast.benchmarking.child import try_in_child
from forecast.benchmarking.room import Earlier, too_long
from forecast.benchmarking.search import Trial
from forecast.benchmarking.trial import Ask, try_here


def attempt_of(ask: Ask, limit: float, say: Callable[[str], None]) -> Callable[[int], Trial]:
    """Give what tries a look-back in place of that of `ask`.

    Parameters
    ----------
    ask : Ask
        The mechanism and all that stays the same.
    limit : float
        Seconds: a step that the last one that fits foretells to take longer is not made.
    say : callable
        Told before each trial.
    """
    variant = ask.variant
    fitted: list[Earlier] = []

    def attempt(look_back: int) -> Trial:
        say(f"{variant.label}: {look_back:,}")
        if fitted:
            foretold = fitted[-1].seconds_at(look_back, variant.time_cost, variant.words(causal=False))
            if reason := too_long(foretold, limit):
                return Trial(look_back, why=reason)
        asked = replace(ask, task=replace(ask.task, context_length=look_back))
        trial = try_here(asked) if ask.device.startswith("cuda") else try_in_child(asked, limit)
        if trial.fits and trial.peak_bytes is not None and trial.seconds is not None:
            fitted.append(Earlier(look_back, trial.seconds, trial.peak_bytes))
        return trial

    return attempt
