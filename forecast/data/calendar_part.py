"""The part of the calendar by which errors are told apart: the hour, the weekday or the month."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from forecast.data.calendar import calendar_cycles


@dataclass(frozen=True)
class CalendarPart:
    """Something that comes round again.

    Parameters
    ----------
    name
        "hour of day", "day of week" or "month of year".
    labels
        What its numbers are called, from 0.
    numbers
        Gives the number of each time, in the index's own time zone.
    """

    name: str
    labels: tuple[str, ...]
    numbers: Callable[[pd.DatetimeIndex], pd.Index]


HOURS = CalendarPart("hour of day", tuple(map(str, range(24))), lambda index: index.hour)
WEEKDAYS = CalendarPart(
    "day of week", ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), lambda index: index.day_of_week
)
MONTHS = CalendarPart(
    "month of year",
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    lambda index: index.month - 1,
)


def calendar_part(frequency: str) -> CalendarPart | None:
    """Give the hour for steps below a day, the weekday below a week, the month below a year; None beyond."""
    cycles = calendar_cycles(frequency)
    if "hour_of_day" in cycles:
        return HOURS
    if "day_of_week" in cycles:
        return WEEKDAYS
    return MONTHS if {"day_of_year", "month_of_year"} & set(cycles) else None
