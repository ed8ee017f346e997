"""Figures of errors for TensorBoard."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from forecast.common.pictures import plot_line
from forecast.evaluation.evaluate import PartErrors
from forecast.evaluation.metrics import Scores

DPI = 80
WIDTH, HEIGHT = 334 / DPI, 208 / DPI
"""Size in inches of the pictures that open first.

A card of TensorBoard's first page has 334 x 215 pixels. It drops pixels of larger pictures, so their text breaks.
"""

FONT_SIZE = 7
THIN = 0.9
COLORS = {"model": "tab:orange", "linear": "tab:blue", "seasonal_naive": "tab:green", "last_value": "0.55"}
"""Colors of the rows of a result in all pictures."""


class ForecastPanels:
    """Stacked panels of K windows with past, truth and seasonal naive, in which a forecast can be drawn repeatedly.

    `past` (K, T), `truth` (K, h) and `naive` (K, h) or None are in original units of one series. NaN is not drawn.
    """

    def __init__(self, past: np.ndarray, truth: np.ndarray, naive: np.ndarray | None, titles: Sequence[str]) -> None:
        height = max(HEIGHT, 0.6 + 0.55 * len(past))
        figure = Figure(figsize=(WIDTH, height), dpi=DPI)
        figure.subplots_adjust(left=0.11, right=0.98, bottom=0.55 / height, top=1 - 0.16 / height, hspace=0.45)
        self._canvas = FigureCanvasAgg(figure)
        self._panels = figure.subplots(len(past), 1, sharex=True, squeeze=False)[:, 0]
        before, ahead = np.arange(-past.shape[1], 0), np.arange(truth.shape[1])
        self._lines = []
        for row, panel in enumerate(self._panels):
            plot_line(panel, before, past[row], color="0.6", linewidth=THIN, label="past")
            plot_line(panel, ahead, truth[row], color="black", linewidth=THIN, label="truth")
            if naive is not None:
                color = COLORS["seasonal_naive"]
                plot_line(panel, ahead, naive[row], color=color, linewidth=THIN, label="seasonal naive")
            self._lines += plot_line(
                panel, ahead, np.zeros(len(ahead)), color=COLORS["model"], linewidth=1.2, label="forecast"
            )
            panel.axvline(0, color="0.8", linewidth=0.8)
            panel.set_title(titles[row], fontsize=FONT_SIZE, loc="left", y=1.0, pad=2, parse_math=False)
            panel.tick_params(labelsize=FONT_SIZE)
            panel.locator_params(axis="y", nbins=2)
            panel.xaxis.set_visible(panel is self._panels[-1])
            panel.spines[["top", "right"]].set_visible(False)
        self._panels[-1].set_xlabel("time steps from the first forecast", fontsize=FONT_SIZE)
        handles = self._panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="lower center", fontsize=FONT_SIZE, ncols=4, frameon=False, borderpad=0)
        self._background: object = None

    def pixels(self, forecast: np.ndarray) -> np.ndarray:
        """Return the picture with `forecast`, shape (K, h), original units: (height, width, 3), uint8.

        Only the lines of the forecast are redrawn, unless one leaves the range of its axis.
        """
        for line, values in zip(self._lines, forecast, strict=True):
            line.set_ydata(values)
        if self._background is None or any(map(_exceeds, self._panels, self._lines)):
            self._draw_background()
        self._canvas.restore_region(self._background)
        for panel, line in zip(self._panels, self._lines, strict=True):
            panel.draw_artist(line)
        return pixels_of(self._canvas)

    def _draw_background(self) -> None:
        for panel, line in zip(self._panels, self._lines, strict=True):
            panel.relim()
            panel.autoscale_view()
            line.set_visible(False)
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self._canvas.figure.bbox)
        for line in self._lines:
            line.set_visible(True)


def draw_step_errors(rows: Mapping[str, Sequence[Scores]], split: str = "test") -> np.ndarray:
    """Draw the MSE of each row on a split at each horizon step: (height, width, 3), uint8.

    `rows` has one score per step for each row; rows without a color in `COLORS` are not drawn.
    """
    panel = _new_panel(left=0.11, bottom=0.23, top=0.97)
    for name, color in COLORS.items():
        if name in rows:
            mse = [scores["mse"] for scores in rows[name]]
            width = 2.0 if name == "model" else 1.1
            dashes = "--" if name == "linear" else "-"  # it may hide the model, which can equal its linear path
            steps, label = np.arange(1, len(mse) + 1), name.replace("_", " ")
            plot_line(panel, steps, np.array(mse), color=color, linewidth=width, linestyle=dashes, label=label)
    panel.set_xlabel("horizon step", fontsize=FONT_SIZE)
    panel.set_ylabel(f"{split} MSE (z-scores)", fontsize=FONT_SIZE)
    panel.set_ylim(bottom=0)
    return _pixels_with_legend(panel)


def draw_reliability(curves: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    """Draw the share of targets at or below each quantile, against its level: (height, width, 3), uint8.

    `curves` has the shares by level for each label, as `forecast.evaluation.interval_scores.IntervalSums.reliability`
    returns them. On the diagonal, each quantile is exceeded as often as it says.
    """
    panel = _new_panel(left=0.11, bottom=0.23, top=0.97)
    panel.plot((0, 1), (0, 1), color="0.75", linewidth=THIN, label="ideal")
    for (label, shares), style in zip(curves.items(), CURVES, strict=False):
        panel.plot([float(level) for level in shares], list(shares.values()), label=label, **style)
    panel.set_xlabel("quantile level", fontsize=FONT_SIZE)
    panel.set_ylabel("share of targets below", fontsize=FONT_SIZE)
    return _pixels_with_legend(panel)


CURVES: tuple[dict[str, Any], ...] = (
    {"color": "tab:orange", "linewidth": 1.6, "marker": ".", "markersize": 5},
    {"color": "tab:blue", "linewidth": 1.0, "linestyle": "--", "marker": ".", "markersize": 3},
    {"color": "tab:orange", "linewidth": 1.0, "linestyle": ":", "marker": ".", "markersize": 3},
)
"""Styles of a reliability diagram: model and ridge on the scored split, the model on validation."""


def draw_step_coverage(coverage: Mapping[int, Sequence[float]], split: str = "test") -> np.ndarray:
    """Draw the coverage of each interval at each horizon step: (height, width, 3), uint8.

    `coverage` has a share for each step on a split, by the level in per cent, which is a thin line.
    """
    panel = _new_panel(left=0.11, bottom=0.23, top=0.97)
    for (percent, shares), color in zip(coverage.items(), ("tab:orange", "tab:blue"), strict=False):
        steps = np.arange(1, len(shares) + 1)
        panel.axhline(percent, color=color, linewidth=0.7, linestyle=":")
        plot_line(panel, steps, 100 * np.array(shares), color=color, linewidth=1.4, label=f"{percent} % interval")
    panel.set_xlabel("horizon step", fontsize=FONT_SIZE)
    panel.set_ylabel(f"{split} coverage, %", fontsize=FONT_SIZE)
    panel.set_ylim(top=100)
    return _pixels_with_legend(panel)


def _exceeds(panel: Axes, line: Line2D) -> bool:
    low, high = panel.get_ylim()
    values = np.asarray(line.get_ydata())
    return bool(values.min() < low or values.max() > high)


def pixels_of(canvas: FigureCanvasAgg) -> np.ndarray:
    """Return the canvas as an image: (height, width, 3), uint8."""
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)[..., :3]


MAX_LABELS = 12


def draw_calendar_errors(errors: PartErrors) -> np.ndarray:
    """Draw bars of the mean absolute error and a line of the bias: (height, width, 3), uint8."""
    panel = _new_panel(left=0.14, bottom=0.25, top=0.91)
    scored = np.flatnonzero(np.isfinite(errors.mae))
    positions = np.arange(len(scored))
    panel.bar(positions, errors.mae[scored], color=COLORS["model"], width=0.7, label="mean absolute error")
    panel.plot(
        positions, errors.bias[scored], color="black", marker=".", linewidth=0.9, label="mean of truth minus forecast"
    )
    panel.axhline(0, color="0.6", linewidth=0.8)
    every = -(-len(scored) // MAX_LABELS)
    panel.set_xticks(positions[::every], [errors.part.labels[number] for number in scored[::every]])
    panel.set_xlabel(f"{errors.part.name} (forecast time)", fontsize=FONT_SIZE)
    panel.set_ylabel("error in original units", fontsize=FONT_SIZE)
    panel.set_title(f"{errors.series}, validation windows", fontsize=FONT_SIZE, loc="left", pad=3, parse_math=False)
    return _pixels_with_legend(panel)


def _new_panel(left: float, bottom: float, top: float) -> Axes:
    """Return the axes of a new figure with fixed margins, since a layout engine would draw everything twice."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
    figure.subplots_adjust(left=left, right=0.98, bottom=bottom, top=top)
    return figure.subplots()


def _pixels_with_legend(panel: Axes) -> np.ndarray:
    """Return the pixels of the panel's figure with a legend below the panel."""
    panel.tick_params(labelsize=FONT_SIZE)
    panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panel.get_legend_handles_labels()
    figure = panel.get_figure(root=True)
    assert figure is not None
    figure.legend(handles, labels, loc="lower center", fontsize=FONT_SIZE, ncols=4, frameon=False, borderpad=0)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return pixels_of(canvas)
