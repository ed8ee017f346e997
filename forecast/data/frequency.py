"""Times in, frequency out: the step from row to row."""

import re
import warnings

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset

from forecast.common.errors import InputError
from forecast.data.flaws import Flaw

_OLD_NAMES = {
    "H": "h", "T": "min", "t": "min", "S": "s", "L": "ms", "d": "D", "b": "B", "w": "W", "M": "ME",
    "BM": "BME", "Q": "QE", "BQ": "BQE", "A": "YE", "Y": "YE", "AS": "YS", "BA": "BYE", "BY": "BYE", "BAS": "BYS",
}  # fmt: skip
_DAY = 86_400 * 10**9  # nanoseconds
_UNITS = (
    ("D", _DAY),
    ("h", _DAY // 24),
    ("min", 60 * 10**9),
    ("s", 10**9),
    ("ms", 10**6),
    ("us", 10**3),
    ("ns", 1),
)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_QUARTER_STARTS, _QUARTER_ENDS = ("JAN", "FEB", "MAR"), ("OCT", "NOV", "DEC")
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def frequency_offset(frequency: str) -> BaseOffset:
    """Offset that the alias means; names of older pandas ('H', 'T', 'M') are understood.

    Raises `InputError` where it means nothing or does not go forward.
    """
    match = re.fullmatch(r"(-?\d*)([A-Za-z]+)((?:-\w+)?)", str(frequency).strip())
    alias = f"{match[1]}{_OLD_NAMES.get(match[2], match[2])}{match[3]}" if match else str(frequency)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            offset = to_offset(alias)
    except (ValueError, FutureWarning, DeprecationWarning):
        offset = None
    if offset is None or offset.n < 1:
        raise InputError(f"data.frequency {frequency!r} is no step: use one such as h, 15min, D, W, MS, QS")
    return offset


def fixed_step(offset: BaseOffset) -> int | None:
    """Nanoseconds of a step of fixed length; None for months, business days and the like."""
    if isinstance(offset, pd.offsets.Week):
        return None if "-" in offset.freqstr else offset.n * 7 * _DAY
    if isinstance(offset, pd.offsets.Day):  # a calendar day in pandas 3, a fixed step before
        return int(offset.n) * _DAY
    return int(offset.nanos) if isinstance(offset, pd.offsets.Tick) else None


def is_daily(step: int | None) -> bool:
    """Say whether steps of `fixed_step` are of whole days or longer: of the local calendar, whatever the clock does."""
    return step is None or step % _DAY == 0


def resolve_frequency(times: pd.DatetimeIndex, frequency: str | None, source: str) -> str:
    """Give the frequency of sorted times without duplicates: the one named, else the one that most rows keep.

    A step of fixed length is spelled in its largest unit (60min is h), weeks with their day (W-SUN), so that
    equal steps have equal names.
    """
    if frequency is None:
        return _infer(times, source)
    offset = frequency_offset(frequency)
    step = fixed_step(offset)
    if isinstance(offset, pd.offsets.Week) and "-" not in frequency:
        step = offset.n * 7 * _DAY
    return _one_name(str(offset.freqstr)) if step is None else _name_step(step, times)


def shown_frequency(times: pd.DatetimeIndex) -> str | None:
    """Give the step that most rows keep, as `resolve_frequency` names it; None where there is none."""
    try:
        return _infer(times, "")
    except InputError:
        return None


def _one_name(alias: str) -> str:
    """Give the alias, quarters by the one name of the four that mean the same (QS-APR is QS-JAN)."""
    match = re.fullmatch(r"(\d*B?Q[SE]-)(\w{3})", alias)
    if not match:
        return alias
    names = _QUARTER_STARTS if match[1].endswith("S-") else _QUARTER_ENDS
    return match[1] + names[_MONTHS.index(match[2]) % 3]


def _name_step(step: int, times: pd.DatetimeIndex) -> str:
    if step % (7 * _DAY) == 0 and len(times):
        count = step // (7 * _DAY)
        return f"{count if count > 1 else ''}W-{_WEEKDAYS[times[0].weekday()]}"
    unit, size = next((unit, size) for unit, size in _UNITS if step % size == 0)
    return f"{step // size if step > size else ''}{unit}"


def _infer(times: pd.DatetimeIndex, source: str) -> str:
    """Give the frequency that most rows keep, so that a gap or a stray row can then be named."""
    if len(times) < 3:
        raise InputError(f"{source} has {len(times)} row(s), too few to tell the step: name it in data.frequency")
    local = times.tz_localize(None)
    step, share = _most_common(local)
    if step % _DAY:  # shorter steps are steps of the absolute time: clocks may be changed
        step, share = _most_common(times)
    if step >= 28 * _DAY and (monthly := _monthly(local, step)):
        return monthly
    if step == _DAY and _has_only_business_days(local):
        return "B"
    if share <= 0.5:
        raise Flaw(
            source,
            "",
            f"the rows follow each other at irregular steps (the most common, {pd.Timedelta(step)}, is {share:.0%} of "
            "them)",
            "bring them to one step, or name it in data.frequency",
        )
    return _name_step(step, times)


def _most_common(times: pd.DatetimeIndex) -> tuple[int, float]:
    steps, counts = np.unique(np.diff(times.asi8), return_counts=True)
    return int(steps[counts.argmax()]), float(counts.max() / counts.sum())


def _monthly(times: pd.DatetimeIndex, step: int) -> str | None:
    """Give the alias of steps of whole months, None where the dates are not at the ends of months."""
    months = round(step / (30.436875 * _DAY))
    month = _MONTHS[times[0].month - 1]
    for share, side in ((np.mean(times.day == 1), "S"), (np.mean(times.is_month_end), "E")):
        if share >= 0.8:
            quarters_or_years = {3: f"Q{side}-{month}", 12: f"Y{side}-{month}"}
            return _one_name(quarters_or_years.get(months, f"{months if months > 1 else ''}M{side}"))
    for alias in ("BMS", "BME"):
        if months == 1 and all(to_offset(alias).is_on_offset(time) for time in times):
            return alias
    return None


def _has_only_business_days(times: pd.DatetimeIndex) -> bool:
    over_weekend = np.diff(times.asi8) == 3 * _DAY
    return bool((times.day_of_week < 5).all() and over_weekend.any())
