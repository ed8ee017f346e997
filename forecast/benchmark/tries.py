"""What tries a look-back: in this process on a GPU, in one of its own on a CPU, and not at all where it is foretold."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from forecast.attention._mechanisms import Variant
from forecast.benchmark.child import try_in_child
from forecast.benchmark.room import Earlier, too_long
from forecast.benchmark.search import Trial
from forecast.benchmark.trial import Ask, try_here


@dataclass(frozen=True)
class Watch:
    """Who is told: `say` before each trial, `add` after it."""

    say: Callable[[str], None] = lambda _: None
    add: Callable[[Variant, Trial], None] = lambda _, __: None


def attempt_of(ask: Ask, limit: float, watch: Watch) -> Callable[[int], Trial]:
    """Give what tries a look-back in place of that of `ask`.

    Parameters
    ----------
    ask : Ask
        The mechanism and all that stays the same.
    limit : float
        Seconds: a step that the last one that fits foretells to take longer is not made.
    watch : Watch
        Who is told.
    """
    variant = ask.variant
    fitted: list[Earlier] = []

    def attempt(look_back: int) -> Trial:
        watch.say(f"{variant.label}: {look_back:,}")
        trial = Trial(look_back, why=foretold(look_back))
        if trial.fits:
            asked = replace(ask, task=replace(ask.task, context_length=look_back))
            trial = try_here(asked) if ask.device.startswith("cuda") else try_in_child(asked, limit)
        if trial.fits and trial.peak_bytes is not None and trial.seconds is not None:
            fitted.append(Earlier(look_back, trial.seconds, trial.peak_bytes))
        watch.add(variant, trial)
        return trial

    def foretold(look_back: int) -> str:
        if not fitted:
            return ""
        return too_long(fitted[-1].seconds_at(look_back, variant.time_cost, variant.words(causal=False)), limit)

    return attempt
