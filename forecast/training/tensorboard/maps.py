"""Pictures of attention maps and of the probe's numbers for TensorBoard."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.training.probe.maps import AttentionMap
from forecast.training.tensorboard.figures import DPI, FONT_SIZE, WIDTH, pixels_of

HIGHEST = 0.995
"""Quantile of the weights at the end of the color scale, since a single maximum would darken the rest."""

PANEL, LINE, BELOW = 1.7, 0.15, 0.45
"""Heights in inches: a map with its title, a line of text, the space below the maps."""


def draw_map(place: str, shown: AttentionMap, query_token: str, key_token: str) -> np.ndarray:
    """Draw a map with the names of its tokens ("step", "patch"): (height, width, 3), uint8."""
    lines = [f"{place}, {shown.mechanism}", _size(shown), *_notes(shown)]
    columns = min(2, len(shown.heads))
    rows = -(-len(shown.heads) // columns)
    above = LINE * (len(lines) + 1.5)
    height = above + PANEL * rows + BELOW
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    bottom, top = BELOW / height, 1 - above / height
    figure.subplots_adjust(left=0.11, right=0.82, bottom=bottom, top=top, hspace=0.12, wspace=0.1)
    canvas = FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    low, high, colors = _scale(shown.weights)
    for number, panel in enumerate(panels):
        if number < len(shown.heads):
            _draw_head(panel, shown, number, vmin=low, vmax=high, cmap=colors)
            panel.tick_params(labelleft=number % columns == 0, labelbottom=number + columns >= len(shown.heads))
        else:
            panel.set_axis_off()
    figure.text(0.01, 1 - 0.04 / height, "\n".join(lines), va="top", fontsize=FONT_SIZE, parse_math=False)
    figure.supxlabel(f"key, {key_token}", x=0.47, fontsize=FONT_SIZE)
    figure.supylabel(f"query, {query_token}", y=(bottom + top) / 2, fontsize=FONT_SIZE)
    scale = figure.add_axes((0.85, bottom, 0.025, top - bottom))
    figure.colorbar(panels[0].images[0], scale)
    scale.set_yticks(np.linspace(low, high, 5), _labels(shown.weights, low, high))
    scale.tick_params(labelsize=FONT_SIZE)
    scale.set_title("weight", fontsize=FONT_SIZE, pad=3)
    canvas.draw()
    return pixels_of(canvas)


def _draw_head(panel: Axes, shown: AttentionMap, number: int, **look: Any) -> None:
    """Draw the weights of a head, number its tokens, and mark the chosen queries at the right edge."""
    extent = (0, shown.keys, shown.queries, 0)
    panel.imshow(shown.weights[number], aspect="auto", interpolation="nearest", extent=extent, **look)
    panel.set_title(f"head {shown.heads[number]}", fontsize=FONT_SIZE, pad=2)
    for axis, tokens in ((panel.xaxis, shown.keys), (panel.yaxis, shown.queries)):
        ticks = [0, tokens / 2, tokens]
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=FONT_SIZE)
    panel.tick_params(length=0, pad=2)
    panel.spines[:].set_visible(False)
    if shown.chosen is not None:
        rows = (np.flatnonzero(shown.chosen[number]) + 0.5) * shown.queries / shown.weights.shape[1]
        right_edge: dict[str, Any] = {"transform": panel.get_yaxis_transform(), "clip_on": False}
        panel.plot(np.full(len(rows), 1.02), rows, "k<", markersize=2.5, scalex=False, scaley=False, **right_edge)


def _scale(weights: np.ndarray) -> tuple[float, float, str]:
    """Return the range and the name of the color scale, which is symmetric if some weights are negative."""
    high = float(np.quantile(np.abs(weights), HIGHEST)) or float(np.abs(weights).max()) or 1.0
    return (-high, high, "PuOr") if weights.min() < -1e-6 * high else (0.0, high, "viridis")


def _labels(weights: np.ndarray, low: float, high: float) -> list[str]:
    first, *middle, last = (f"{value:.2g}" for value in np.linspace(low, high, 5))
    return ["≤" * bool(weights.min() < low) + first, *middle, "≥" * bool(weights.max() > high) + last]


def _size(shown: AttentionMap) -> str:
    size = f"{shown.num_queries:,} queries, {shown.num_keys:,} keys"
    if shown.num_heads > len(shown.heads):
        size += f", {len(shown.heads)} of {shown.num_heads} heads"
    return size + (f"; the first {shown.queries:,}" if shown.queries < shown.num_queries else "")


def _notes(shown: AttentionMap) -> list[str]:
    scales = []
    if shown.queries_per_row > 1:
        scales.append(f"one row: 1 of {shown.queries_per_row} queries")
    if shown.keys_per_column > 1:
        scales.append(f"one column: mean of {shown.keys_per_column} keys")
    chosen = [] if shown.chosen is None else ["◂ chosen queries; the others take the mean of the values"]
    return [*(["; ".join(scales)] if scales else []), *chosen]


ROW = 0.2
"""Height of a table row in inches."""

MAX_WRITTEN = 8
"""Maximum number of heads at which a cell has room for its number."""

TITLES = {
    "distance": "relative distance of the output from exact softmax",
    "entropy": "entropy of the weights (0: one key, 1: uniform)",
    "found": "fraction of the most informative queries that are chosen",
}


def draw_heads(record: Mapping[str, Any]) -> np.ndarray:
    """Draw the numbers of each head in a probe record: (height, width, 3), uint8. Colors are clipped to 0 to 1."""
    measures = {
        measure: {place: layer[measure] for place, layer in record["layers"].items() if layer[measure] is not None}
        for measure in TITLES
    }
    tables = {measure: rows for measure, rows in measures.items() if rows}
    widest = max(len(numbers) for rows in tables.values() for numbers in rows.values())
    height = 0.05 + ROW * sum(1 + len(rows) for rows in tables.values()) + BELOW
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    top = height - 0.05
    for measure, rows in tables.items():
        figure.text(0.01, (top - ROW / 2) / height, TITLES[measure], va="center", fontsize=FONT_SIZE)
        top -= ROW * (1 + len(rows))
        panel = figure.add_axes((0.29, top / height, 0.6, ROW * len(rows) / height))
        _draw_cells(panel, rows, widest)
    panel.set_xticks(range(0, widest, -(-widest // 16)))
    panel.set_xlabel("head", fontsize=FONT_SIZE)
    scale = figure.add_axes((0.91, top / height, 0.025, 4 * ROW / height))
    figure.colorbar(panel.images[0], scale)
    scale.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    scale.tick_params(labelsize=FONT_SIZE)
    canvas.draw()
    return pixels_of(canvas)


def _draw_cells(panel: Axes, rows: Mapping[str, list[float]], widest: int) -> None:
    """Draw one row per attention and one cell per head, with its number if there is room."""
    values = np.array([[*numbers, *[np.nan] * (widest - len(numbers))] for numbers in rows.values()], dtype=np.float64)
    panel.imshow(values, "viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    panel.set_xticks([])
    panel.set_yticks(range(len(rows)), list(rows))
    panel.tick_params(length=0, pad=2, labelsize=FONT_SIZE)
    panel.spines[:].set_visible(False)
    for (row, head), number in np.ndenumerate(values):
        if widest <= MAX_WRITTEN and np.isfinite(number):
            color = "black" if number > 0.55 else "white"
            panel.text(head, row, f"{number:.2f}", ha="center", va="center", color=color, fontsize=FONT_SIZE)
