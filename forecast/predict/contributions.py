"""The contributions to a forecast as printed lines and as a picture."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.common.files import replacing
from forecast.common.pictures import plot_line
from forecast.predict.explanation import COLUMN, PAST, REFERENCE

SHOWN = 6
"""Largest number of parts in a printed line."""

ROUNDING = 1e-6
"""Largest standard error, relative to the largest contribution, that is rounding."""

WORDS = {COLUMN: "by column", PAST: "by part of the past"}


def means(table: pd.DataFrame, view: str) -> pd.Series:
    """Return the mean contribution of each part of a view over the horizon, without the reference, in order."""
    rows = table[(table["by"] == view) & (table["part"] != REFERENCE)]
    return rows.groupby("part", sort=False)["contribution"].mean()


def lines(table: pd.DataFrame, target: str) -> list[str]:
    """Return the forecast, its reference and the largest contributions, each as a mean over the horizon."""
    rows = table[table["by"] == COLUMN]
    calm = rows[rows["part"] == REFERENCE]["contribution"].mean()
    whole = rows.groupby("time")["contribution"].sum().mean()
    times = rows["time"]
    text = [
        f"{target}, {times.min()} to {times.max()}: mean {whole:.5g}; from a flat past {calm:.5g}; "
        f"difference {whole - calm:+.4g}"
    ]
    for view, words in WORDS.items():
        found = means(table, view)
        largest = found.loc[found.abs().sort_values(ascending=False, kind="stable").index[:SHOWN]]
        more = f"; {len(found) - SHOWN} smaller" if len(found) > SHOWN else ""
        text.append(f"  {words}: {', '.join(f'{part} {value:+.4g}' for part, value in largest.items())}{more}")
    error = table["error"].max()
    is_exact = error <= ROUNDING * table["contribution"].abs().max()
    exact = "exact: every order of the parts gives the same contributions, or all orders were used"
    text.append(f"  {exact if is_exact else f'the standard error of sampling is at most {error:.2g}'}")
    return text


def draw(path: Path, table: pd.DataFrame, title: str) -> None:
    """Write a PNG: the forecast and its reference, and the mean contribution of each part in both views."""
    both = {view: means(table, view) for view in WORDS}
    height = 2.6 + 0.26 * max(map(len, both.values()))
    figure = Figure(figsize=(11, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, height_ratios=[1.7, height - 2.2])
    top = figure.add_subplot(grid[0, :])
    rows = table[table["by"] == COLUMN]
    calm = rows[rows["part"] == REFERENCE]
    times = pd.DatetimeIndex(calm["time"])
    whole = rows.groupby("time")["contribution"].sum().to_numpy()
    plot_line(top, times, whole, color="tab:orange", linewidth=1.6, label="forecast")
    plot_line(top, times, calm["contribution"].to_numpy(), color="0.45", linewidth=1, label="from a flat past")
    top.legend(fontsize=8, frameon=False)
    for place, (view, found) in enumerate(both.items()):
        panel = figure.add_subplot(grid[1, place])
        seats = np.arange(len(found))[::-1]
        colours = np.where(found.to_numpy() < 0, "tab:blue", "tab:orange")
        panel.barh(seats, found.to_numpy(), color=colours, height=0.7)
        panel.set_yticks(seats)
        panel.set_yticklabels([str(part) for part in found.index], fontsize=7, parse_math=False)
        panel.axvline(0, color="0.5", linewidth=0.8)
        panel.set_title(f"mean contribution {WORDS[view]}", fontsize=9)
    for panel in figure.axes:
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10, parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
