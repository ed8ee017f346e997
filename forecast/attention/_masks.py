"""Masks: boolean, True where a key may be attended or a query is real; (B, S), (B, L, S) and, of queries, (B, L)."""

import torch
from torch import Tensor

Mask = Tensor | None


def zero_masked(tensor: Tensor, mask: Mask) -> Tensor:
    """Zero the rows of (B, ..., N, ·) that `mask` (B, N) hides, or (B, L, N) hides from every query."""
    if mask is None:
        return tensor
    seen = mask if mask.ndim == 2 else mask.any(dim=1)
    if tensor.ndim == 4:
        seen = seen[:, None]
    return tensor.masked_fill(~seen[..., None], 0)


def zero_pairs(weights: Tensor, allowed: Tensor | None) -> Tensor:
    """Zero the weights (B, H, L, S) of the pairs that are not allowed, as `allowed_pairs` says."""
    return weights if allowed is None else weights.masked_fill(~allowed, 0)


def without_padded_queries(mask: Mask, query_mask: Mask) -> Tensor | None:
    """Return the mask in which a padded query attends to nothing, so that a key only it may attend is hidden."""
    if mask is None or mask.ndim == 2 or query_mask is None:
        return mask
    return mask & query_mask[..., None]


def masked_keys(mask: Mask) -> Tensor | None:
    """Return where keys are masked, shape (B, 1, S, 1), from a mask (B, S)."""
    return None if mask is None else ~mask[:, None, :, None]


def allowed_pairs(query: Tensor, key: Tensor, mask: Mask, causal: bool) -> Tensor | None:
    """Return which keys a query may attend, broadcastable to (B, H, L, S); None when every pair is allowed."""
    allowed = None
    if mask is not None:
        allowed = mask[:, None, None, :] if mask.ndim == 2 else mask[:, None]
    if causal:
        past = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
        allowed = past[None, None] if allowed is None else allowed & past
    return allowed


def mask_from_lengths(lengths: Tensor, num_keys: int) -> Tensor:
    """Return the mask that lets a query attend to its first keys only, True = may be attended.

    Parameters
    ----------
    lengths : Tensor
        Number of valid keys, integers: one per batch row, shape (B,), which every mechanism takes; or one per
        query, shape (B, L), for mechanisms that accept pair masks, such as `full`. With 0 the query gets zeros.
    num_keys : int
        Number of keys S.

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


def check_mask(owner: str, name: str, mask: Tensor, shapes: list[tuple[int, ...]]) -> None:
    """Raise ValueError if a mask is not boolean or of none of the `shapes` that its owner takes."""
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean, True = may be attended, not {mask.dtype}")
    if tuple(mask.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{owner} takes a {name} of shape {wanted}, not {tuple(mask.shape)}")
