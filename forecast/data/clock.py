"""The time zone in which a model reads the calendar: that of its training, for every later file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.data.frequency import day_begins, fixed_step, frequency_offset, is_daily

UNKNOWN = "?"
"""The zone of times whose own zone has no name that pandas reads."""

MIDNIGHT = "00:00:00"
"""The start of a day, by default."""


@dataclass(frozen=True)
class Clock:
    """The time zone of training, such as Europe/Berlin or UTC+01:00, and the step of the rows.

    `zone` is None for times without one, `UNKNOWN` where its name cannot be read. `begins` is the time of day of most
    rows where they are days or longer: a file whose rows have it shows dates, in any zone.
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
        """Return the clock that the `data` of a manifest describe."""
        return cls(facts["time_zone"], facts["frequency"], facts.get("day_begins", MIDNIGHT))

    def facts(self) -> dict[str, Any]:
        """Return the manifest's entries, except the frequency."""
        return {"time_zone": self.zone} | ({} if self.begins == MIDNIGHT else {"day_begins": self.begins})

    def __post_init__(self) -> None:
        if self.zone != UNKNOWN and not _is_readable(self.zone):
            raise ValueError(f"{self.zone!r} is no time zone")

    def check(self, index: pd.DatetimeIndex, source: str) -> None:
        """Refuse times that cannot be converted to this clock."""
        if self.zone == UNKNOWN or (index.tz is None and self.zone is None):
            return
        if _is_daily(self.frequency):
            if not self._shows_dates(index) and not self._shows_dates(self._converted(index)):
                zone = "" if self.zone is None else f" in {self.zone}"
                raise InputError(
                    f"{source}: its days begin at {day_begins(index)} {index.tz}, those of training at "
                    f"{self.begins}{zone}: write them as training had them"
                )
        elif index.tz is None:
            raise InputError(
                f"{source}: its times have no zone, those of training are {self.zone}: give them an offset"
            )
        elif self.zone is None:
            raise InputError(
                f"{source}: its times have a zone, those of training have none: write them as training had them"
            )

    def face(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Return the same instants in this clock's zone; days that begin as in training keep their dates."""
        if self.zone == UNKNOWN or (_is_daily(self.frequency) and self._shows_dates(index)):
            return index
        return self._converted(index)

    def _shows_dates(self, index: pd.DatetimeIndex) -> bool:
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
