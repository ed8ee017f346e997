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


def sizes(table: pd.DataFrame, view: str) -> pd.DataFrame:
    """Return the mean absolute contribution of each part of a view to a step, and the mean, in the table's order.

    A daily cycle moves the forecast up and down, so that its mean over a day says nothing.
    """
    rows = table[(table["by"] == view) & (table["part"] != REFERENCE)]
    found = rows.assign(size=rows["contribution"].abs()).groupby("part", sort=False)[["size", "contribution"]].mean()
    return found.rename(columns={"contribution": "mean"})


def lines(table: pd.DataFrame, target: str) -> list[str]:
    """Return the forecast and its reference as means over the horizon, and the largest contributions."""
    rows = table[table["by"] == COLUMN]
    calm = rows[rows["part"] == REFERENCE]["contribution"].mean()
    whole = rows.groupby("time")["contribution"].sum().mean()
    times = rows["time"]
    text = [
        f"{target}, {times.min()} to {times.max()}: mean {whole:.5g}; from a flat past {calm:.5g}; "
        f"difference {whole - calm:+.4g}"
    ]
    for view, words in WORDS.items():
        found = sizes(table, view)
        largest = found.sort_values("size", ascending=False, kind="stable").head(SHOWN)
        more = f"; {len(found) - SHOWN} smaller" if len(found) > SHOWN else ""
        named = ", ".join(f"{part} {row['size']:.4g} ({row['mean']:+.4g})" for part, row in largest.iterrows())
        text.append(f"  {words}, mean size of the contribution to a step (its mean): {named}{more}")
    error = table["error"].max()
    is_exact = error <= ROUNDING * table["contribution"].abs().max()
    exact = "exact: every order of the parts gives the same contributions, or all orders were used"
    text.append(f"  {exact if is_exact else f'the standard error of sampling is at most {error:.2g}'}")
    return text


def draw(path: Path, table: pd.DataFrame, title: str) -> None:
    """Write a PNG: the forecast and its reference, and the size of the contribution of each part in both views."""
    both = {view: sizes(table, view)["size"] for view in WORDS}
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
        panel.barh(seats, found.to_numpy(), color="tab:orange", height=0.7)
        panel.set_yticks(seats)
        panel.set_yticklabels([str(part) for part in found.index], fontsize=7, parse_math=False)
        panel.set_title(f"mean size of the contribution to a step\n{WORDS[view]}", fontsize=9)
    for panel in figure.axes:
        panel.tick_params(axis="x", labelsize=8)
        panel.tick_params(axis="y", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10, parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
