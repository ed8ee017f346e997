"""Pictures: lines with gaps, and a forecast beside its past."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
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
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, names, strict=True):
        own = {level: (lower[name], upper[name]) for level, (lower, upper) in (ends or {}).items()}
        came, simple = (None if frame is None else frame[name] for frame in (truth, naive))
        draw_lines(panel, Lines(name, shown[name], forecast[name], came, simple, own))
        panel.set_ylabel(name, fontsize=8, parse_math=False)
    figure.autofmt_xdate(bottom=0.95 / height)
    _save(figure, path, panels[0], title, size=8 if absent else 10)


def _save(figure: Figure, path: Path, panel: Axes, title: str, *, size: int = 10) -> None:
    """Write a PNG of a figure with the legend of a panel and a title, with letters of this size."""
    figure.legend(*panel.get_legend_handles_labels(), loc="lower center", fontsize=8, ncols=8, frameon=False)
    figure.suptitle(title, fontsize=size, y=1 - 0.08 / figure.get_figheight(), va="top", parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})


@dataclass(frozen=True)
class Lines:
    """The lines of one target: its past, its forecast, what came, the naive forecast, and the ends of intervals."""

    name: str
    past: pd.Series
    forecast: pd.Series
    truth: pd.Series | None = None
    naive: pd.Series | None = None
    ends: Mapping[float, tuple[pd.Series, pd.Series]] = field(default_factory=dict)


SHEET = 9
"""Series on a sheet."""


def draw_sheet(path: Path, panels: Sequence[Lines], title: str) -> None:
    """Write a PNG with a panel for each of at most `SHEET` series, at most three in a row, each with its own dates."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    height = 0.9 + 2.1 * rows
    figure = Figure(figsize=(12, height))
    figure.subplots_adjust(left=0.05, right=0.99, top=1 - 0.65 / height, bottom=0.75 / height, hspace=0.55, wspace=0.16)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, lines in zip(axes, panels, strict=False):
        shown = replace(lines, past=lines.past.iloc[-3 * len(lines.forecast) :])
        draw_lines(panel, shown)
        panel.set_title(shorten(lines.name, 48, placeholder=" …"), fontsize=8, parse_math=False)
        panel.xaxis.set_major_locator(AutoDateLocator(minticks=2, maxticks=5))  # a step of both exists for each span
        panel.xaxis.set_major_formatter(ConciseDateFormatter(panel.xaxis.get_major_locator()))
        panel.tick_params(labelsize=7)
        panel.xaxis.get_offset_text().set_size(7)
    for panel in axes[len(panels) :]:
        panel.set_axis_off()
    _save(figure, path, axes[0], title)


def mean_errors(forecast: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the mean absolute error of each series, (S,), from values (S, h); NaN without a truth."""
    size = np.abs(forecast - truth)
    seen = np.isfinite(size)
    return np.asarray(np.where(seen, size, 0.0).sum(1) / np.where(seen.any(1), seen.sum(1), np.nan))


def best_median_worst(errors: np.ndarray) -> list[int]:
    """Return the places of the three smallest, middle and largest errors (S,); all, rising, if there are at most nine.

    Of more than nine, those without an error, NaN, are left out.
    """
    order = np.argsort(errors)
    if len(order) > SHEET and np.isfinite(errors).any():
        order = order[: np.isfinite(errors).sum()]
    if len(order) <= SHEET:
        return [int(place) for place in order]
    middle = len(order) // 2
    return [int(place) for place in (*order[:3], *order[middle - 1 : middle + 2], *order[-3:])]


def draw_lines(panel: Axes, lines: Lines) -> None:
    """Draw the lines of one target on axes."""
    plot_line(panel, lines.past.index, lines.past.to_numpy(), color="0.45", linewidth=1, label="past")
    if lines.truth is not None:
        plot_line(panel, lines.truth.index, lines.truth.to_numpy(), color="black", linewidth=1, label="truth")
    if lines.naive is not None:
        plot_line(panel, lines.naive.index, lines.naive.to_numpy(), color="tab:green", linewidth=0.9, label="naive")
    _draw_fan(panel, lines.ends)
    forecast = lines.forecast
    plot_line(panel, forecast.index, forecast.to_numpy(), color="tab:orange", linewidth=1.6, label="forecast")
    panel.axvline(forecast.index[0], color="0.8", linewidth=0.8)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_fan(panel: Axes, ends: Mapping[float, tuple[pd.Series, pd.Series]]) -> None:
    """Shade the intervals of a target, the widest first."""
    for place, (level, (lower, upper)) in enumerate(sorted(ends.items(), reverse=True)):
        panel.fill_between(
            lower.index,
            lower.to_numpy(),
            upper.to_numpy(),
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
