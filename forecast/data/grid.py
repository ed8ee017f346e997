"""Times in, their places on a regular grid out; off it they are refused."""

import numpy as np
import pandas as pd
from pandas.tseries.offsets import BaseOffset

from forecast.data.flaws import Flaw
from forecast.data.frequency import fixed_step, frequency_offset, is_daily
from forecast.data.local_days import from_the_wall, on_the_wall


def grid_places(times: pd.DatetimeIndex, frequency: str, rows: np.ndarray, source: str) -> np.ndarray:
    """Give each time's place on the grid of the frequency, shape (N,), the first at 0.

    Parameters
    ----------
    times
        Sorted, none twice.
    frequency
        Step of the grid. Days and longer are steps of the local calendar, shorter ones of the absolute time.
    rows
        Row number of each as a spreadsheet shows it, for the messages.

    Raises
    ------
    Flaw
        Naming the first row whose time is off the grid.
    """
    offset = frequency_offset(frequency)
    step = fixed_step(offset)
    plain = _plain(times, step)
    if step is None:
        places = pd.date_range(plain[0], plain[-1], freq=offset).get_indexer(plain)
        stray = int(np.argmax(places < 0)) if (places < 0).any() else None
    else:
        since = plain.asi8 - plain.asi8[0]
        places, phase = since // step, since % step
        stray = None
        if phase.any():  # the grid is that of most rows: the first may be the stray one
            phases, counts = np.unique(phase, return_counts=True)
            stray = int(np.argmax(phase != phases[counts.argmax()]))
    if stray is not None:
        raise Flaw(
            source,
            f", row {rows[stray]}",
            f"{times[stray]} is off the grid of one row every {frequency}",
            "correct the time, or name the right step in data.frequency",
        )
    return np.asarray(places)


def refuse_gaps(times: pd.DatetimeIndex, places: np.ndarray, frequency: str, rows: np.ndarray, source: str) -> None:
    """Raise the flaw that names the first row missing from the grid, where there is one."""
    jumps = np.diff(places) - 1
    if not jumps.any():
        return
    offset = frequency_offset(frequency)
    first = int(np.argmax(jumps > 0))
    before = times[first]
    absent = (on_the_wall(times)[first] if is_daily(fixed_step(offset)) else before) + offset
    missing = int(jumps.sum())
    raise Flaw(
        source,
        f", row {rows[first]}",
        f"after {before} the row for {absent} is missing ({missing} missing in all at step {frequency})",
        "add them, correct data.frequency, or train with data.missing=ffill, interpolate or mask",
        "data.missing=mask" if missing <= len(places) else None,  # more than are there are refused then too
    )


def whole_grid(times: pd.DatetimeIndex, places: np.ndarray, frequency: str) -> pd.DatetimeIndex:
    """Give every time of the grid from the first to the last of `times`, which stay as they are."""
    offset: BaseOffset = frequency_offset(frequency)
    step = fixed_step(offset)
    plain, count = _plain(times, step), int(places[-1]) + 1
    if step is None:
        grid = pd.date_range(plain[0], periods=count, freq=offset).as_unit("ns")
    else:
        grid = pd.DatetimeIndex((plain.asi8[0] + step * np.arange(count)).view("M8[ns]"))
    if times.tz is not None and is_daily(step):
        grid = from_the_wall(grid, times.tz)
    stamps = grid.asi8.copy()
    stamps[places] = times.asi8
    whole = pd.DatetimeIndex(stamps.view("M8[ns]"), name=times.name)
    return whole if times.tz is None else whole.tz_localize("UTC").tz_convert(times.tz)


def _plain(times: pd.DatetimeIndex, step: int | None) -> pd.DatetimeIndex:
    """Give times without a zone: those of the local calendar for days and longer, of UTC for shorter steps."""
    if times.tz is None:
        return times
    if is_daily(step):
        return on_the_wall(times)
    return times.tz_convert("UTC").tz_localize(None)
