"""Attention maps and tables of the probe for TensorBoard."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from forecast.common.drawing import LINE, Drawing, colored
from forecast.training.probe.maps import AttentionMap

LEFT, WHOLE, BETWEEN, HIGH, TITLE = 36, 250, 14, 121, 15
"""Pixels: where the maps begin, how wide all of them are, between two, a map's height, its title's."""

HIGHEST = 0.995
"""Quantile of the weights that gets the last colour: one bright pixel would leave the rest dark."""


def draw_map(place: str, shown: AttentionMap, query_token: str, key_token: str) -> np.ndarray:
    """Return the picture of a map: (height, width, 3), uint8.

    Parameters
    ----------
    place
        Where in the network.
    query_token, key_token
        What a token is there: "step", "patch".
    """
    lines = [f"{place}, {shown.mechanism}", _size(shown), *_notes(shown)]
    columns = min(2, len(shown.heads))
    rows = -(-len(shown.heads) // columns)
    top = LINE * len(lines) + 6
    bottom = top + rows * (TITLE + HIGH)
    drawing = Drawing(bottom + 2 * LINE + 4)
    for number, line in enumerate(lines):
        drawing.write((4, 4 + LINE * (number + 0.5)), line)
    low, high, colors = _scale(shown.weights)
    wide = (WHOLE - BETWEEN * (columns - 1)) // columns
    for number in range(len(shown.heads)):
        corner = (LEFT + number % columns * (wide + BETWEEN), top + number // columns * (TITLE + HIGH) + TITLE)
        box = (corner[0], corner[1], corner[0] + wide, corner[1] + HIGH)
        drawing.paste(colored(shown.weights[number], colors, low, high), box)
        _describe(drawing, shown, number, box, first=number % columns == 0, last=number + columns >= len(shown.heads))
    drawing.write((LEFT + WHOLE / 2, bottom + LINE + 8), f"key, {key_token}", "mm")
    drawing.write_upwards((8, (top + bottom) // 2), f"query, {query_token}")
    drawing.write((LEFT + WHOLE + 12, top + 6), "weight")
    _draw_bar(drawing, shown.weights, (LEFT + WHOLE + 12, top + TITLE + 6, LEFT + WHOLE + 20, bottom))
    return drawing.pixels()


def _describe(
    drawing: Drawing, shown: AttentionMap, number: int, box: tuple[int, int, int, int], *, first: bool, last: bool
) -> None:
    """Name the head, number the tokens beside and below the outer maps, and mark the chosen queries."""
    left, top, right, bottom = box
    drawing.write(((left + right) / 2, top - 7), f"head {shown.heads[number]}", "mm")
    for share in (0.0, 0.5, 1.0):
        if first:
            drawing.write((left - 3, top + share * (bottom - top)), f"{share * shown.queries:g}", "rm")
        if last:
            drawing.write((left + share * (right - left), bottom + 7), f"{share * shown.keys:g}", "mm")
    if shown.chosen is not None:
        for row in np.flatnonzero(shown.chosen[number]):
            drawing.mark(right + 1, top + (row + 0.5) / shown.weights.shape[1] * (bottom - top))


def _scale(weights: np.ndarray) -> tuple[float, float, str]:
    """Return the ends of the scale and its colours: from 0 up, or from both sides of it where some are negative."""
    high = float(np.quantile(np.abs(weights), HIGHEST)) or float(np.abs(weights).max()) or 1.0
    return (-high, high, "PuOr") if weights.min() < -1e-6 * high else (0.0, high, "viridis")


def _draw_bar(drawing: Drawing, weights: np.ndarray, box: tuple[int, int, int, int]) -> None:
    low, high, colors = _scale(weights)
    labels = {share: f"{low + share * (high - low):.2g}" for share in (0.0, 0.25, 0.5, 0.75, 1.0)}
    if weights.max() > high:
        labels[1.0] = f"≥{labels[1.0]}"
    if weights.min() < low:
        labels[0.0] = f"≤{labels[0.0]}"
    drawing.bar(box, colors, labels)


def _size(shown: AttentionMap) -> str:
    size = f"{shown.num_queries:,} queries, {shown.num_keys:,} keys"
    if shown.num_heads > len(shown.heads):
        size += f", {len(shown.heads)} of {shown.num_heads} heads"
    return size + (f"; the first {shown.queries:,}" if shown.queries < shown.num_queries else "")


def _notes(shown: AttentionMap) -> list[str]:
    parts = []
    if shown.queries_per_row > 1:
        parts.append(f"a row: one query of {shown.queries_per_row}")
    if shown.keys_per_column > 1:
        parts.append(f"a column: mean of {shown.keys_per_column} keys")
    chosen = [] if shown.chosen is None else ["◂ chosen queries, the others get the mean"]
    return [*(["; ".join(parts)] if parts else []), *chosen]


_TABLE_LEFT, RIGHT, ROW = 100, 312, 16
"""Pixels: where the cells begin and end, and the height of one."""

LEAST_WRITTEN = 24
"""Pixels that a cell needs for its number."""

TITLES = {
    "distance": "distance of the output from exact softmax's, over its norm",
    "entropy": "entropy of the weights: 0 one key, 1 all keys alike",
    "found": "share of the truly most informative queries chosen",
}


def heads(record: Mapping[str, Any]) -> np.ndarray:
    """Return each head's numbers of a probe's record, those above 1 in the colour of 1: (height, width, 3), uint8."""
    tables = {
        measure: {place: found[measure] for place, found in record["layers"].items() if found[measure] is not None}
        for measure in TITLES
    }
    tables = {measure: rows for measure, rows in tables.items() if rows}
    bottom = 4 + ROW * sum(1 + len(rows) for rows in tables.values())
    drawing = Drawing(bottom + 2 * LINE + 4)
    top = 4
    for measure, rows in tables.items():
        drawing.write((4, top + ROW / 2), TITLES[measure])
        for place, numbers in rows.items():
            top += ROW
            drawing.write((_TABLE_LEFT - 4, top + ROW / 2), place, "rm")
            _draw_row(drawing, numbers, top)
        top += ROW
    widest = max(len(numbers) for rows in tables.values() for numbers in rows.values())
    for head in range(0, widest, -(-widest // 16)):
        drawing.write((_TABLE_LEFT + (head + 0.5) * (RIGHT - _TABLE_LEFT) / widest, bottom + 6), str(head), "mm")
    drawing.write(((_TABLE_LEFT + RIGHT) / 2, bottom + LINE + 6), "head", "mm")
    drawing.bar((RIGHT + 10, bottom - 4 * ROW, RIGHT + 18, bottom), "viridis", {0.0: "0", 0.5: "0.5", 1.0: "1"})
    return drawing.pixels()


def _draw_row(drawing: Drawing, numbers: list[float], top: int) -> None:
    cells = np.array([numbers], dtype=np.float64)
    drawing.paste(colored(cells, "viridis", 0, 1), (_TABLE_LEFT, top, RIGHT, top + ROW))
    wide = (RIGHT - _TABLE_LEFT) / len(numbers)
    for head, number in enumerate(numbers):
        if wide >= LEAST_WRITTEN and np.isfinite(number):
            color = "black" if number > 0.55 else "white"
            drawing.write((_TABLE_LEFT + (head + 0.5) * wide, top + ROW / 2), f"{number:.2f}", "mm", color)
