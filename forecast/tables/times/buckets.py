"""Rows on longer steps, `data.resample`, and on the nearest step, `data.snap`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.tables.flaws import Flaw
from forecast.tables.times.calendars import CYCLES, DAY, WEEKDAYS, CalendarDays
from forecast.tables.times.frequency import fixed_step, frequency_offset, from_wall_time, is_daily, plain_times

AGGREGATES = ("mean", "sum", "last")
"""Values of `data.aggregate`."""

_WEEK = 7 * DAY
_MONDAY = -3 * DAY  # 29 December 1969, the day on which buckets of whole weeks begin
_RECENT = 50
"""Rows at the end whose step counts as that of the last bucket."""


@dataclass(frozen=True)
class Resampling:
    """What becomes of the times of a table before its step is found.

    Parameters
    ----------
    resample
        Step of the buckets whose rows become one; None: none do. A bucket has the time of its start.
    aggregate
        "mean", "sum" or "last" of the values in a bucket, by column; other columns have the mean, labels the last.
    snap
        Step to whose nearest multiple each time is moved; None: none is.
    """

    resample: str | None = None
    aggregate: Mapping[str, str] = field(default_factory=dict)
    snap: str | None = None

    def __post_init__(self) -> None:
        for key in ("resample", "snap"):
            if not isinstance(getattr(self, key), str | None):
                raise InputError(f"data.{key}={getattr(self, key)}: must be text")
        if self.resample is not None:
            _buckets_of(self.resample)
        if self.snap is not None:
            snap_step(self.snap)
        if self.resample is not None and self.snap is not None:
            raise InputError("data.resample and data.snap are both set: set data.snap to null, a bucket needs no snap")
        if not isinstance(self.aggregate, Mapping):
            raise InputError(f"data.aggregate={self.aggregate}: must be names of columns, such as {{load: sum}}")
        if self.aggregate and self.resample is None:
            raise InputError("data.aggregate: needs data.resample: set it, such as 1h, or leave out data.aggregate")
        for name, how in self.aggregate.items():
            if how not in AGGREGATES:
                raise InputError(f"data.aggregate.{name}={how}: choose mean, sum or last")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Resampling":
        """Return the resampling of a `data` group or of a manifest's data."""
        aggregate = data.get("aggregate") or {}
        if isinstance(aggregate, Mapping):
            aggregate = {str(name).strip(): how for name, how in aggregate.items()}
        return cls(data.get("resample"), aggregate, data.get("snap"))

    def facts(self) -> dict[str, Any]:
        """Return the values that are set as plain values."""
        return {key: value for key, value in vars(self).items() if value}

    def rules(self, columns: Sequence[str], labels: Collection[str]) -> list[str]:
        """Return what becomes of the values of each column in a bucket."""
        return ["last" if name in labels else self.aggregate.get(name, "mean") for name in columns]

    @property
    def frequency(self) -> str | None:
        """Step of the buckets as a value of `data.frequency`; None: the step is to be found."""
        if self.resample is None:
            return None
        return "W-MON" if _buckets_of(self.resample) == (_WEEK, _MONDAY) else self.resample


AS_IT_IS = Resampling()
"""Times that stay as they are."""


def snap_step(snap: str) -> int:
    """Return the nanoseconds of a value of `data.snap`; raise InputError for a step without a fixed length."""
    step = fixed_step(frequency_offset(snap))
    if step is None:
        raise InputError(f"data.snap={snap}: is not a step of fixed length: use one such as 5min, 1h or 1D")
    return step


def _buckets_of(resample: str) -> tuple[int, int | CalendarDays]:
    """Return the step of buckets in nanoseconds and the time at which one begins; 0 and the days for a calendar."""
    offset = frequency_offset(resample)
    step = fixed_step(offset)
    if step is not None:
        return step, _MONDAY if step % _WEEK == 0 else 0
    if isinstance(offset, pd.offsets.Week):
        return offset.n * _WEEK, _MONDAY + WEEKDAYS.index(offset.freqstr[-3:]) * DAY
    if isinstance(offset, CalendarDays):
        months = 0 if offset.holidays else 1
        days = offset
    else:
        months = {"MS": 1, "QS": 3, "YS": 12}.get(offset.rule_code.partition("-")[0], 0) * offset.n
        first = getattr(offset, "startingMonth", getattr(offset, "month", 1))
        days = CalendarDays("month", (1,), months, (first - 1) % max(months, 1))
    if months not in CYCLES:
        raise InputError(
            f"data.resample={resample}: names no start of a bucket: use one such as 15min, 1h, 1D, W-MON, MS or QS"
        )
    return 0, days


