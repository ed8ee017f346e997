"""What a model in original units is given: windows of the past, and what is known of the steps after them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Context(NamedTuple):
    """B windows of T steps with h steps after them, C_in channels, F known inputs.

    `past` (B, T, C_in), float64, original units, the targets first; `past_known` (B, T, F) and `future_known`
    (B, h, F), float32; `past_observed` as `past`, False where a value was filled and is not to be read, None
    where all are read.
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    past_observed: Tensor | None

    def rows(self, chosen: slice) -> "Context":
        """Give some of the windows."""
        return self.each(lambda part: part[chosen])

    def to(self, device: torch.device) -> "Context":
        """Give the same windows on `device`."""
        return self.each(lambda part: part.to(device))

    def each(self, change: Callable[[Tensor], Tensor]) -> "Context":
        """Give the same parts, each changed alike."""
        observed = None if self.past_observed is None else change(self.past_observed)
        return Context(change(self.past), change(self.past_known), change(self.future_known), observed)


def stack(windows: Sequence[Context]) -> Context:
    """Give windows that all have, or all lack, `past_observed` as one."""
    past, past_known, future_known, observed = zip(*windows, strict=True)
    together = None if observed[0] is None else torch.cat(observed)
    return Context(torch.cat(past), torch.cat(past_known), torch.cat(future_known), together)
