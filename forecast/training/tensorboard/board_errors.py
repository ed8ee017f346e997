"""Where in the day, the week or the year the errors are, as a picture for the board."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.evaluation.by_calendar import PartErrors
from forecast.training.tensorboard.board_figures import COLORS, DPI, FONT_SIZE, WIDTH, pixels_of

MOST_LABELS = 12


def by_part(errors: PartErrors) -> np.ndarray:
    """Give bars of the mean absolute error and a line of the bias: (height, width, 3), uint8."""
    figure = Figure(figsize=(WIDTH, 2.6), dpi=DPI)
    figure.subplots_adjust(left=0.14, right=0.98, bottom=0.25, top=0.91)
    canvas = FigureCanvasAgg(figure)
    panel = figure.subplots()
    there = np.flatnonzero(np.isfinite(errors.mae))
    places = np.arange(len(there))
    panel.bar(places, errors.mae[there], color=COLORS["model"], width=0.7, label="mean absolute error")
    panel.plot(
        places, errors.bias[there], color="black", marker=".", linewidth=0.9, label="mean of truth less forecast"
    )
    panel.axhline(0, color="0.6", linewidth=0.8)
    every = -(-len(there) // MOST_LABELS)
    panel.set_xticks(places[::every], [errors.part.labels[number] for number in there[::every]])
    panel.set_xlabel(f"{errors.part.name} that was forecast", fontsize=FONT_SIZE)
    panel.set_ylabel("in the series' own unit", fontsize=FONT_SIZE)
    panel.set_title(f"{errors.series}, validation windows", fontsize=FONT_SIZE, loc="left", pad=3, parse_math=False)
    panel.tick_params(labelsize=FONT_SIZE)
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="lower center", fontsize=FONT_SIZE, ncols=2, frameon=False, borderpad=0)
    canvas.draw()
    return pixels_of(canvas)
