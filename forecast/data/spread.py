"""Positions that stand for many: evenly spread, the same at every call."""

import torch


def spread(count: int, wanted: int) -> torch.Tensor:
    """Give `wanted` positions in the middles of as many equal pieces of `count`; all of them if there are fewer."""
    wanted = min(count, wanted)
    return (2 * torch.arange(wanted) + 1) * count // (2 * wanted)
