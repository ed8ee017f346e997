"""The probe's last numbers as one picture: a row an attention, a column a head."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.board_figures import FONT_SIZE, WIDTH, pixels_of

DPI = 100
ROW, BESIDE = 0.2, 0.62
"""Inches: a row of a table; its title and the names of its columns."""

MOST_WRITTEN = 8
"""Heads up to which each number is written into its cell."""

TITLES = {
    "distance": "distance of the output from exact softmax's, as a share of its length",
    "entropy": "entropy of the weights: 0 one key, 1 all keys alike",
    "found": "share of the truly most informative queries that were chosen",
}


def heads(record: Mapping[str, Any]) -> np.ndarray:
    """Give each head's numbers of a probe's record, those above 1 in the colour of 1: (height, width, 3), uint8."""
    tables = {}
    for measure in TITLES:
        rows = {place: found[measure] for place, found in record["layers"].items() if found[measure] is not None}
        if rows:
            tables[measure] = rows
    inches = [BESIDE + ROW * len(rows) for rows in tables.values()]
    figure = Figure(figsize=(WIDTH, sum(inches)), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    top = sum(inches)
    for (measure, rows), height in zip(tables.items(), inches, strict=True):
        top -= height
        place = (0.24, (top + 0.36) / sum(inches), 0.62, (height - BESIDE) / sum(inches))
        _table(figure, figure.add_axes(place), TITLES[measure], rows)
    canvas.draw()
    return pixels_of(canvas)


def _table(figure: Figure, panel: Axes, title: str, rows: Mapping[str, list[float]]) -> None:
    widest = max(map(len, rows.values()))
    numbers = np.array([[*row, *[np.nan] * (widest - len(row))] for row in rows.values()], dtype=np.float64)
    image = panel.imshow(numbers, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    panel.set_title(title, fontsize=FONT_SIZE, loc="left", x=-0.38, pad=3)
    panel.set_yticks(range(len(rows)), rows, fontsize=FONT_SIZE)
    every = -(-widest // 16)
    panel.set_xticks(range(0, widest, every), map(str, range(0, widest, every)), fontsize=FONT_SIZE)
    panel.tick_params(length=2, pad=1)
    panel.set_xlabel("head", fontsize=FONT_SIZE, labelpad=0)
    if widest <= MOST_WRITTEN:
        for (row, column), number in np.ndenumerate(numbers):
            if np.isfinite(number):
                color = "black" if number > 0.55 else "white"
                panel.text(column, row, f"{number:.2f}", color=color, fontsize=FONT_SIZE - 1, ha="center", va="center")
    bar = figure.colorbar(image, ax=panel, fraction=0.05, pad=0.02, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=FONT_SIZE, length=2, pad=1)
