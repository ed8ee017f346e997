"""One picture of a table: a panel for each column, or for each of the first series of a long table."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from forecast.common.files import replacing
from forecast.common.pictures import MAX_SERIES, plot_line
from forecast.tables.series import Series

_POINTS = 2000
"""Largest number of points of a line; of more rows, the least and the largest value of each group are drawn."""


def draw_columns(path: Path, series: Series, title: str) -> None:
    """Write a PNG with the values of the first columns, or of the first column in the first series of a panel."""
    lines = _lines_of(series)
    height = 0.9 + 1.5 * len(lines)
    figure = Figure(figsize=(10, height))
    figure.subplots_adjust(left=0.09, right=0.985, top=1 - 0.4 / height, bottom=0.5 / height, hspace=0.15)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (name, times, values) in zip(panels, lines, strict=True):
        places = _drawn(values)
        plot_line(panel, times[places], values[places], linewidth=0.8, color="tab:blue")
        panel.set_ylabel(name, fontsize=8, parse_math=False)
        panel.tick_params(labelsize=7)
        panel.grid(alpha=0.3)
    locator = AutoDateLocator()
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    figure.suptitle(title, fontsize=10, y=1 - 0.08 / height, va="top", parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=100, metadata={"Software": None})


def _lines_of(series: Series) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return the name, the times and the values of each line."""
    times = np.asarray(series.frame.index.tz_localize(None))  # type: ignore[attr-defined]  # of dates
    frame = series.measured
    if series.ids is None:
        names = list(frame.columns[:MAX_SERIES])
        return [(str(name), times, frame[name].to_numpy(np.float64)) for name in names]
    first = frame.iloc[:, 0].to_numpy(np.float64)
    spans = [
        slice(series.ids.first_rows[place], series.ids.offsets[place + 1])
        for place in range(min(MAX_SERIES, len(series.ids)))
    ]
    return [(series.ids.shown(place), times[span], first[span]) for place, span in enumerate(spans)]


def _drawn(values: np.ndarray) -> np.ndarray:
    """Return the places of the points of a line: all, or the least and the largest value of equal groups."""
    size = -(-2 * len(values) // _POINTS)
    if size <= 2:
        return np.arange(len(values))
    count = len(values) // size
    groups = values[: count * size].reshape(count, size)
    low = np.where(np.isnan(groups), np.inf, groups).argmin(axis=1)
    high = np.where(np.isnan(groups), -np.inf, groups).argmax(axis=1)
    ends = np.sort(np.stack([low, high], axis=1), axis=1) + size * np.arange(count)[:, None]
    return np.concatenate([ends.ravel(), np.arange(count * size, len(values))])
