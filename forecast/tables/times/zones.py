"""Times of a named zone: local times on their way to instants, and the names of zones behind a time."""

import difflib
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import Choice, Flaw, refuse_first

EARLIER, LATER = 1, 2
"""Marks of an hour that occurs twice: the one in summer time, and the one after the clocks moved back."""

_MINUTE = 60 * 10**9  # nanoseconds

ZONES: dict[str, tuple[int, str]] = {
    **dict.fromkeys(("UTC", "Z"), (0, "UTC")),
    **{"GMT": (0, "Europe/London"), "BST": (60, "Europe/London")},
    **{"WET": (0, "Europe/Lisbon"), "WEST": (60, "Europe/Lisbon")},
    **dict.fromkeys(("CET", "MEZ"), (60, "Europe/Berlin")),
    **dict.fromkeys(("CEST", "MESZ"), (120, "Europe/Berlin")),
    **dict.fromkeys(("EET", "OEZ"), (120, "Europe/Helsinki")),
    **dict.fromkeys(("EEST", "OESZ"), (180, "Europe/Helsinki")),
    **{"MSK": (180, "Europe/Moscow"), "TRT": (180, "Europe/Istanbul")},
    **{"NST": (-210, "America/St_Johns"), "NDT": (-150, "America/St_Johns")},
    **{"AST": (-240, "America/Halifax"), "ADT": (-180, "America/Halifax")},
    **{"EST": (-300, "America/New_York"), "EDT": (-240, "America/New_York")},
    **{"CST": (-360, "America/Chicago"), "CDT": (-300, "America/Chicago")},
    **{"MST": (-420, "America/Denver"), "MDT": (-360, "America/Denver")},
    **{"PST": (-480, "America/Los_Angeles"), "PDT": (-420, "America/Los_Angeles")},
    **{"AKST": (-540, "America/Anchorage"), "AKDT": (-480, "America/Anchorage")},
    **{"HST": (-600, "Pacific/Honolulu"), "BRT": (-180, "America/Sao_Paulo")},
    **{"SAST": (120, "Africa/Johannesburg"), "IST": (330, "Asia/Kolkata")},
    **{"JST": (540, "Asia/Tokyo"), "KST": (540, "Asia/Seoul"), "HKT": (480, "Asia/Hong_Kong")},
    **{"SGT": (480, "Asia/Singapore"), "AWST": (480, "Australia/Perth")},
    **{"ACST": (570, "Australia/Adelaide"), "ACDT": (630, "Australia/Adelaide")},
    **{"AEST": (600, "Australia/Sydney"), "AEDT": (660, "Australia/Sydney")},
    **{"NZST": (720, "Pacific/Auckland"), "NZDT": (780, "Pacific/Auckland")},
}
"""Minutes from UTC by the short name of a zone, and a zone to propose."""

_PROPOSED = (
    *("Europe/Berlin", "America/New_York", "Europe/London", "Europe/Helsinki", "Australia/Sydney"),
    *("Pacific/Auckland", "America/Santiago", "America/Sao_Paulo", "Asia/Jerusalem", "America/Havana"),
)


def check_zone(name: object) -> None:
    """Raise InputError for a name that is no time zone."""
    try:
        assert isinstance(name, str)
        ZoneInfo(name)
    except (AssertionError, LookupError, ValueError, OSError):
        near = difflib.get_close_matches(str(name)[:60], sorted(available_timezones()), n=1)
        proposed = ZONES[str(name)][1] if str(name) in ZONES else (near[0] if near else "Europe/Berlin")
        raise InputError(
            f"data.time_zone={str(name)[:60]!r}: is not the name of a time zone: use one such as {proposed}"
        ) from None


def proposed_zone(times: pd.DatetimeIndex, hint: str = "") -> str | None:
    """Return the first usual zone whose clocks move back at all these local times, one that a text names first."""
    named = [ZONES[word][1] for word in re.findall(r"[A-Z]{2,5}", hint) if word in ZONES]
    return next((zone for zone in (*named, *_PROPOSED) if len(times) and is_doubled(times, zone).all()), None)


def proposed_long_day(dates: pd.DatetimeIndex) -> str | None:
    """Return the first usual zone in which all these dates have 25 hours."""
    return next((zone for zone in _PROPOSED if len(dates) and _have_25_hours(dates, zone)), None)


def _have_25_hours(dates: pd.DatetimeIndex, zone: str) -> bool:
    begins, ends = (_both(day.tz_localize(None).normalize(), zone)[0] for day in (dates, dates + pd.Timedelta("1D")))
    return bool((ends - begins == pd.Timedelta("25h")).all())


def with_zone_proposed(flaw: Flaw, times: pd.DatetimeIndex, time_column: str) -> Flaw:
    """Return the flaw of doubled local times, with the option that tells them apart if clocks move back at all."""
    doubled = pd.DatetimeIndex(times[times.duplicated()].unique())
    if times.tz is not None or (zone := proposed_zone(doubled, time_column)) is None:
        return flaw
    cure = f"the clocks move back there: set their time zone, such as data.time_zone={zone}"
    return flaw.but(cure=cure, word=f"data.time_zone={zone}")


