"""Public holidays of countries or parts of them, as inputs that are known in advance."""

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted, is_plain
from forecast.tables.panel import REGION, Ids
from forecast.tables.times.frequency import frequency_offset, times_from

MOST_DAYS = 7
"""Largest number of days before or after a holiday that are inputs."""

_LISTED = 12
"""Largest number of subdivisions in a message."""

_DAY = np.timedelta64(1, "D")


class Places(NamedTuple):
    """Codes of R places, and for each series or row the number of its place, (N,)."""

    names: tuple[str, ...]
    numbers: np.ndarray

    def at(self, series: np.ndarray) -> "Places":
        """Return the places of rows that belong to these series (N,)."""
        return Places(self.names, self.numbers[series])


@dataclass(frozen=True)
class Holidays:
    """Features of the public holidays at a place, or at the place of each series, 1 or 0 for each time.

    Parameters
    ----------
    place
        Code of a country by ISO 3166, such as US, or of a subdivision of it, such as DE-BY. With a `column` the country
        of the subdivisions in it; None: the column has whole codes.
    before, after
        Number of days before and after a holiday that have their own feature, 0 to `MOST_DAYS`.
    column
        Column of a panel that names the place of each series; None: all have `place`.

    Raises
    ------
    ValueError
        If a value has the wrong type or range. `parse` checks the place as well.
    """

    place: str | None
    before: int = 0
    after: int = 0
    column: str | None = None

    def __post_init__(self) -> None:
        for name, other in ((self.place, self.column), (self.column, self.place)):
            if not (name is None and other) and (not isinstance(name, str) or not name or not is_plain(name)):
                raise ValueError(f"{name!r} is not a place with holidays, or a column of them")
        for key in ("before", "after"):
            days = getattr(self, key)
            if type(days) is not int or not 0 <= days <= MOST_DAYS:
                raise ValueError(f"{key} {days!r} is not a number of days from 0 to {MOST_DAYS}")

    @classmethod
    def parse(cls, place: str | None, before: int = 0, after: int = 0, column: str | None = None) -> "Holidays":
        """Return the features of a place that the library knows; raise InputError for another place."""
        if place is not None:
            if not is_plain(place):
                raise InputError(f"data.holidays={place!r}: has control characters: use a code such as DE-BY")
            _check_place(place)
            if column is not None and "-" in place:
                country = _parts(place)[0]
                raise InputError(
                    f"data.holidays={place}: the column {column!r} names the region ({REGION}): set data.holidays to "
                    f"null, or to a country, such as {country}"
                )
        return cls(place, before, after, column)

    @classmethod
    def from_dict(cls, facts: Any) -> "Holidays":
        """Return the features that `to_dict` describes; raise ValueError for other values."""
        if not isinstance(facts, Mapping) or set(facts) - {"column"} != {"place", "before", "after", "library"}:
            raise ValueError("the holidays need place, before, after and library")
        if not isinstance(facts["library"], str) or not is_plain(facts["library"]):
            raise ValueError(f"{facts['library']!r} is not a version of the library of holidays")
        return cls(facts["place"], facts["before"], facts["after"], facts.get("column"))

    def to_dict(self) -> dict[str, Any]:
        """Return the values for a manifest, with the version of the library; without a column, it is absent."""
        column = {} if self.column is None else {"column": self.column}
        own = {"place": self.place, "before": self.before, "after": self.after}
        return {**own, **column, "library": str(_library().__version__)}

    @property
    def columns(self) -> list[str]:
        """Names of the features, in order."""
        ahead = [f"holiday in {counted(days, 'day')}" for days in range(1, self.before + 1)]
        behind = [f"holiday {counted(days, 'day')} ago" for days in range(1, self.after + 1)]
        return ["holiday", *ahead, *behind]

    def check_frequency(self, frequency: str) -> None:
        """Raise InputError for steps longer than a day."""
        days = times_from(pd.Timestamp("2024-01-01"), 8, frequency_offset(frequency))
        if (np.diff(days.to_numpy()) > _DAY).all():
            key = f"data.holidays={self.place}" if self.column is None else f"{REGION}={self.column}"
            raise InputError(
                f"{key}: rows every {frequency} span more than a day: set {key.partition('=')[0]}=null, or use a step "
                "of at most a day"
            )

    def places(self, ids: Ids | None, source: str = "the table") -> Places | None:
        """Return the place of each series of a panel; None without a column.

        Raise InputError for a region whose holidays the library does not know; `source` names the table.
        """
        if self.column is None:
            return None
        assert ids is not None
        assert ids.regions is not None
        numbers, regions = pd.factorize(ids.regions)
        names = tuple(self._place_of(str(region)) for region in regions)
        for number, (region, name) in enumerate(zip(map(str, regions), names, strict=True)):
            if (flaw := _flaw_of(name, cure=f"write {_parts(name)[0]}")) is not None:
                first = int(np.argmax(numbers == number))
                where = f"column {self.column!r}, row {ids.regions.index[first]}, {ids.shown(first)}"
                whole = self.place is not None or "-" in region
                country = "" if whole else ", or set data.holidays to the country of the subdivisions in the column"
                raise InputError(f"{source}, {where}: {flaw}{country}")
        return Places(names, numbers)

    def _place_of(self, region: str) -> str:
        """Return the code of the place that a cell names: a whole code, or a subdivision of `place`.

        A number has its leading zero again.
        """
        if self.place is None or "-" in region or region == self.place:
            return region
        codes, padded = _library().list_supported_countries()[self.place], region.zfill(2)
        return f"{self.place}-{padded if region not in codes and padded in codes else region}"

    def features(self, index: pd.DatetimeIndex, places: Places | None = None) -> np.ndarray:
        """Return each feature at each time, shape (N, len(columns)), float64, 0 or 1.

        `places` are those of the times; None: all are at `place`. A time counts as its date in the time zone of
        `index`. Years that the library does not know have no holidays.
        """
        names, numbers = self._at_place() if places is None else places
        if not len(index):
            return np.zeros((0, len(self.columns)))
        days = _dates(index)
        first, last = days.min() - self.after, days.max() + self.before
        is_holiday = np.zeros((len(names), last - first + 1), dtype=bool)  # (R, days)
        for own, name in zip(is_holiday, names, strict=True):
            holidays = np.concatenate([_holidays_of(name, year)[0] for year in _years(first, last)])
            own[holidays[(holidays >= first) & (holidays <= last)] - first] = True
        cells = days - first if places is None else days - first + numbers * is_holiday.shape[1]
        shifts = [0, *range(1, self.before + 1), *range(-1, -self.after - 1, -1)]
        return np.column_stack([is_holiday.ravel()[cells + shift] for shift in shifts]).astype(np.float64)

    def _at_place(self) -> Places:
        assert self.place is not None
        assert self.column is None
        return Places((self.place,), np.zeros((), dtype=np.int64))

    def notes(self, index: pd.DatetimeIndex, places: Places | None = None) -> tuple[str, ...]:
        """Return a line on the places and the number of their holidays, and one if the library lacks years of `index`.

        `places` are those of the series of a panel.
        """
        names, numbers = self._at_place() if places is None else places
        days = np.unique(_dates(index))
        years = _years(days.min(), days.max()) if len(days) else range(0)
        found, lacking = [], {}
        for number, name in enumerate(names):
            of_years = [_holidays_of(name, year) for year in years]
            count = int(np.isin(days, np.concatenate([own for own, _ in of_years] or [days])).sum())
            series = int((numbers == number).sum())
            found.append(
                f"of {_country(name)} ({name}): {count:,} days in the table"
                if places is None
                else f"{name} ({_country(name)}, {series:,} series, {counted(count, 'day')})"
            )
            if missing := [year for year, (_, is_whole) in zip(years, of_years, strict=True) if not is_whole]:
                lacking[name] = missing
        by = "" if places is None else f"by {self.column!r}: "
        line = f"holidays {by}{_listed(found, '; ')}"
        if not lacking:
            return (line,)
        of = sorted({year for missing in lacking.values() for year in missing})
        span = str(of[0]) if len(of) == 1 else f"{len(of)} years from {of[0]} to {of[-1]}"
        return line, f"holidays of {_listed(list(lacking), ', ')}: the library lacks some or all of {span}"


