"""The probe's last numbers as one picture: a row an attention, a column a head."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from forecast.common.drawing import LINE, Drawing, colored

LEFT, RIGHT, ROW = 100, 312, 16
"""Pixels: where the cells begin and end, and the height of one."""

LEAST_WRITTEN = 24
"""Pixels that a cell needs for its number."""

TITLES = {
    "distance": "distance of the output from exact softmax's, over its norm",
    "entropy": "entropy of the weights: 0 one key, 1 all keys alike",
    "found": "share of the truly most informative queries chosen",
}


def heads(record: Mapping[str, Any]) -> np.ndarray:
    """Give each head's numbers of a probe's record, those above 1 in the colour of 1: (height, width, 3), uint8."""
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
            drawing.write((LEFT - 4, top + ROW / 2), place, "rm")
            _draw_row(drawing, numbers, top)
        top += ROW
    widest = max(len(numbers) for rows in tables.values() for numbers in rows.values())
    for head in range(0, widest, -(-widest // 16)):
        drawing.write((LEFT + (head + 0.5) * (RIGHT - LEFT) / widest, bottom + 6), str(head), "mm")
    drawing.write(((LEFT + RIGHT) / 2, bottom + LINE + 6), "head", "mm")
    drawing.bar((RIGHT + 10, bottom - 4 * ROW, RIGHT + 18, bottom), "viridis", {0.0: "0", 0.5: "0.5", 1.0: "1"})
    return drawing.pixels()


def _draw_row(drawing: Drawing, numbers: list[float], top: int) -> None:
    cells = np.array([numbers], dtype=np.float64)
    drawing.paste(colored(cells, "viridis", 0, 1), (LEFT, top, RIGHT, top + ROW))
    wide = (RIGHT - LEFT) / len(numbers)
    for head, number in enumerate(numbers):
        if wide >= LEAST_WRITTEN and np.isfinite(number):
            color = "black" if number > 0.55 else "white"
            drawing.write((LEFT + (head + 0.5) * wide, top + ROW / 2), f"{number:.2f}", "mm", color)
