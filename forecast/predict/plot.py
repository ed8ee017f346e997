"""Pictures in Python: a forecast on axes of matplotlib, beside its past and the seasonal naive forecast."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.pictures import MAX_SERIES, SHEET, Lines, draw_lines
from forecast.predict.answer import naive_forecast
from forecast.predict.forecast import Forecast, PanelForecast, Question
from forecast.predict.input import ids_of
from forecast.tables.formats.frames import as_frame
from forecast.tables.series import Series

PAST = 3
"""Horizons of the past in a picture."""


def plot_panel(forecast: PanelForecast, series: Series, target: str, axes: Any) -> Any:
    """Draw the first target of at most nine series; see `PanelForecaster.plot`."""
    count = min(SHEET, len(forecast.ids))
    panels = panels_of(axes, count, shared=False)
    for place, panel in enumerate(panels):
        lines = panel_lines(forecast, series, target, place)
        draw_lines(panel, lines)
        panel.set_ylabel(lines.name, parse_math=False)
    return finished(panels, axes)


def panel_lines(forecast: PanelForecast, series: Series, target: str, place: int) -> Lines:
    """Return the lines of the first target of the series at `place`."""
    dates, ids = forecast.dates[place], ids_of(series)
    stop = int(ids.offsets[place + 1])
    past = series.measured[target].iloc[max(int(ids.offsets[place]), stop - PAST * len(dates)) : stop]

    def line(values: np.ndarray) -> pd.Series:
        return pd.Series(values[place, :, 0], index=dates)

    ends = {level: (line(low), line(high)) for level, (low, high) in forecast.ends.items()}
    name = ", ".join(ids.names[place])
    return Lines(name, past, line(forecast.values), naive=line(forecast.naive), ends=ends)


def plot_forecast(
    forecast_of: Callable[[Any, Any, Question], tuple[Series, Forecast]],
    frame: Any,
    known: Any,
    question: Question,
    truth: Any,
    axes: Any,
) -> Any:
    """Draw what a model makes of a table, its series and the forecast after it; see `Forecaster.plot`."""
    series, forecast = forecast_of(frame, known, question)
    values, names = forecast.values, list(forecast.values.columns)[:MAX_SERIES]
    dates = pd.DatetimeIndex(values.index)
    naive = naive_forecast(series, names, series.frequency, dates)
    came = None if truth is None else _truth(truth, names, dates)
    past = series.measured.iloc[-PAST * len(values) :]
    panels = panels_of(axes, len(names))
    for panel, name in zip(panels, names, strict=True):
        ends = {level: (low[name], high[name]) for level, (low, high) in forecast.ends.items()}
        draw_lines(
            panel, Lines(name, past[name], values[name], None if came is None else came[name], naive[name], ends)
        )
        panel.set_ylabel(name, parse_math=False)
    return finished(panels, axes)


def panels_of(axes: Any, count: int, *, shared: bool = True) -> np.ndarray:
    """Return the axes to draw on, (count,): those that are given, or those of a new figure."""
    if axes is None:
        from matplotlib import pyplot

        figure, panels = pyplot.subplots(count, 1, sharex=shared, squeeze=False, figsize=(10, 1.2 + 2.2 * count))
        if shared:
            figure.autofmt_xdate()
        return np.asarray(panels[:, 0])
    panels = np.atleast_1d(axes).ravel()
    if len(panels) != count:
        raise InputError(f"axes: {len(panels)} given, the picture has {count}: give one for each")
    return panels


def finished(panels: np.ndarray, axes: Any) -> Any:
    """Add the legend, and return one axes as itself and several as an array."""
    panels[0].legend(loc="upper left", fontsize=8, frameon=False, ncols=4)
    return (panels[0] if len(panels) == 1 else panels) if axes is None else axes


def _truth(truth: Any, names: Sequence[str], dates: pd.DatetimeIndex) -> pd.DataFrame:
    """Return the values that came at the dates of a forecast, NaN where they are unknown."""
    table = as_frame(truth, "truth")
    column = str(dates.name if dates.name in table.columns else table.columns[0])
    times = pd.DatetimeIndex(pd.to_datetime(table[column]))
    return table.set_axis(times, axis=0).reindex(columns=list(names)).reindex(dates)
