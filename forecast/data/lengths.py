"""Look-back, horizon and patches that follow from the step of a table and its number of rows."""

from dataclasses import dataclass

from forecast.data.calendar import seasonal_period
from forecast.data.split import Split

LONGEST_LOOK_BACK, LONGEST_PATCH = 512, 24
"""Lengths in a table that is long enough."""

LEAST_UNIT = 4
"""Smallest unit of the horizon and of the look-back."""

UNITS = 4
"""Most units in a horizon: 96 hours, 28 days, 52 weeks."""

BLOCKS = 8
"""Validation blocks beside a horizon of several units: fewer never prefer trained weights to the start."""

LEAST_WINDOWS = 4
"""Fewest validation windows: 80 % intervals need the residuals of four."""

LOOK_BACKS = 6
"""Look-backs that the training split holds; with fewer its windows differ too little."""

SEASONS = (1, 2)
"""Seasons of a look-back that is longer because of them, if the training split holds it three times."""

PATCHES, MANY_PATCHES = 4, 16
"""Fewest patches in a look-back, and the number from which a patch may be longer than the unit."""


@dataclass(frozen=True)
class Lengths:
    """Lengths of a model in steps; None: to be chosen."""

    context_length: int | None = None
    horizon: int | None = None
    patch_length: int | None = None
    stride: int | None = None


def choose_lengths(given: Lengths, frequency: str, split: Split) -> Lengths:
    """Return the lengths with those that are None chosen for a table with this step and split.

    The season is that of the seasonal naive forecast: a day for shorter steps, a week for days, a year for longer
    steps. The *unit* is its largest divisor from 4 to 24: 24 hours, 7 days, 13 weeks, 12 months, 4 years.

    horizon
        One unit, or up to four if validation then still has 8 blocks without common targets. At most half of the
        validation rows, and four validation windows are left.
    context_length
        A sixth of the training rows in whole units, at most 512. One or two seasons if that is longer, and at most a
        third of the training rows. At least the horizon, up to 512, and two patches, if half of the training rows
        allow. At least one given patch.
    patch_length
        The unit, or a multiple up to 24 if the look-back holds 16 of it. In a look-back of fewer than four units, the
        unit's largest divisor that it holds four times, at least 2.
    stride
        The patch length.

    An hourly table of at least 8,630 rows, about a year, has the look-back 512, the horizon 96 and patches of 24 steps.
    """
    season = seasonal_period(frequency)
    unit = unit_of(season)
    train = len(split.train)
    horizon = given.horizon
    if horizon is None:
        horizon = _horizon(unit, split, train - (given.context_length or 0))
    context_length = given.context_length
    if context_length is None:
        least = max(min(horizon, LONGEST_LOOK_BACK), 2 * max(given.patch_length or 0, given.stride or 0))
        chosen = max(given.patch_length or 1, _look_back(max(season, unit), unit, train, least))
        context_length = max(1, min(chosen, train - horizon))
    patch_length = given.patch_length
    if patch_length is None:
        patch_length = min(context_length, max(_patch(unit, context_length), given.stride or 0))
    stride = patch_length if given.stride is None else given.stride
    return Lengths(context_length, horizon, patch_length, stride)


def unit_of(season: int) -> int:
    """Return the largest divisor of a season from 4 to 24; without one, 4, 6 or 24 by the season."""
    if season < LEAST_UNIT:
        return -(-LEAST_UNIT // season) * season
    divisors = [number for number in range(LEAST_UNIT, LONGEST_PATCH + 1) if season % number == 0]
    return divisors[-1] if divisors else LONGEST_PATCH


def _horizon(unit: int, split: Split, most: int) -> int:
    """Return the horizon, at most `most` and what the splits hold."""
    validation = len(split.validation)
    units = max(1, min(UNITS, (validation + 1) // ((BLOCKS + 1) * unit)))
    held = [validation // 2, validation + 1 - LEAST_WINDOWS, *([len(split.test)] if split.test else [])]
    return max(1, min(units * unit, most, *held))


def _look_back(season: int, unit: int, train: int, least: int) -> int:
    """Return the look-back for a number of training rows, and for the least that the other lengths ask for."""
    share = train / LOOK_BACKS
    whole = (
        LONGEST_LOOK_BACK
        if share >= LONGEST_LOOK_BACK
        else max(unit, min(round(share / unit) * unit, LONGEST_LOOK_BACK))
    )
    seasons = [number * season for number in SEASONS if number * season <= min(LONGEST_LOOK_BACK, train // 3)]
    return max(whole, *seasons, min(least, train // 2))


def _patch(unit: int, context_length: int) -> int:
    if context_length < PATCHES * unit:
        divisors = [number for number in range(2, unit + 1) if unit % number == 0]
        return max([number for number in divisors if PATCHES * number <= context_length], default=min(divisors))
    multiples = range(unit, LONGEST_PATCH + 1, unit)
    return max([number for number in multiples if MANY_PATCHES * number <= context_length], default=unit)
