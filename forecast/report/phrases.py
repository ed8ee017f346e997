"""Numbers and names in the report."""

import math
from collections.abc import Sequence

from forecast.common.text import NONE, three_digits
from forecast.report.comparisons import MSE, NOT_SHOWN, NOT_TESTED, ONE_SEED, UNDECIDED, Comparison
from forecast.report.groups import Setting

MINUS = "\N{MINUS SIGN}"


def rounded(value: float) -> str:
    """Format with three digits, a dash for NaN."""
    return NONE if math.isnan(value) else three_digits(value)


def score(value: float) -> str:
    """Format with four decimals, a dash for NaN."""
    return NONE if math.isnan(value) else f"{value:.4f}"


def with_deviation(value: float, deviation: float) -> str:
    """Format a score with its standard deviation over the seeds, if there are several."""
    return score(value) if math.isnan(deviation) else f"{value:.4f} ± {deviation:.4f}"


def signed(value: float) -> str:
    """Format with a sign and one decimal, up to four where fewer would round to 0; a dash for NaN."""
    if math.isnan(value):
        return NONE
    places = next((count for count in range(1, 5) if round(value, count)), 0)
    return f"{value:+.{places}f}".replace("-", MINUS) if places else "+0.0"


def two_decimals(value: float) -> str:
    """Format with two decimals, without a sign for zero."""
    return f"{value:z.2f}".replace("-", MINUS)


def interval_cell(comparison: Comparison) -> str:
    """Return the interval of a difference in per cent, with signs; a dash without one."""
    low, high = comparison.range_per_cent
    return NONE if math.isnan(low) else f"{signed(low)} to {signed(high)}"


def interval_words(comparison: Comparison) -> str:
    """Return the interval for a sentence: its level, its ends, and whether it may be too narrow."""
    capped = comparison.interval is not None and comparison.interval.capped
    words = f"{100 * comparison.level:.4g} % interval {interval_cell(comparison)} %"
    return words + (", perhaps too narrow" if capped else "")


def named(setting: Setting) -> str:
    """Return a setting's name in a sentence."""
    return f"`{setting.arm}` at look-back {setting.look_back:,}"


def listed(words: Sequence[str]) -> str:
    """Join words for a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def quoted(names: Sequence[str]) -> str:
    """Join names for a sentence, each in backticks."""
    return listed([f"`{name}`" for name in names])


def quality_words(comparison: Comparison, role: str = "") -> str:
    """Return how a setting's error compares with another's, as a clause; `role` goes before the other's name."""
    own, against = f"`{comparison.setting.arm}`", f"{role}`{comparison.against.arm}`"
    size = f"{signed(abs(comparison.per_cent)).removeprefix('+')} %"
    interval = interval_words(comparison)
    if comparison.verdict == NOT_TESTED:
        errors = [score(setting.mean(MSE)) for setting in (comparison.setting, comparison.against)]
        return f"{own} has test MSE {errors[0]}, {against} {errors[1]}, not tested: {comparison.why}"
    if comparison.verdict == NOT_SHOWN:
        return (
            f"{own} and {against} are statistically indistinguishable ({signed(comparison.per_cent)} % MSE, {interval})"
        )
    more = "higher" if comparison.seems_worse else "lower"
    of = "two runs" if len(comparison.setting.runs) == len(comparison.against.runs) == 1 else "runs"
    limit = {ONE_SEED: f", true of these {of} only", UNDECIDED: ", not decided"}.get(comparison.verdict, "")
    return f"{own} has {size} {more} error than {against} ({interval}){limit}"