@dataclass(frozen=True)
class Buckets:
    """Buckets of N times.

    `numbers` rise by 1 from bucket to bucket. `since` and `left` are the nanoseconds since the start of the bucket and
    up to its end, `starts` its start. Each has the shape (N,).
    """

    numbers: np.ndarray
    since: np.ndarray
    left: np.ndarray
    starts: pd.DatetimeIndex

    @classmethod
    def of(cls, times: pd.DatetimeIndex, resample: str) -> "Buckets":
        """Return the buckets of times; those of a day or longer follow the local calendar, others absolute time."""
        step, anchor = _buckets_of(resample)
        daily = not step or is_daily(step)
        stamps = plain_times(times, None if daily else step).as_unit("ns").asi8
        if isinstance(anchor, CalendarDays):
            numbers = anchor.places(stamps // DAY)
            starts, ends = (anchor.days_at(numbers + more) * DAY for more in (0, 1))
        else:
            numbers = (stamps - anchor) // step
            starts = numbers * step + anchor
            ends = starts + step
        index = pd.DatetimeIndex(starts.view("M8[ns]"), name=times.name)
        if times.tz is not None:
            index = from_wall_time(index, times.tz) if daily else index.tz_localize("UTC").tz_convert(times.tz)
        return cls(numbers, stamps - starts, ends - stamps, index)


@dataclass(frozen=True)
class Bucketed:
    """Rows in buckets: `firsts` (M,) are the first rows of the complete ones, `stop` is the row after the last."""

    starts: pd.DatetimeIndex
    firsts: np.ndarray
    stop: int
    notes: tuple[str, ...]


def into_buckets(times: pd.DatetimeIndex, resample: str) -> Bucketed:
    """Return the complete buckets of times, sorted and unique, and notes on them.

    The first and the last bucket are complete if they reach as far as most, or if the step of their rows leaves no
    room for another one.
    """
    buckets = Buckets.of(times, resample)
    firsts = np.flatnonzero(np.diff(buckets.numbers, prepend=buckets.numbers[0] - 1))
    lasts = np.append(firsts[1:], len(times)) - 1
    begins, ends = buckets.since[firsts], buckets.left[lasts]
    steps = np.diff(times.asi8)
    head, tail = (float(np.median(part)) if len(part) else 0.0 for part in (steps[:_RECENT], steps[-_RECENT:]))
    low = int(len(firsts) > 1 and begins[0] >= max(head, float(np.median(begins)) + head / 2))
    high = len(firsts) - int(len(firsts) - low > 1 and ends[-1] > max(1.5 * tail, float(np.median(ends)) + tail / 2))
    stop = len(times) if high == len(firsts) else int(firsts[high])
    kept = firsts[low:high]
    sizes = np.diff(np.append(kept, stop))
    notes = [f"{stop - kept[0]:,} rows became {counted(len(kept), 'bucket')} of {resample} (data.resample)"]
    few = int((sizes < np.median(sizes)).sum())
    notes += [f"{counted(few, 'bucket')} of {resample} with fewer rows than most"] if few else []
    for place, is_cut, word in ((0, low, "first"), (-1, len(firsts) - high, "last")):
        if is_cut:
            notes.append(f"the {word} bucket, {buckets.starts[place]}, was left out: it is not complete")
    return Bucketed(buckets.starts[kept], kept, stop, tuple(notes))


def snapped(
    times: pd.DatetimeIndex, snap: str, rows: np.ndarray, source: str, *, checked: bool = True
) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return each time at the nearest multiple of a step, in the same order, and a note.

    Raise a flaw if two rows come to the same time, or a step is jumped over: then the clock drifts by more than half a
    step. Not `checked`, the times may be those of several series.
    """
    step = snap_step(snap)
    plain = plain_times(times, step)
    stamps = plain.as_unit("ns").asi8
    nearest = (stamps + step // 2) // step
    if checked and (place := first_slip(stamps, nearest, step)) is not None:
        raise Flaw(
            source,
            f", row {rows[place]}",
            f"{times[place]} is more than half a step of {snap} from its place after the row before",
            "correct the times, or train with data.resample and a longer step",
        )
    index = pd.DatetimeIndex((nearest * step).view("M8[ns]"), name=times.name)
    if times.tz is not None:
        index = from_wall_time(index, times.tz) if is_daily(step) else index.tz_localize("UTC").tz_convert(times.tz)
    moved = np.abs(stamps - nearest * step)
    if not moved.any():
        return index, ()
    most = pd.Timedelta(int(moved.max()), "ns").total_seconds()
    return index, (f"{counted(int((moved > 0).sum()), 'time')} moved by at most {most:.6g} s (data.snap={snap})",)


def first_slip(stamps: np.ndarray, nearest: np.ndarray, step: int) -> int | None:
    """Return the first row whose nearest step is that of the row before, or skips one without a gap; None: no row."""
    order = np.argsort(stamps, kind="stable")
    apart, places = np.diff(stamps[order]), np.diff(nearest[order])
    slips = (apart > 0) & ((places == 0) | ((places > 1) & (2 * apart < 3 * step)))
    return int(order[1:][np.argmax(slips)]) if slips.any() else None
