"""Boolean masks: True where a key may be attended, (B, S) or (B, L, S), or where a query is not padding, (B, L).

Also the softmax over the allowed pairs, and the checks of masks and ranks.
"""

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


def masked_softmax(scores: Tensor, valid_lengths: Tensor | None) -> Tensor:
    """Return the softmax over the first `valid_lengths` keys of each row; all other weights are 0.

    Parameters
    ----------
    scores
        Scores of queries and keys, already scaled, shape (B, L, S) or (B, H, L, S), floating point.
    valid_lengths
        Number of valid keys, integers: shape (B,), one per batch row, or (B, L), one per query. See
        `mask_from_lengths`. None: all keys are valid, as in the plain softmax.

    Returns
    -------
    Tensor
        Weights, shape and dtype of `scores`, computed in at least float32. A row of length 0 is zero, with gradient 0.
        Scores outside a row's length reach neither weights nor gradients, even if they are NaN.

    Raises
    ------
    ValueError
        If a shape or dtype does not match.
    """
    if scores.ndim not in (3, 4):
        raise ValueError(f"scores must have shape (B, L, S) or (B, H, L, S), not {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floating point, not {scores.dtype}")
    mask = mask_from_lengths(valid_lengths, scores.shape[-1])
    if valid_lengths is None or mask is None:
        return softmax_over(scores, None).to(scores.dtype)
    batch, length = scores.shape[0], scores.shape[-2]
    if valid_lengths.shape not in ((batch,), (batch, length)):
        accepted = f"({batch},) or ({batch}, {length})"
        raise ValueError(f"valid_lengths must have shape {accepted}, not {tuple(valid_lengths.shape)}")
    pairs = mask[:, None] if mask.ndim == 2 else mask  # (B, 1, S) or (B, L, S)
    return softmax_over(scores, pairs if scores.ndim == 3 else pairs[:, None]).to(scores.dtype)


def softmax_over(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the softmax of scores (..., S) over the `allowed` pairs, in at least float32; an empty row is zero."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    if allowed is None:
        return scores.softmax(dim=-1, dtype=dtype)
    # The lowest finite number, not -inf: an empty row is uniform with finite gradients, then set to zero.
    lowest = torch.finfo(dtype).min
    return scores.to(dtype).masked_fill(~allowed, lowest).softmax(dim=-1).masked_fill(~allowed, 0)


def mask_from_lengths(lengths: Tensor | None, length: int) -> Mask:
    """Return the mask of the first `lengths` keys of each sequence.

    Parameters
    ----------
    lengths
        Number of valid keys, integers. Shape (B,), one per batch row, works with every mechanism. Shape (B, L), one
        per query, needs a mechanism that accepts pair masks, such as `full`. A query with 0 keys gets zeros. A number
        above `length` means all keys. None: all keys are valid.
    length
        Number of keys S.

    Returns
    -------
    Tensor or None
        Boolean, True where a key may be attended, shape (B, S) or (B, L, S), on the device of `lengths`. None for None.

    Raises
    ------
    ValueError
        If `lengths` has another dtype or shape.
    """
    if lengths is None:
        return None
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise ValueError(f"lengths must be integers, not {lengths.dtype}")
    if lengths.ndim not in (1, 2):
        raise ValueError(f"lengths must have shape (B,) or (B, L), not {tuple(lengths.shape)}")
    return torch.arange(length, device=lengths.device) < lengths[..., None]


def check_mask(owner: str, name: str, mask: Tensor, shapes: list[tuple[int, ...]]) -> None:
    """Raise ValueError if `mask` is not boolean, or its shape is not one of `shapes`."""
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean, True = may be attended, not {mask.dtype}")
    if tuple(mask.shape) not in shapes:
        accepted = " or ".join(map(str, shapes))
        raise ValueError(f"{owner} takes a {name} of shape {accepted}, not {tuple(mask.shape)}")


def check_rank(name: str, tensor: Tensor, axes: str) -> None:
    """Raise ValueError if `tensor` has another number of axes than `axes`, such as "B, L, D"."""
    if tensor.ndim != len(axes.split(", ")):
        raise ValueError(f"{name} must have shape ({axes}), not {tuple(tensor.shape)}")


def check_heads(query: Tensor, key: Tensor, value: Tensor | None = None) -> None:
    """Raise ValueError if a tensor of a mechanism has another number of axes than 4."""
    check_rank("query", query, "B, H, L, E")
    check_rank("key", key, "B, H, S, E")
    if value is not None:
        check_rank("value", value, "B, H, S, V")
