"""The probe's last numbers as one picture: a row an attention, a column a head."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.board_figures import DPI, FONT_SIZE, WIDTH, pixels_of

ROW, ABOVE, BELOW = 0.2, 0.1, 0.36
"""Inches: a row of the table, what is above and below it."""

MOST_WRITTEN = 48
"""Numbers up to which each is written into its cell: that is what takes the time."""

TITLES = {
    "distance": "distance of the output from exact softmax's, as a share of its length",
    "entropy": "entropy of the weights: 0 one key, 1 all keys alike",
    "found": "share of the truly most informative queries that were chosen",
}


def heads(record: Mapping[str, Any]) -> np.ndarray:
    """Give each head's numbers of a probe's record, those above 1 in the colour of 1: (height, width, 3), uint8."""
    numbers, names, titles = _rows(record["layers"])
    height = ABOVE + ROW * len(numbers) + BELOW
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    panel = figure.add_axes((0.24, BELOW / height, 0.62, ROW * len(numbers) / height))
    image = panel.imshow(numbers, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    widest = numbers.shape[1]
    every = -(-widest // 16)
    panel.set_xticks(range(0, widest, every), map(str, range(0, widest, every)), fontsize=FONT_SIZE)
    panel.set_yticks(list(names), names.values(), fontsize=FONT_SIZE)
    panel.tick_params(length=2, pad=1)
    panel.spines[:].set_visible(False)
    panel.set_xlabel("head", fontsize=FONT_SIZE, labelpad=1)
    for row, title in titles.items():
        figure.text(0.02, 1 - (ABOVE + ROW * (row + 0.5)) / height, title, fontsize=FONT_SIZE, va="center")
    if numbers.size <= MOST_WRITTEN:
        _write(panel, numbers)
    bar = figure.add_axes((0.89, BELOW / height, 0.025, min(1.0, ROW * (len(numbers) - 1)) / height))
    figure.colorbar(image, cax=bar, ticks=[0, 0.5, 1]).ax.tick_params(labelsize=FONT_SIZE, length=2, pad=1)
    canvas.draw()
    return pixels_of(canvas)


def _rows(layers: Mapping[str, Any]) -> tuple[np.ndarray, dict[int, str], dict[int, str]]:
    """Give all measures' rows one below the other, NaN where there is none, with the places' names and titles."""
    rows: list[list[float]] = []
    names, titles = {}, {}
    for measure, title in TITLES.items():
        there = {place: found[measure] for place, found in layers.items() if found[measure] is not None}
        if there:
            titles[len(rows)] = title
            rows.append([])
        for place, numbers in there.items():
            names[len(rows)] = place
            rows.append(numbers)
    widest = max(map(len, rows))
    return np.array([[*row, *[np.nan] * (widest - len(row))] for row in rows], dtype=np.float64), names, titles


def _write(panel: Axes, numbers: np.ndarray) -> None:
    for (row, column), number in np.ndenumerate(numbers):
        if np.isfinite(number):
            color = "black" if number > 0.55 else "white"
            panel.text(column, row, f"{number:.2f}", color=color, fontsize=FONT_SIZE - 1, ha="center", va="center")
