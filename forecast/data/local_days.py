"""Days of a local calendar: the hour at which they begin, which a clock change may skip or bring twice."""

from datetime import tzinfo

import numpy as np
import pandas as pd

_DAY = 86_400 * 10**9  # nanoseconds
_INSTANT = pd.Timedelta(1, "ns")


def on_the_wall(times: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Give what a calendar on the wall has, times without a zone.

    The first instant after a clock change stands for the time of day that most of `times` have, where that was
    skipped; of times that are all of this kind, for midnight.
    """
    shown = times.tz_localize(None).as_unit("ns").asi8
    if times.tz is None:
        return pd.DatetimeIndex(shown.view("M8[ns]"))
    skipped_from = (times - _INSTANT).tz_localize(None).as_unit("ns").asi8 + 1
    after_gap = skipped_from < shown
    usual = _most_common(shown[~after_gap] % _DAY)
    meant = skipped_from // _DAY * _DAY + usual
    return pd.DatetimeIndex(
        np.where(after_gap & (skipped_from <= meant) & (meant < shown), meant, shown).view("M8[ns]")
    )


def from_the_wall(times: pd.DatetimeIndex, zone: tzinfo) -> pd.DatetimeIndex:
    """Give the instants of times on the wall: one that was skipped is when the clock goes on, of two the first."""
    return times.tz_localize(zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")


def day_begins(times: pd.DatetimeIndex) -> str:
    """Give the time of day on the wall that most of `times` have, such as 06:00:00."""
    return str(pd.Timestamp(_most_common(on_the_wall(times).asi8 % _DAY)).time())


def _most_common(nanoseconds: np.ndarray) -> int:
    """Give the one that comes most often, the smallest of several; 0 of none."""
    values, counts = np.unique(nanoseconds, return_counts=True)
    return int(values[counts.argmax()]) if len(values) else 0
