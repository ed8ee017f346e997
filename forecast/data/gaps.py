"""Which windows may be kept where values were filled, and whether what is left can be scored."""

from collections.abc import Sequence

import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.windows import Windows


def causal_starts(starts: Tensor, context_length: int, observed: Tensor, *, part: str) -> Tensor:
    """Return those of `starts` (W,) whose last context row was measured in every channel.

    A fill between two neighbours knows the later one. Where the context's last row was measured, no gap of the
    context reaches the origin, and every neighbour of its fills stands before it. This last row is the same
    at every context length, so that look-backs are scored on the same windows.

    Raises
    ------
    InputError
        If none is left.
    """
    kept = starts[observed[starts + context_length - 1].all(1)]
    if not len(kept):
        raise InputError(
            f"data.missing=interpolate: each of the {len(starts)} windows of the {part} part has a context that ends "
            "in a gap, whose fill knows the future: use data.missing=ffill or mask"
        )
    return kept


def check_measured(windows: Windows, targets: Sequence[str], *, part: str) -> None:
    """Refuse windows in whose horizons a target was never measured: there would be nothing to learn or score.

    Raises
    ------
    InputError
        Naming the target.
    """
    assert windows.observed is not None
    origins = windows.starts + windows.context_length
    covered = torch.zeros(len(windows.values) + 1, dtype=torch.int64)
    covered.index_add_(0, origins, torch.ones_like(origins))
    covered.index_add_(0, origins + windows.horizon, -torch.ones_like(origins))
    rows = covered.cumsum(0)[:-1] > 0
    some = windows.observed[rows][:, : windows.num_targets].any(0)
    if not bool(some.all()):
        name = targets[int(some.int().argmin())]
        raise InputError(
            f"the {part} part has no measured value of {name!r} to forecast: choose another data.split, "
            "or leave the column out of data.targets"
        )
