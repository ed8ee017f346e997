"""How far an exported model is from its checkpoint, in deviations of the training part."""

from collections.abc import Iterator

import torch
from torch import Tensor

from forecast.model.context import Context
from forecast.predict.forecaster import Model

BOUND = 1e-4
"""The largest difference that a written file may have."""

_PIECE = 8


@torch.inference_mode()
def largest_difference(model: Model, exported: Model, windows: Context, scale: Tensor, batch: int | None) -> float:
    """Give the largest |exported - model| / `scale` over all steps, series and windows; NaN where one is.

    Parameters
    ----------
    model, exported
        Take the parts of `windows`, give (B, h, C_out), original units.
    scale
        Shape (C_out,), one deviation of each target's training part.
    batch
        Windows that `exported` takes at a time; None is any number: one alone then, and several together.
    """
    differences = []
    for chosen in pieces(len(windows.past), batch):
        piece = windows.rows(chosen)
        differences.append(((exported(*piece) - model(*piece)).abs() / scale).max())
    return float(torch.stack(differences).max())


def pieces(count: int, batch: int | None) -> Iterator[slice]:
    """Give the windows to compute together: `batch` of them, or one and then up to eight."""
    yield slice(0, batch or 1)
    for start in range(batch or 1, count, batch or _PIECE):
        yield slice(start, start + (batch or _PIECE))
