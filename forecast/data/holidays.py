"""Public holidays of a country or a part of it, as inputs that are known in advance."""

import difflib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.tables.times.frequency import frequency_offset, times_from

MOST_DAYS = 7
"""Largest number of days before or after a holiday that are inputs."""

_LISTED = 12
"""Largest number of subdivisions in a message."""

_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class Holidays:
    """Features of the public holidays at a place, 1 or 0 for each time.

    Parameters
    ----------
    place
        Code of a country by ISO 3166, such as US, or of a subdivision of it, such as DE-BY.
    before, after
        Number of days before and after a holiday that have their own feature, 0 to `MOST_DAYS`.

    Raises
    ------
    ValueError
        If a value has the wrong type or range. `parse` checks the place as well.
    """

    place: str
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.place, str) or not self.place or not is_plain(self.place):
            raise ValueError(f"{self.place!r} is not a place with holidays")
        for key in ("before", "after"):
            days = getattr(self, key)
            if type(days) is not int or not 0 <= days <= MOST_DAYS:
                raise ValueError(f"{key} {days!r} is not a number of days from 0 to {MOST_DAYS}")

    @classmethod
    def parse(cls, place: str, before: int = 0, after: int = 0) -> "Holidays":
        """Return the features of a place that the library knows; raise InputError for another place."""
        if not is_plain(place):
            raise InputError(f"data.holidays={place!r}: has control characters: use a code such as DE-BY")
        _check_place(place)
        return cls(place, before, after)

    @classmethod
    def from_dict(cls, facts: Any) -> "Holidays":
        """Return the features that `to_dict` describes; raise ValueError for other values."""
        if not isinstance(facts, Mapping) or set(facts) != {"place", "before", "after", "library"}:
            raise ValueError("the holidays need place, before, after and library")
        if not isinstance(facts["library"], str) or not is_plain(facts["library"]):
            raise ValueError(f"{facts['library']!r} is not a version of the library of holidays")
        return cls(facts["place"], facts["before"], facts["after"])

    def to_dict(self) -> dict[str, Any]:
        """Return the values for a manifest, with the version of the library."""
        return {**vars(self), "library": str(_library().__version__)}

    @property
    def columns(self) -> list[str]:
        """Names of the features, in order."""
        ahead = [f"holiday in {_counted(days)}" for days in range(1, self.before + 1)]
        behind = [f"holiday {_counted(days)} ago" for days in range(1, self.after + 1)]
        return ["holiday", *ahead, *behind]

    def check_frequency(self, frequency: str) -> None:
        """Raise InputError for steps longer than a day."""
        days = times_from(pd.Timestamp("2024-01-01"), 8, frequency_offset(frequency))
        if (np.diff(days.to_numpy()) > _DAY).all():
            raise InputError(
                f"data.holidays={self.place}: rows every {frequency} span more than a day: set data.holidays=null, or "
                "use a step of at most a day"
            )

    def features(self, index: pd.DatetimeIndex) -> np.ndarray:
        """Return each feature at each time, shape (N, len(columns)), float64, 0 or 1.

        A time counts as its date in the time zone of `index`. Years that the library does not know have no holidays.
        """
        if not len(index):
            return np.zeros((0, len(self.columns)))
        days = _dates(index)
        first, last = days.min() - self.after, days.max() + self.before
        holidays = np.concatenate([_holidays_of(self.place, year)[0] for year in _years(first, last)])
        is_holiday = np.zeros(last - first + 1, dtype=bool)
        is_holiday[holidays[(holidays >= first) & (holidays <= last)] - first] = True
        shifts = [0, *range(1, self.before + 1), *range(-1, -self.after - 1, -1)]
        return np.column_stack([is_holiday[days + shift - first] for shift in shifts]).astype(np.float64)

    def notes(self, index: pd.DatetimeIndex) -> tuple[str, ...]:
        """Return a line on the place and the number of its holidays, and one if the library lacks years of `index`."""
        counted = int(np.unique(_dates(index)[self.features(index)[:, 0] > 0]).size)
        found = (f"holidays of {_country(self.place)} ({self.place}): {counted:,} days in the table",)
        return (*found, *self._lacking(index))

    def _lacking(self, index: pd.DatetimeIndex) -> tuple[str, ...]:
        days = _dates(index)
        years = _years(days.min(), days.max()) if len(days) else range(0)
        lacking = [year for year in years if not _holidays_of(self.place, year)[1]]
        if not lacking:
            return ()
        span = str(lacking[0]) if len(lacking) == 1 else f"{len(lacking)} years from {lacking[0]} to {lacking[-1]}"
        return (f"holidays of {self.place}: the library lacks some or all of {span}",)


def _country(place: str) -> str:
    """Return the English name of the country of a place."""
    name = type(_library().country_holidays(_parts(place)[0])).__mro__[1].__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _counted(days: int) -> str:
    return f"{days} day" if days == 1 else f"{days} days"


def _dates(index: pd.DatetimeIndex) -> np.ndarray:
    """Return the local date of each time as days since 1970, shape (N,), int64."""
    return np.asarray(index.tz_localize(None).to_numpy().astype("datetime64[D]").astype(np.int64))


def _years(first: int, last: int) -> range:
    """Return the years of the days from `first` to `last`, which count from 1970."""
    begin, end = (np.datetime64(int(day), "D").astype("datetime64[Y]").astype(int) + 1970 for day in (first, last))
    return range(begin, end + 1)


@cache
def _holidays_of(place: str, year: int) -> tuple[np.ndarray, bool]:
    """Return the holidays of a year as days since 1970, int64, and whether the library knows all of them."""
    _check_place(place)  # the place may come from a manifest
    country, subdivision = _parts(place)
    with warnings.catch_warnings(record=True) as caught:  # the library warns of incomplete years
        warnings.simplefilter("always")
        try:
            found = _library().country_holidays(country, subdiv=subdivision, years=year, expand=False)
        except NotImplementedError:
            _check_place(place)  # the manifest is of another version of the library
            raise
    days = np.array(sorted(found), dtype="datetime64[D]").astype(np.int64)
    return days, found.start_year <= year <= found.end_year and not caught


def _parts(place: str) -> tuple[str, str | None]:
    """Return the codes of the country and of its subdivision."""
    country, dash, subdivision = place.partition("-")
    return country, subdivision if dash else None


def _check_place(place: str) -> None:
    """Raise InputError for a country or subdivision that the library does not know."""
    key = f"data.holidays={place}"
    country, subdivision = _parts(place)
    known = _library().list_supported_countries()
    if country not in known:
        near = _nearest(country, list(known))
        raise InputError(f"{key}: unknown country {country!r}{near}: use its ISO 3166 code, such as DE, US or AU")
    codes = known[country]
    if subdivision is None or subdivision in codes:
        return
    if not codes:
        raise InputError(f"{key}: the library has no subdivisions of {country}: set data.holidays={country}")
    listed = ", ".join(codes[:_LISTED]) + (", …" if len(codes) > _LISTED else "")
    near = _nearest(subdivision, codes)
    raise InputError(f"{key}: unknown subdivision {subdivision!r} of {country}{near}: choose from {listed}")


def _nearest(code: str, codes: list[str]) -> str:
    """Return a question that suggests the nearest codes, empty if none is near."""
    near = [each for each in codes if each.lower() == code.lower()] or difflib.get_close_matches(code, codes)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _library() -> ModuleType:
    """Import the library of holidays."""
    try:
        import holidays
    except ImportError:
        raise InputError('data.holidays: the package is not installed: pip install -e ".[holidays]"') from None
    return holidays
