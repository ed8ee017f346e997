"""Whose clock the calendar of a model is read by: that of its training, whatever clock a later file goes by."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from forecast.data.frequency import fixed_step, frequency_offset
from forecast.errors import InputError

UNKNOWN = "?"
"""The zone of a run that did not write down which one its times were in."""

_DAY = 86_400 * 10**9  # nanoseconds


@dataclass(frozen=True)
class Clock:
    """The time zone of training, and whether it matters.

    Parameters
    ----------
    zone
        As pandas reads it, such as Europe/Berlin or UTC+01:00; None: times without one; or `UNKNOWN`.
    frequency
        The step of the rows. Days and longer are steps of the local calendar, in whatever zone.
    """

    zone: str | None
    frequency: str

    @classmethod
    def of(cls, index: pd.DatetimeIndex, frequency: str) -> "Clock":
        """Give the clock of these times."""
        zone = None if index.tz is None else str(index.tz)
        return cls(zone if _is_readable(zone) else UNKNOWN, frequency)

    def __post_init__(self) -> None:
        if self.zone != UNKNOWN and not _is_readable(self.zone):
            raise ValueError(f"{self.zone!r} is no time zone")

    def check(self, index: pd.DatetimeIndex, source: str) -> None:
        """Refuse times of which nobody can say what they are on this clock.

        Raises
        ------
        InputError
            If either these times or those of training have a zone, and the others none.
        """
        if self._is_any or (index.tz is None) == (self.zone is None):
            return
        if index.tz is None:
            raise InputError(
                f"{source}: its times have no zone, those of training are {self.zone}: give them an offset"
            )
        raise InputError(
            f"{source}: its times have a zone, those of training have none: write them as training had them"
        )

    def face(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Give the same instants as this clock shows them."""
        return index if self._is_any or index.tz is None else index.tz_convert(self.zone)

    @cached_property
    def _is_any(self) -> bool:
        step = fixed_step(frequency_offset(self.frequency))
        return self.zone == UNKNOWN or step is None or step % _DAY == 0


def _is_readable(zone: str | None) -> bool:
    try:
        pd.Timestamp(0).tz_localize(zone)
    except (ValueError, LookupError, TypeError, OSError):
        return False
    return True
