"""Pictures: lines with gaps, and a forecast beside its past."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from forecast.common.files import replacing

MAX_SERIES = 7
"""Largest number of series in a picture: the first ones are drawn, the others named."""

NAMED = 5
"""Largest number of undrawn series in a line."""


def plot_line(panel: Axes, places: Any, values: np.ndarray, **style: Any) -> list[Line2D]:
    """Draw a line through n values, and a point where a value has no finite neighbour."""
    finite = np.pad(np.isfinite(np.asarray(values, dtype=float)), 1)
    alone = finite[1:-1] & ~finite[:-2] & ~finite[2:]
    return panel.plot(places, values, marker="." if alone.any() else "", markevery=alone, **style)


def not_drawn(picture: Path, targets: Sequence[str]) -> str | None:
    """Return a line that names the targets not drawn in a picture, None if all are drawn."""
    absent = targets[MAX_SERIES:]
    return f"{picture.name}: {_share(targets)}; not drawn: {_shortened(absent)}" if absent else None


Ends = Mapping[float, tuple[pd.DataFrame, pd.DataFrame]]
"""Lower and upper ends of intervals, by their level in per cent."""


def draw_forecast(
    path: Path,
    past: pd.DataFrame,
    forecast: pd.DataFrame,
    truth: pd.DataFrame | None = None,
    title: str = "",
    *,
    ends: Ends | None = None,
    naive: pd.DataFrame | None = None,
) -> None:
    """Write a PNG: one panel per target, in original units, with at most three horizons of the past.

    The intervals `ends` are a fan, darker inside; `naive` is the naive forecast.
    """
    names = list(forecast.columns)[:MAX_SERIES]
    shown = past.iloc[-3 * len(forecast) :]
    absent = [str(name) for name in forecast.columns[MAX_SERIES:]]
    if absent:
        title += f"\n{_share(forecast.columns)}; not drawn: {shorten(_shortened(absent), 105, placeholder=' …')}"
    height, above = 1.2 + 1.7 * len(names), 0.52 if absent else 0.35
    figure = Figure(figsize=(10, height))
    # fixed positions: a layout engine draws everything twice for the same result
    figure.subplots_adjust(left=0.09, right=0.99, top=1 - above / height, bottom=0.95 / height, hspace=0.12)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, names, strict=True):
        plot_line(panel, shown.index, shown[name].to_numpy(), color="0.45", linewidth=1, label="past")
        if truth is not None:
            plot_line(panel, truth.index, truth[name].to_numpy(), color="black", linewidth=1, label="truth")
        if naive is not None:
            plot_line(panel, naive.index, naive[name].to_numpy(), color="tab:green", linewidth=0.9, label="naive")
        _draw_fan(panel, name, ends or {})
        plot_line(panel, forecast.index, forecast[name].to_numpy(), color="tab:orange", linewidth=1.6, label="forecast")
        panel.axvline(forecast.index[0], color="0.8", linewidth=0.8)
        panel.set_ylabel(name, fontsize=8, parse_math=False)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", fontsize=8, ncols=8, frameon=False)
    figure.suptitle(title, fontsize=8 if absent else 10, y=1 - 0.08 / height, va="top", parse_math=False)
    figure.autofmt_xdate(bottom=0.95 / height)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})


def _draw_fan(panel: Axes, name: str, ends: Ends) -> None:
    """Shade the intervals of a target, the widest first."""
    for place, (level, (lower, upper)) in enumerate(sorted(ends.items(), reverse=True)):
        panel.fill_between(
            lower.index,
            lower[name].to_numpy(),
            upper[name].to_numpy(),
            color="tab:orange",
            alpha=min(0.6, 0.2 + 0.15 * place),
            linewidth=0,
            label=f"{level:g} % interval",
        )


def _share(targets: Sequence[str] | pd.Index) -> str:
    return f"the first {MAX_SERIES} of {len(targets)} targets"


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
