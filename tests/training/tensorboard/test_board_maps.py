import numpy as np
import pytest

from forecast.training.probe.maps import AttentionMap
from forecast.training.tensorboard.maps import draw_map

YELLOW, PURPLE = np.array([253, 231, 36]), np.array([45, 0, 75])  # the upper ends of viridis and PuOr


def a_map(weights: np.ndarray, chosen: np.ndarray | None = None) -> AttentionMap:
    heads, queries, keys = weights.shape
    shown = {"queries": queries, "keys": keys, "num_queries": queries, "num_keys": keys}
    return AttentionMap(
        "linear", list(range(heads)), heads, weights, chosen, **shown, queries_per_row=1, keys_per_column=1
    )


def count(pixels: np.ndarray, color: np.ndarray) -> int:
    return int((np.abs(pixels.astype(int) - color).sum(-1) < 12).sum())


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4])
def test_the_largest_weights_have_the_last_color_in_every_head(num_heads: int) -> None:
    weights = np.zeros((num_heads, 10, 20))
    weights[:, :, :10] = 0.1
    counted = count(draw_map("encoder.0.self", a_map(weights), "step", "step"), YELLOW)
    alone = weights.copy()
    alone[1:] = 0
    one = count(draw_map("encoder.0.self", a_map(alone), "step", "step"), YELLOW)
    assert counted > 5000
    assert counted == pytest.approx(num_heads * one, rel=0.1)


def test_negative_weights_have_their_own_colors() -> None:
    weights = np.full((2, 8, 8), 0.1)
    assert count(draw_map("encoder.0.self", a_map(weights), "step", "step"), PURPLE) < 300
    weights[:, :4] = -0.1
    assert count(draw_map("encoder.0.self", a_map(weights), "step", "step"), PURPLE) > 3000


def test_a_chosen_query_is_marked_next_to_its_row() -> None:
    weights, chosen = np.full((2, 8, 8), 0.1), np.zeros((2, 8), dtype=bool)
    chosen[0, 3] = True
    plain, marked = (
        draw_map("encoder.0.self", a_map(weights, mask), "step", "step") for mask in (chosen & False, chosen)
    )
    changed = np.argwhere((plain != marked).any(-1))
    assert 0 < len(changed) < 60
    assert np.ptp(changed[:, 0]) < 10


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_weights_can_be_drawn(value: float) -> None:
    assert draw_map("decoder.0.cross", a_map(np.full((1, 1, 1), value)), "patch", "patch").dtype == np.uint8
