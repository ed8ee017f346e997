"""Sums under a softmax over the positions so far, for each feature of the key by itself."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from forecast.attention._pieces import PIECE_LENGTH, hidden_keys, in_pieces, loop
from forecast.attention.base import at_least_float32


def running_softmax_sums(
    query_features: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Iterator[Tensor]:
    """Yield Σ_e f(q_i)_e Σ_{j≤i} exp(k_je) v_j / Σ_{j≤i} exp(k_je), shape (B, H, n, V).

    No exponential is taken but of a difference that is never positive, so that keys of any size, side by
    side, neither overflow nor vanish. With m_i the largest key up to i, a key j and a later query i meet
    through a position c between them, exp(k_j - m_c) exp(m_c - m_i): c is the last position of the piece
    before, or, within a piece, of the first half of the smallest block that is halved between j and i. A
    piece costs log₂(its length) halvings, each a masked product. Nothing is added to an earlier position.

    References
    ----------
    The halving is that of a parallel prefix sum, Sklansky, "Conditional-Sum Addition Logic", 1960.
    """
    dtype = at_least_float32(key)
    lowest = torch.finfo(dtype).min / 4  # finite: the difference of two is a number, too
    top = torch.full_like(key[:, :, :1], lowest, dtype=dtype)  # (B, H, 1, E), the largest key so far
    norm = state = torch.zeros((), dtype=dtype, device=key.device)
    for queries, keys, values, hidden in loop(query, key, value, hidden_keys(mask)):
        length = queries.shape[2]
        size = min(PIECE_LENGTH, 1 << (length - 1).bit_length())  # a power of two
        keys = keys.to(dtype) if hidden is None else keys.to(dtype).masked_fill(hidden, lowest)
        keys, values = in_pieces(keys, size, lowest), in_pieces(values.to(dtype), size)  # (B, H, pieces, size, ·)
        tops, before, top = _running_tops(keys, top)
        own, since = (keys - tops).exp(), (before - tops).exp()
        last = since[:, :, :, -1:]  # (B, H, pieces, 1, E)
        halvings = _halvings(keys, tops)

        norms = own
        for half, kept, _ in halvings:
            norms = _add_to_second(norms, half, kept * _halves(norms, half)[0][..., -1:, :])
        norm_before, norm = _carry(norm, last, norms[:, :, :, -1:])
        weights = in_pieces(query_features(queries), size) / (norms + since * norm_before)

        added = (keys - tops[:, :, :, -1:]).exp().transpose(-1, -2) @ values
        state_before, state = _carry(state, last.transpose(-1, -2), added)
        output = (weights * own).sum(dim=-1, keepdim=True) * values + (weights * since) @ state_before
        for half, kept, gathered in halvings:
            products = (_halves(weights, half)[1] * kept) @ gathered.transpose(-1, -2)  # (.., half, half)
            output = _add_to_second(output, half, products @ _halves(values, half)[0])
        yield output.flatten(2, 3)[:, :, :length]


def _running_tops(keys: Tensor, top: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest key up to each position, before each piece, and up to the end."""
    tops = keys.detach()
    for half in _powers(tops.shape[-2]):
        first, second = _halves(tops, half)
        tops = _joined(first, second.maximum(first[..., -1:, :]))
    largest = [top]  # so far: what cummax gives, which ONNX does not have
    for own in tops[:, :, :, -1].unbind(dim=2):
        largest.append(largest[-1].maximum(own.unsqueeze(2)))
    before = torch.stack(largest[:-1], dim=2)  # (B, H, pieces, 1, E)
    return tops.maximum(before), before, largest[-1]


def _halvings(keys: Tensor, tops: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """Return for blocks of two halves, their middle m: exp(m - m_i) of the second, exp(k_j - m) of the first."""
    found = []
    for half in _powers(keys.shape[-2]):
        first, second = _halves(tops, half)
        middle = first[..., -1:, :]
        found.append((half, (middle - second).exp(), (_halves(keys, half)[0] - middle).exp()))
    return found


def _powers(size: int) -> list[int]:
    return [1 << power for power in range(size.bit_length() - 1)]


def _halves(pieces: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Return (.., size, C) as the first and second halves of its blocks, each (.., blocks, half, C)."""
    first, second = pieces.unflatten(-2, (-1, 2, half)).unbind(dim=-3)
    return first, second


def _add_to_second(pieces: Tensor, half: int, added: Tensor) -> Tensor:
    first, second = _halves(pieces, half)
    return _joined(first, second + added)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Return what `_halves` gives these halves of."""
    return torch.stack([first, second], dim=-3).flatten(-4, -2)


def _carry(carried: Tensor, kept: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is carried to each piece, axis 2, and from the last: of each, `kept` stays, `added` comes."""
    before = []
    for stays, comes in zip(kept.unbind(dim=2), added.unbind(dim=2), strict=True):
        before.append(carried.expand_as(comes))
        carried = carried * stays + comes
    return torch.stack(before, dim=2), carried
