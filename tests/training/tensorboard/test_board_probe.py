import math
from typing import Any

import numpy as np
import pytest

from forecast.training.tensorboard.maps import draw_heads


def content(num_heads: int, measures: int = 3, value: float = 0.2) -> dict[str, Any]:
    row = [value] * num_heads
    layer = {"distance": row, "entropy": row if measures > 1 else None, "found": row if measures > 2 else None}
    return {"layers": dict.fromkeys(("encoder.0.self", "encoder.1.self", "decoder.0.cross"), layer)}


@pytest.mark.slow
@pytest.mark.parametrize("num_heads", [1, 2, 8, 32])
def test_each_measure_adds_a_table_of_the_same_height(num_heads: int) -> None:
    heights = [draw_heads(content(num_heads, measures)).shape[0] for measures in (1, 2, 3)]
    assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0], abs=1)
    pixels = draw_heads(content(num_heads))
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3


@pytest.mark.slow
def test_the_color_of_a_cell_follows_its_number() -> None:
    low, high = draw_heads(content(9, value=0.0)), draw_heads(content(9, value=1.0))
    dark, bright = np.array([68, 1, 84]), np.array([253, 231, 36])  # the ends of viridis

    def count(pixels: np.ndarray, color: np.ndarray) -> int:
        return int((np.abs(pixels.astype(int) - color).sum(-1) < 6).sum())

    assert count(low, dark) > 5 * count(high, dark)
    assert count(high, bright) > 5 * count(low, bright)
    np.testing.assert_array_equal(draw_heads(content(9, value=1.0)), draw_heads(content(9, value=3.0)))
    assert count(draw_heads(content(9, value=math.nan)), dark) < count(low, dark) / 5
