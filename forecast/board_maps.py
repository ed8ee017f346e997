"""Attention maps as pictures: up to four heads, queries downwards, keys to the right."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from forecast.board_figures import DPI, FONT_SIZE, WIDTH, pixels_of
from forecast.probing.maps import AttentionMap

ACROSS, DOWN = 1.12, 1.17
"""From one head's map to the next, each of which is one unit wide and high."""

HIGHEST = 0.995
"""Quantile of the weights that gets the last colour: one bright pixel would leave the rest dark."""


def draw_map(place: str, shown: AttentionMap, query_token: str, key_token: str) -> np.ndarray:
    """Give the picture of a map: (height, width, 3), uint8.

    All heads are in one panel, side by side: a panel for each would take three times as long to draw.

    Parameters
    ----------
    place
        Where in the network.
    query_token, key_token
        What a token is there: "step", "patch".
    """
    columns = min(2, len(shown.heads))
    rows = -(-len(shown.heads) // columns)
    height = 0.9 + 1.75 * rows
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    low, top = 0.38 / height, 1 - 0.52 / height
    panel = figure.add_axes((0.12, low, 0.7, top - low))
    scale, colors = _colors(shown.weights)
    for number in range(len(shown.heads)):
        _draw_head(panel, shown, number, (number % columns * ACROSS, number // columns * DOWN), scale, colors)
    _mark_axes(panel, shown, columns, rows)
    panel.set_xlabel(f"key, {key_token}", fontsize=FONT_SIZE, labelpad=1)
    panel.set_ylabel(f"query, {query_token}", fontsize=FONT_SIZE, labelpad=1)
    bar = figure.add_axes((0.87, low, 0.025, 0.94 * (top - low)))
    extend = "both" if scale.vmin else "max"
    figure.colorbar(ScalarMappable(scale, colors), cax=bar, extend=extend).ax.tick_params(labelsize=FONT_SIZE - 1)
    bar.set_title("weight", fontsize=FONT_SIZE, pad=6)
    figure.text(0.02, 1 - 0.06 / height, f"{place}, {shown.mechanism}: {_size(shown)}", fontsize=FONT_SIZE, va="top")
    figure.text(0.02, 1 - 0.2 / height, _note(shown), fontsize=FONT_SIZE, va="top")
    canvas.draw()
    return pixels_of(canvas)


def _draw_head(
    panel: Axes, shown: AttentionMap, number: int, corner: tuple[float, float], scale: Normalize, colors: str
) -> None:
    left, top = corner
    extent = (left, left + 1, top + 1, top)
    weights = shown.weights[number]
    panel.imshow(weights, cmap=colors, norm=scale, aspect="auto", interpolation="nearest", extent=extent)
    panel.text(left + 0.5, top - 0.015, f"head {shown.heads[number]}", fontsize=FONT_SIZE, ha="center", va="bottom")
    if shown.chosen is not None:
        rows = np.flatnonzero(shown.chosen[number])
        heights = top + (rows + 0.5) / len(weights)
        panel.plot(np.full(len(rows), left + 1.025), heights, "<", color="black", markersize=2.2)


def _mark_axes(panel: Axes, shown: AttentionMap, columns: int, rows: int) -> None:
    """Write the tokens' numbers beside the first column and below the last row of heads."""
    panel.set_xlim(0, (columns - 1) * ACROSS + 1.06)
    panel.set_ylim((rows - 1) * DOWN + 1, -0.1)
    halves = np.array([0, 0.5, 1])
    across = np.concatenate([halves + ACROSS * column for column in range(columns)])
    down = np.concatenate([halves + DOWN * row for row in range(rows)])
    panel.set_xticks(across, [f"{half * shown.keys:g}" for half in halves] * columns)
    panel.set_yticks(down, [f"{half * shown.queries:g}" for half in halves] * rows)
    panel.tick_params(labelsize=FONT_SIZE, length=2, pad=1)
    for spine in panel.spines.values():
        spine.set_visible(False)


def _colors(weights: np.ndarray) -> tuple[Normalize, str]:
    """Give the scale and the name of its colours: from 0 up, or from both sides of it where some are negative."""
    high = float(np.quantile(np.abs(weights), HIGHEST)) or float(np.abs(weights).max()) or 1.0
    if weights.min() < -1e-6 * high:
        return Normalize(-high, high), "PuOr"
    return Normalize(0, high), "viridis"


def _size(shown: AttentionMap) -> str:
    size = f"{shown.num_queries:,} queries, {shown.num_keys:,} keys"
    if shown.num_heads > len(shown.heads):
        size += f", {len(shown.heads)} of {shown.num_heads} heads"
    if shown.queries < shown.num_queries:
        size += f"; the first {shown.queries:,}"
    return size


def _note(shown: AttentionMap) -> str:
    parts = []
    if shown.queries_per_row > 1:
        parts.append(f"a row: one query of {shown.queries_per_row}")
    if shown.keys_per_column > 1:
        parts.append(f"a column: mean of {shown.keys_per_column} keys")
    if shown.chosen is not None:
        parts.append("◂ chosen, the others get the mean")
    return "; ".join(parts)
