"""Masks from valid lengths."""

import torch
from torch import Tensor


def mask_from_lengths(lengths: Tensor, num_keys: int) -> Tensor:
    """Return the mask that lets a query attend to its first keys only, True = may be attended.

    Parameters
    ----------
    lengths : Tensor
        How many keys are valid, integers: one for each batch row, shape (B,), which every mechanism takes;
        or one for each query, shape (B, L), for a mechanism that accepts pair masks, as `full` does. With 0
        the query attends to nothing and gets zeros.
    num_keys : int
        How many keys S there are.

    Returns
    -------
    Tensor
        Boolean, shape (B, S) or (B, L, S), on the device of `lengths`.

    Raises
    ------
    ValueError
        If `lengths` are no integers or of another shape.
    """
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise ValueError(f"lengths must be integers, not {lengths.dtype}")
    if lengths.ndim not in (1, 2):
        raise ValueError(f"lengths must have shape (B,) or (B, L), not {tuple(lengths.shape)}")
    return torch.arange(num_keys, device=lengths.device) < lengths[..., None]
