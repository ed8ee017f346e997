"""Whose clock the calendar of a model is read by: that of its training, whatever clock a later file goes by."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from forecast.data.frequency import fixed_step, frequency_offset, is_daily
from forecast.data.local_days import on_the_wall
from forecast.errors import InputError

UNKNOWN = "?"
"""The zone of a run that did not write down which one its times were in."""


@dataclass(frozen=True)
class Clock:
    """The time zone of training, and whether it matters.

    Parameters
    ----------
    zone
        As pandas reads it, such as Europe/Berlin or UTC+01:00; None: times without one; or `UNKNOWN`.
    frequency
        The step of the rows. Days and longer are steps of the local calendar, in whatever zone: their dates are the
        ones that a file shows, unless its days begin at another hour than midnight and at midnight on this clock.
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
            If either these times or those of training have a zone, and the others none; of days and longer, if they
            begin neither at midnight nor as training's did.
        """
        if self._is_daily and not self._shows_days(index):
            raise InputError(
                f"{source}: its days begin at {index[0].time()} {index.tz}: write them as training had them, as dates"
                + (f" or in {self.zone}" if self.zone is not None else "")
            )
        if self._is_daily or self.zone == UNKNOWN or (index.tz is None) == (self.zone is None):
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
        if index.tz is None or self.zone == UNKNOWN or (self._is_daily and (self.zone is None or _are_dates(index))):
            return index
        return index.tz_convert(self.zone)

    def _shows_days(self, index: pd.DatetimeIndex) -> bool:
        """Say whether the dates of these days can be told: they are at midnight, or on the clock of training."""
        if index.tz is None or _are_dates(index) or self.zone in (UNKNOWN, str(index.tz)):
            return True
        return self.zone is not None and _are_dates(index.tz_convert(self.zone))

    @cached_property
    def _is_daily(self) -> bool:
        return is_daily(fixed_step(frequency_offset(self.frequency)))


def _are_dates(index: pd.DatetimeIndex) -> bool:
    """Say whether all times are midnights of their own clock, those included that a clock change skips."""
    shown = on_the_wall(index)
    return bool((shown == shown.normalize()).all())


def _is_readable(zone: str | None) -> bool:
    try:
        pd.Timestamp(0).tz_localize(zone)
    except (ValueError, LookupError, TypeError, OSError):
        return False
    return True
