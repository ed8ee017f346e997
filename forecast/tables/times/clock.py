"""The time zone in which a model reads the calendar: the zone of training, also for later files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.times.frequency import day_begins, fixed_step, frequency_offset, is_daily

UNKNOWN = "?"
"""The zone of times whose time zone has no name that pandas can read."""

MIDNIGHT = "00:00:00"
"""The default start of a day."""


@dataclass(frozen=True)
class Clock:
    """The time zone of training, such as Europe/Berlin or UTC+01:00, and the step of the rows.

    `zone` is None for times without a zone, `UNKNOWN` if its name cannot be read. `begins` is the time of day of most
    rows for steps of a day or longer; a file whose rows have this time of day holds dates, in any zone.
    """

    zone: str | None
    frequency: str
    begins: str = MIDNIGHT

    @classmethod
    def of(cls, index: pd.DatetimeIndex, frequency: str) -> "Clock":
        """Return the clock of these times."""
        zone = None if index.tz is None else str(index.tz)
        begins = day_begins(index) if _is_daily(frequency) else MIDNIGHT
        return cls(zone if _is_readable(zone) else UNKNOWN, frequency, begins)

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Clock":
        """Return the clock that the `data` entry of a manifest describes."""
        return cls(facts["time_zone"], facts["frequency"], facts.get("day_begins", MIDNIGHT))

    def facts(self) -> dict[str, Any]:
        """Return the manifest's entries, except the frequency."""
        return {"time_zone": self.zone} | ({} if self.begins == MIDNIGHT else {"day_begins": self.begins})

    def __post_init__(self) -> None:
        if self.zone != UNKNOWN and not _is_readable(self.zone):
            raise ValueError(f"{self.zone!r} is not a time zone")

    def check(self, index: pd.DatetimeIndex, source: str) -> None:
        """Raise InputError for times that cannot be converted to this clock."""
        if self.zone == UNKNOWN or (index.tz is None and self.zone is None):
            return
        if _is_daily(self.frequency):
            if not self._holds_dates(index) and not self._holds_dates(self._converted(index)):
                zone = "" if self.zone is None else f" in {self.zone}"
                raise InputError(
                    f"{source}: its days begin at {day_begins(index)} {index.tz}, the days of the training data at "
                    f"{self.begins}{zone}: write the dates as in the training data"
                )
        elif index.tz is None:
            raise InputError(
                f"{source}: its times have no time zone, the training data has {self.zone}: add an offset to the times"
            )
        elif self.zone is None:
            raise InputError(
                f"{source}: its times have a time zone, the training data has none: write the times without an offset"
            )

    def to_training_clock(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Convert times to this clock's zone; days that begin as in training keep their dates."""
        if self.zone == UNKNOWN or (_is_daily(self.frequency) and self._holds_dates(index)):
            return index
        return self._converted(index)

    def localized(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Return times in UTC without a zone as times of this clock; days stay without a zone."""
        if self.zone in (None, UNKNOWN) or _is_daily(self.frequency):
            return index
        return index.tz_localize("UTC").tz_convert(self.zone)

    def comparable(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Convert times to this clock so that those of two tables can be compared; days lose their time zone."""
        times = self.to_training_clock(index)
        return times.tz_localize(None) if _is_daily(self.frequency) else times

    def _holds_dates(self, index: pd.DatetimeIndex) -> bool:
        return index.tz is None or day_begins(index) == self.begins

    def _converted(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        return index if index.tz is None or self.zone is None else index.tz_convert(self.zone)


def _is_daily(frequency: str) -> bool:
    return is_daily(fixed_step(frequency_offset(frequency)))


def _is_readable(zone: str | None) -> bool:
    try:
        pd.Timestamp(0).tz_localize(zone)
    except (ValueError, LookupError, TypeError, OSError):
        return False
    return True
