import math

import pytest
import torch
from torch import Tensor

from forecast.export.parity import largest_difference, slices
from forecast.model.original_units import Context

SCALE = torch.tensor([10.0, 0.1], dtype=torch.float64)


def model(past: Tensor, *_: Tensor | None) -> Tensor:
    return past[:, -3:, :2]


def windows(count: int) -> Context:
    past = torch.arange(count * 5 * 3, dtype=torch.float64).view(count, 5, 3)
    return Context(past, past[..., :1], past[:, :3, :1], None)


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize("count", [1, 2, 9, 10, 32])
def test_every_window_is_compared_once_and_the_first_alone(count: int, batch: int | None) -> None:
    chosen = list(slices(count, batch))
    assert [row for piece in chosen for row in range(count)[piece]] == list(range(count))
    sizes = {len(range(count)[piece]) for piece in chosen}
    assert sizes == {1} if batch == 1 or count < 3 else 1 in sizes and max(sizes) > 1


@pytest.mark.parametrize("place", [0, 1, 11])
def test_a_wrong_value_is_found_in_units_of_its_series(place: int) -> None:
    def off(past: Tensor, *rest: Tensor | None) -> Tensor:
        forecast = model(past).clone()
        forecast[(past[:, 0, 0] == 15.0 * place), 1, 1] += 0.05
        return forecast

    assert largest_difference(model, model, windows(12), SCALE, None) == 0
    assert largest_difference(model, off, windows(12), SCALE, None) == pytest.approx(0.5)


def test_a_forecast_with_nan_has_a_nan_difference() -> None:
    def broken(past: Tensor, *rest: Tensor | None) -> Tensor:
        return model(past).where(past[:, -3:, :2] != 12.0, torch.nan)

    assert math.isnan(largest_difference(model, broken, windows(12), SCALE, None))
