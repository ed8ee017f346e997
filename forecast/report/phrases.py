"""Numbers and names in the report."""

import math
from collections.abc import Sequence

from forecast.common.text import NONE, three_digits
from forecast.report.comparisons import BETTER, MSE, NOT_TESTED, WORSE, Comparison
from forecast.report.sections import Setting

MINUS = "\N{MINUS SIGN}"


def shown(value: float) -> str:
    """Format with three digits, a dash for NaN."""
    return NONE if math.isnan(value) else three_digits(value)


def score(value: float) -> str:
    """Format with four decimals, a dash for NaN."""
    return NONE if math.isnan(value) else f"{value:.4f}"


def with_spread(value: float, spread: float) -> str:
    """Format a score with its spread over several seeds."""
    return score(value) if math.isnan(spread) else f"{value:.4f} ± {spread:.4f}"


def signed(value: float) -> str:
    """Format with a sign and one decimal, up to four where fewer would hide the side of 0; a dash for NaN."""
    if math.isnan(value):
        return NONE
    places = next((each for each in range(1, 5) if round(value, each)), 0)
    return f"{value:+.{places}f}".replace("-", MINUS) if places else "+0.0"


def interval_words(comparison: Comparison) -> str:
    """Return the interval of a difference in per cent, with signs; a dash without one."""
    low, high = comparison.range_per_cent
    return NONE if math.isnan(low) else f"{signed(low)} to {signed(high)}"


def level_words(comparison: Comparison) -> str:
    """Return the level of the interval in per cent."""
    return f"{100 * comparison.level:.6g}"


def interval_told(comparison: Comparison) -> str:
    """Return the interval in brackets for a sentence: its level, and whether it may be too narrow."""
    capped = comparison.interval is not None and comparison.interval.capped
    told = f"{level_words(comparison)} % interval {interval_words(comparison)} %"
    return told + (", perhaps too narrow: few windows" if capped else "")


def named(setting: Setting) -> str:
    """Return a setting's name in a sentence."""
    return f"`{setting.arm}` at look-back {setting.look_back:,}"


def listed(words: Sequence[str]) -> str:
    """Join words for a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def quality_words(comparison: Comparison) -> str:
    """Return how the errors of two settings compare, for the end of a sentence."""
    interval = interval_told(comparison)
    size = f"{signed(abs(comparison.per_cent)).removeprefix('+')} %"
    if comparison.verdict == BETTER:
        return f"at {size} lower error ({interval})"
    if comparison.verdict == WORSE:
        return f"at {size} higher error ({interval})"
    if comparison.verdict == NOT_TESTED:
        errors = f"{score(comparison.setting.mean(MSE))} and {score(comparison.against.mean(MSE))}"
        return f"with test MSE {errors}, a difference that was not tested ({comparison.why})"
    return f"and no difference in error is shown ({signed(comparison.per_cent)} %, {interval})"


def counted(number: int, what: str) -> str:
    """Return a number of things."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
