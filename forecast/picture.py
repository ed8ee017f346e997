"""A picture of a forecast beside what came before it, and the truth where it is known."""

from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.files import replacing
from forecast.lone_points import draw_line

MAX_SERIES = 7
"""Series drawn; a table with more shows the first ones and says so."""


def draw_forecast(
    path: Path, past: pd.DataFrame, forecast: pd.DataFrame, truth: pd.DataFrame | None = None, title: str = ""
) -> None:
    """Write a PNG: one panel a target, in original units, the last three horizons of the past at most."""
    names = list(forecast.columns)[:MAX_SERIES]
    shown = past.iloc[-3 * len(forecast) :]
    height = 1.2 + 1.7 * len(names)
    figure = Figure(figsize=(10, height))
    # by hand: a layout engine draws everything twice to find the same places
    figure.subplots_adjust(left=0.09, right=0.99, top=1 - 0.35 / height, bottom=0.95 / height, hspace=0.12)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, names, strict=True):
        draw_line(panel, shown.index, shown[name].to_numpy(), color="0.45", linewidth=1, label="past")
        if truth is not None:
            draw_line(panel, truth.index, truth[name].to_numpy(), color="black", linewidth=1, label="truth")
        draw_line(panel, forecast.index, forecast[name].to_numpy(), color="tab:orange", linewidth=1.6, label="forecast")
        panel.axvline(forecast.index[0], color="0.8", linewidth=0.8)
        panel.set_ylabel(name, fontsize=8, parse_math=False)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", fontsize=8, ncols=3, frameon=False)
    left_out = len(forecast.columns) - len(names)
    figure.suptitle(
        title + (f" ({left_out} more series not shown)" if left_out else ""),
        fontsize=10,
        y=1 - 0.08 / height,
        va="top",
        parse_math=False,
    )
    figure.autofmt_xdate(bottom=0.95 / height)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
