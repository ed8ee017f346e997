"""Boolean masks: True where a key may be attended, (B, S) or (B, L, S), or where a query is not padding, (B, L)."""

import torch
from torch import Tensor

Mask = Tensor | None


def zero_masked(tensor: Tensor, mask: Mask) -> Tensor:
    """Zero the rows of (B, ..., N, ·) that `mask`, (B, N) or (B, L, N), hides from every query."""
    if mask is None:
        return tensor
    visible = mask if mask.ndim == 2 else mask.any(dim=1)
    if tensor.ndim == 4:
        visible = visible[:, None]
    return tensor.masked_fill(~visible[..., None], 0)


def zero_pairs(weights: Tensor, allowed: Tensor | None) -> Tensor:
    """Zero the weights (B, H, L, S) outside `allowed`; see `allowed_pairs`."""
    return weights if allowed is None else weights.masked_fill(~allowed, 0)


def without_padded_queries(mask: Mask, query_mask: Mask) -> Tensor | None:
    """Return `mask` without padded queries, so that a key that only they may attend is hidden."""
    if mask is None or mask.ndim == 2 or query_mask is None:
        return mask
    return mask & query_mask[..., None]


def masked_keys(mask: Mask) -> Tensor | None:
    """Return the inverse of a mask (B, S), shape (B, 1, S, 1)."""
    return None if mask is None else ~mask[:, None, :, None]


def hidden_from_all(mask: Mask) -> Tensor | None:
    """Return which keys a mask (B, S) or (B, L, S) hides from every query, shape (B, 1, S, 1)."""
    return masked_keys(mask if mask is None or mask.ndim == 2 else mask.any(dim=1))


def allowed_pairs(query: Tensor, key: Tensor, mask: Mask, causal: bool) -> Tensor | None:
    """Return which query may attend to which key, broadcastable to (B, H, L, S); None if all pairs are allowed."""
    allowed = None
    if mask is not None:
        allowed = mask[:, None, None, :] if mask.ndim == 2 else mask[:, None]
    if causal:
        past = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
        allowed = past[None, None] if allowed is None else allowed & past
    return allowed


def mask_from_lengths(lengths: Tensor, num_keys: int) -> Tensor:
    """Return the mask of the first `lengths` keys.

    Parameters
    ----------
    lengths
        Number of valid keys, integers. Shape (B,), one per batch row, works with every mechanism. Shape (B, L), one
        per query, needs a mechanism that accepts pair masks, such as `full`; `linear`, `taylor`, `efficient` and
        `mean` take the lengths instead, as `lengths` of their call. A query with 0 keys gets zeros.
    num_keys
        Number of keys S.

    Returns
    -------
    Tensor
        Boolean, True where a key may be attended, shape (B, S) or (B, L, S), on the device of `lengths`.

    Raises
    ------
    ValueError
        If `lengths` has another dtype or shape.
    """
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise ValueError(f"lengths must be integers, not {lengths.dtype}")
    if lengths.ndim not in (1, 2):
        raise ValueError(f"lengths must have shape (B,) or (B, L), not {tuple(lengths.shape)}")
    return torch.arange(num_keys, device=lengths.device) < lengths[..., None]


def check_mask(owner: str, name: str, mask: Tensor, shapes: list[tuple[int, ...]]) -> None:
    """Raise ValueError if `mask` is not boolean, or its shape is not one of `shapes`."""
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean, True = may be attended, not {mask.dtype}")
    if tuple(mask.shape) not in shapes:
        accepted = " or ".join(map(str, shapes))
        raise ValueError(f"{owner} takes a {name} of shape {accepted}, not {tuple(mask.shape)}")