def _listed(texts: Sequence[str], between: str) -> str:
    """Return texts in one line, `_LISTED` at most."""
    more = f"{between}and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return between.join(texts[:_LISTED]) + more


def _country(place: str) -> str:
    name = type(_library().country_holidays(_parts(place)[0])).__mro__[1].__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


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
    if (flaw := _flaw_of(place, cure=f"set data.holidays={_parts(place)[0]}")) is not None:
        raise InputError(f"data.holidays={place}: {flaw}")


def _flaw_of(place: str, cure: str) -> str | None:
    """Return why the library does not know a place, with what to do; `cure` is what to do without subdivisions."""
    country, subdivision = _parts(place)
    known = _library().list_supported_countries()
    if country not in known:
        near = _nearest(country, list(known))
        return f"unknown country {country!r}{near}: use its ISO 3166 code, such as DE, US or AU"
    codes = known[country]
    if subdivision is None or subdivision in codes:
        return None
    if not codes:
        return f"the library has no subdivisions of {country}: {cure}"
    listed = ", ".join(codes[:_LISTED]) + (", …" if len(codes) > _LISTED else "")
    near = _nearest(subdivision, codes)
    return f"unknown subdivision {subdivision!r} of {country}{near}: choose from {listed}"


def _nearest(code: str, codes: list[str]) -> str:
    """Return a question that suggests the nearest codes, empty if none is near."""
    near = [each for each in codes if each.lower() == code.lower()] or difflib.get_close_matches(code, codes)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _library() -> ModuleType:
    try:
        import holidays
    except ImportError:
        raise InputError('data.holidays: the package is not installed: pip install -e ".[holidays]"') from None
    return holidays
