"""Quantiles that never cross: a median, and increments outwards from it."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn import functional

START = 0.5
"""Spacing of the quantiles of a fresh head, relative to those of a normal distribution with the window's deviation."""


class Quantiles(nn.Module):
    """Map K raw numbers of each step and series to K rising quantiles.

    The middle number is the median. The others pass through a softplus and are added up outwards from it, so each
    quantile is at least the one below. `levels` are the K levels.
    """

    offset: Tensor

    def __init__(self, levels: Sequence[float]) -> None:
        super().__init__()
        normal = [START * NormalDist().inv_cdf(level) for level in levels]
        gaps = [high - low for low, high in pairwise(normal)]
        inverse = torch.tensor([math.log(math.expm1(gap)) for gap in gaps])  # softplus of it is the gap
        self.register_buffer("offset", inverse, persistent=False)

    def forward(self, raw: Tensor) -> Tensor:
        """Return the quantiles (…, K) of raw numbers (…, K)."""
        middle = raw.shape[-1] // 2
        below = functional.softplus(raw[..., :middle] + self.offset[:middle]).unbind(-1)
        above = functional.softplus(raw[..., middle + 1 :] + self.offset[middle:]).unbind(-1)
        median = raw[..., middle]
        lower, upper = [median], [median]
        for increment in reversed(below):  # one addition after the other: a parallel sum could cross by rounding
            lower.append(lower[-1] - increment)
        for increment in above:
            upper.append(upper[-1] + increment)
        return torch.stack([*reversed(lower), *upper[1:]], -1)
