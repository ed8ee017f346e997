"""Days of a local calendar, whose midnights a clock change may skip or bring twice."""

from datetime import tzinfo

import numpy as np
import pandas as pd

_INSTANT = pd.Timedelta(1, "ns")


def on_the_wall(times: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Give what a calendar on the wall has, times without a zone; a midnight that was skipped is a midnight there.

    Parameters
    ----------
    times
        With a zone. The first instant after a skipped hour stands for the first that was skipped.
    """
    shown, before = times.tz_localize(None), (times - _INSTANT).tz_localize(None) + _INSTANT
    return pd.DatetimeIndex(np.minimum(shown.as_unit("ns").asi8, before.as_unit("ns").asi8).view("M8[ns]"))


def from_the_wall(times: pd.DatetimeIndex, zone: tzinfo) -> pd.DatetimeIndex:
    """Give the instants of times on the wall: one that was skipped is when the clock goes on, of two the first."""
    return times.tz_localize(zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")