def is_doubled(times: pd.DatetimeIndex, zone: str) -> np.ndarray:
    """Return where local times without a zone occur twice in a zone, shape (N,)."""
    first, second = _both(times, zone)
    return np.asarray((first.asi8 != second.asi8) & ~np.asarray(first.isna()))


def _both(times: pd.DatetimeIndex, zone: str) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
    """Return the instants of local times, the earlier and the later of two; NaT where clocks skip the time."""
    tz, plain = ZoneInfo(zone), times.as_unit("ns")
    both = (np.full(len(times), flag) for flag in (True, False))
    first, second = (plain.tz_localize(tz, ambiguous=flags, nonexistent="NaT") for flags in both)
    return first, second


def localized(
    times: pd.DatetimeIndex,
    zone: str,
    rows: np.ndarray,
    where: str,
    *,
    marks: np.ndarray | None = None,
    series: np.ndarray | None = None,
) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the instants of local times (N,) in the order of their rows, and a note on the hours that occur twice.

    Of two equal times of a series, the first row is the earlier one, or the later one in a file with the newest rows
    first. `marks` (N,) are `EARLIER`, `LATER` or 0, and `series` (N,) the number of the series of each row.
    """
    first, second = _both(times, zone)
    cure = "correct data.time_zone, or set it to null if the clocks do not change"
    refuse_first(
        np.asarray(first.isna()),
        rows,
        where,
        lambda place, count: f"{times[place]} is skipped by the clocks of {zone} ({count} such times): {cure}",
    )
    twice = first.asi8 != second.asi8
    if not twice.any():
        return first, ()
    places = np.flatnonzero(twice)
    keys = pd.DataFrame({"time": times.asi8[places], "series": 0 if series is None else series[places]})
    number = keys.groupby(["time", "series"]).cumcount().to_numpy()
    count = keys.groupby(["time", "series"])["time"].transform("size").to_numpy()
    backwards = len(times) > 1 and times[-1] < times[0] and series is None
    later = (count - 1 - number if backwards else number) >= 1
    if marks is not None:
        later = np.where(marks[places] > 0, marks[places] == LATER, later)
    instants = first.asi8.copy()
    instants[places[later]] = second.asi8[places[later]]
    index = pd.DatetimeIndex(instants.view("M8[ns]")).tz_localize("UTC").tz_convert(zone)
    days = len(np.unique(times.normalize().asi8[places[later]]))
    note = f"the hour that occurs twice when the clocks of {zone} move back was told by the rows or their marks"
    return index, (f"{note} ({days:,} such days)",) if days else ()


def from_named_zones(
    times: pd.DatetimeIndex, names: Sequence[str] | np.ndarray, zone: str | None, rows: np.ndarray, where: str
) -> pd.DatetimeIndex:
    """Return the instants of local times (N,) with names of zones (N,), such as CET and CEST, in `zone`."""
    codes, present = pd.factorize(np.asarray(names, dtype=object))
    distinct = [str(name) for name in present]
    unnamed = np.asarray(names) == ""
    refuse_first(unnamed, rows, where, lambda *_: "no name of a time zone, other rows have one: add it to all")
    if zone is None:
        if all(ZONES[name][0] == 0 and name != "BST" for name in distinct) and "WET" not in distinct:
            zone = "UTC"
        else:
            proposed = next((ZONES[name][1] for name in distinct if ZONES[name][1] != "UTC"), "UTC")
            raise Choice(
                f"{where}, row {rows[0]}: {times[0]} {names[0]} has the name of a time zone, which several zones have: "
                f"set data.time_zone={proposed}, or another zone of that name",
                [{"time_zone": proposed}],
            )
    known = _offsets(zone, times)
    minutes = []
    for code, name in enumerate(distinct):
        offset = known.get(_ALIASES.get(name, name), ZONES[name][0])
        if offset not in known.values() and offset:
            place = int(np.argmax(codes == code))
            raise InputError(
                f"{where}, row {rows[place]}: {name} is not a time of data.time_zone={zone}: set "
                f"data.time_zone={ZONES[name][1]}, or another zone of that name"
            )
        minutes.append(offset)
    instants = times.as_unit("ns").asi8 - np.array(minutes, dtype=np.int64)[codes] * _MINUTE
    return pd.DatetimeIndex(instants.view("M8[ns]")).tz_localize("UTC").tz_convert(zone)


_ALIASES = {"MEZ": "CET", "MESZ": "CEST", "OEZ": "EET", "OESZ": "EEST"}


def _offsets(zone: str, times: pd.DatetimeIndex) -> dict[str, int]:
    """Return the minutes from UTC by each name that the zone has in the years of the times."""
    tz, found = ZoneInfo(zone), {}
    for year in range(times.min().year, times.max().year + 1):
        for month in range(1, 13):
            moment = datetime(year, month, 15, tzinfo=tz)
            offset = moment.utcoffset()
            assert offset is not None
            found[moment.tzname() or ""] = int(offset / timedelta(minutes=1))
    return found
