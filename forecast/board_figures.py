"""The board's pictures, as pixels: small, and drawn anew only where they change."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from forecast.metrics import Scores

DPI = 80
COLORS = {"model": "tab:orange", "linear": "tab:blue", "seasonal_naive": "tab:green", "last_value": "0.55"}
"""Of the rows of a result, the same in every picture."""


class ForecastPanels:
    """Windows one below the other: the past, the truth and the seasonal naive, over which a forecast is put.

    Parameters
    ----------
    past, truth, naive
        Shapes (K, T), (K, h), (K, h) or None, original units of one series; NaN is not drawn.
    titles
        K of them.
    name
        Of the series.
    """

    def __init__(
        self, past: np.ndarray, truth: np.ndarray, naive: np.ndarray | None, titles: Sequence[str], name: str
    ) -> None:
        figure = Figure(figsize=(7, 0.8 + 1.6 * len(past)), dpi=DPI, layout="constrained")
        self._canvas = FigureCanvasAgg(figure)
        self._panels = figure.subplots(len(past), 1, sharex=True, squeeze=False)[:, 0]
        before, ahead = np.arange(-past.shape[1], 0), np.arange(truth.shape[1])
        self._lines = []
        for place, panel in enumerate(self._panels):
            panel.plot(before, past[place], color="0.6", linewidth=1, label="past")
            panel.plot(ahead, truth[place], color="black", linewidth=1, label="truth")
            if naive is not None:
                panel.plot(ahead, naive[place], color=COLORS["seasonal_naive"], linewidth=0.9, label="seasonal naive")
            empty = np.full(len(ahead), np.nan)
            self._lines += panel.plot(ahead, empty, color=COLORS["model"], linewidth=1.5, label="forecast")
            panel.axvline(0, color="0.8", linewidth=0.8)
            panel.set_title(titles[place], fontsize=8, loc="left", pad=2)
            panel.set_ylabel(name, fontsize=8, parse_math=False)
            panel.tick_params(labelsize=8)
            panel.spines[["top", "right"]].set_visible(False)
        self._panels[-1].set_xlabel("steps from the first forecast", fontsize=8)
        handles = self._panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", fontsize=8, ncols=4, frameon=False)
        self._background: object = None

    def pixels(self, forecast: np.ndarray) -> np.ndarray:
        """Give the picture with `forecast`, shape (K, h), original units: (height, width, 3), uint8.

        Only the forecast's own lines are drawn anew, unless one leaves its panel.
        """
        for line, values in zip(self._lines, forecast, strict=True):
            line.set_ydata(values)
        if self._background is None or any(map(_leaves, self._panels, self._lines)):
            self._draw_background()
        self._canvas.restore_region(self._background)
        for panel, line in zip(self._panels, self._lines, strict=True):
            panel.draw_artist(line)
        return _pixels(self._canvas)

    def _draw_background(self) -> None:
        for panel, line in zip(self._panels, self._lines, strict=True):
            panel.relim()
            panel.autoscale_view()
            line.set_visible(False)
        self._canvas.draw()
        self._canvas.figure.set_layout_engine("none")  # it has found its places, at a third of the cost
        self._background = self._canvas.copy_from_bbox(self._canvas.figure.bbox)
        for line in self._lines:
            line.set_visible(True)


def errors_by_step(rows: Mapping[str, Sequence[Scores]]) -> np.ndarray:
    """Give the test error of each row of a result at each step of the horizon: (height, width, 3), uint8.

    Parameters
    ----------
    rows
        By the names of `COLORS`, others are left out: a score a step, on z-scores.
    """
    figure = Figure(figsize=(7, 3.2), dpi=DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panel = figure.subplots()
    for name, color in COLORS.items():
        if name in rows:
            mse = [scores["mse"] for scores in rows[name]]
            width = 1.8 if name == "model" else 1.1
            panel.plot(np.arange(1, len(mse) + 1), mse, color=color, linewidth=width, label=name.replace("_", " "))
    panel.set_xlabel("step of the horizon", fontsize=8)
    panel.set_ylabel("test MSE of z-scores", fontsize=8)
    panel.set_ylim(bottom=0)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(fontsize=8, frameon=False)
    canvas.draw()
    return _pixels(canvas)


def _leaves(panel: Axes, line: Line2D) -> bool:
    low, high = panel.get_ylim()
    values = np.asarray(line.get_ydata())
    return bool(values.min() < low or values.max() > high)


def _pixels(canvas: FigureCanvasAgg) -> np.ndarray:
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)[..., :3]
