import numpy as np
import pytest
import torch

from forecast.data import mapped as module
from forecast.data.mapped import Recipe


@pytest.mark.parametrize("width", [0, 1, 7, 50])
@pytest.mark.parametrize("rows", [1, 11, 12])
def test_an_array_is_made_of_its_chunks_which_are_small(width: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_CELLS", 28)
    whole = np.random.default_rng(0).standard_normal((rows, width))
    sizes: list[int] = []

    def make(piece: slice) -> np.ndarray:
        sizes.append(whole[piece].size)
        return whole[piece]

    made = Recipe(rows, width, np.float32, make).in_memory()
    assert made.dtype == torch.float32
    np.testing.assert_array_equal(made.numpy(), whole.astype(np.float32))
    assert max(sizes) <= max(28, width)


def test_a_recipe_states_the_bytes_of_its_array() -> None:
    for dtype, wanted in ((np.float32, 120), (np.bool_, 30)):
        made = Recipe(10, 3, dtype, lambda piece: np.zeros((10, 3)))
        assert made.bytes == wanted == made.in_memory().nbytes
