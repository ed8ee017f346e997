"""The contract of an attention mechanism, its masks and its lengths."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from forecast.common.errors import InputError

CausalAbility = Literal["strict", "values only", "no"]


class Attention(nn.Module, ABC):
    """A weighted mean of the values for each query; a mechanism is a subclass alone in its file.

    A subclass declares its abilities and its cost below and writes `attend` and `weigh`. It is handed
    checked masks and tensors in which everything masked is zero; what it returns for a query that is
    itself masked is replaced by zeros. It is never called without batch rows, queries or keys.

    Parameters
    ----------
    num_heads : int
        Heads H of the tensors that come in.
    head_dim : int
        Width E of a head of query and key.
    causal : bool
        Whether a query may attend only to the positions up to its own.
    max_key_length : int or None
        The longest key that the layer will bring, for mechanisms with parameters tied to positions.

    Attributes
    ----------
    causal_ability : {"strict", "values only", "no"}
        "strict": nothing after a position changes its output. "values only": no later value is mixed in,
        yet what is computed for a position may depend on later ones. "no": `causal=True` is refused.
    accepts_pair_mask : bool
        Whether a mask of shape (B, L, S), one row a query, is accepted beside (B, S).
    cross : bool
        Whether query and key may differ in length.
    deterministic : bool
        Whether two passes in training mode agree; in evaluation mode they always do.
    time_cost, memory_cost : str
        How the cost of a head grows with the length L, forward pass.

    Raises
    ------
    InputError
        For a request that the mechanism cannot fulfil.
    """

    causal_ability: ClassVar[CausalAbility] = "no"
    accepts_pair_mask: ClassVar[bool] = False
    cross: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    time_cost: ClassVar[str]
    memory_cost: ClassVar[str]

    def __init__(
        self, *, num_heads: int, head_dim: int, causal: bool = False, max_key_length: int | None = None
    ) -> None:
        super().__init__()
        self.name = type(self).__module__.rpartition(".")[2]
        self.num_heads = self.positive_integer("num_heads", num_heads)
        self.head_dim = self.positive_integer("head_dim", head_dim)
        if max_key_length is not None:
            self.positive_integer("max_key_length", max_key_length)
        self.max_key_length = max_key_length
        self.causal = causal
        if causal and self.causal_ability == "no":
            raise InputError(
                f"attention={self.name} cannot be causal: set attention@decoder_attention=full, "
                "or use a model whose decoder is not causal"
            )

    @abstractmethod
    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        """Return the mixed values, shape (B, H, L, V); arguments as in `forward`."""

    @abstractmethod
    def weigh(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        """Return the explicit or implied weights, shape (B, H, L, S); arguments as in `forward`."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        query_mask: Tensor | None = None,
    ) -> Tensor:
        """Mix the values for each query.

        Parameters
        ----------
        query : Tensor
            Shape (B, H, L, E).
        key : Tensor
            Shape (B, H, S, E).
        value : Tensor
            Shape (B, H, S, V).
        mask : Tensor, optional
            Boolean, True where a key may be attended, shape (B, S), or (B, L, S) where the class accepts it.
        query_mask : Tensor, optional
            Boolean, True where a query is real and not padding, shape (B, L).

        Returns
        -------
        Tensor
            Shape (B, H, L, V), dtype of `value`; zeros for a query with nothing to attend, as where there are
            no keys, and for a query that is padding. No two elements share memory.

        Raises
        ------
        ValueError
            If shapes do not fit together or the mask is of a kind that the mechanism does not take.
        """
        self._check(query, key, value, mask, query_mask)
        dtype = value.dtype
        if _nothing(query, key):
            return (query.to(dtype) @ key.to(dtype).transpose(-1, -2) @ value).to(dtype)
        mask = without_padded_queries(mask, query_mask)
        query, key = hide(query, query_mask), hide(key, mask)
        output = self.attend(query, key, hide(value, mask), mask, query_mask)
        return hide(output, query_mask).to(dtype)

    def few(self, length: int) -> int | None:
        """Return how many of `length` queries attend while the others share the mean; None where it is not so.

        It speaks for the class that defines it and for no subclass, which may attend in another way.
        """
        return None

    def choose_few(self, length: int, device: torch.device, score: Callable[[Tensor], Tensor]) -> Tensor:
        """Return which attend, (B, H, few); `score` gives the products (B, H, L, U) with the keys at positions (U,)."""
        raise NotImplementedError

    def attention_map(
        self, query: Tensor, key: Tensor, mask: Tensor | None = None, query_mask: Tensor | None = None
    ) -> Tensor:
        """Return the weights whose product with the values is the output, shape (B, H, L, S).

        They take O(L S) memory whatever the mechanism: for looking at, and for tests in float64. A
        mechanism that draws at random in training mode draws anew here.
        """
        self._check(query, key, None, mask, query_mask)
        if _nothing(query, key):
            return (query @ key.transpose(-1, -2)).to(at_least_float32(query))
        mask = without_padded_queries(mask, query_mask)
        return hide(self.weigh(hide(query, query_mask), hide(key, mask), mask, query_mask), query_mask)

    def positive_integer(self, name: str, value: object) -> int:
        """Return `value` if it is an integer of at least 1, else raise InputError naming the mechanism."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"attention={self.name}: {name} must be an integer of at least 1, not {value!r}")
        return value

    def one_of(self, name: str, value: str, choices: tuple[str, ...]) -> str:
        """Return `value` if it is among `choices`, else raise InputError naming the mechanism."""
        if value not in choices:
            raise InputError(f"attention={self.name}: {name} must be one of {', '.join(choices)}, not {value!r}")
        return value

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, head_dim={self.head_dim}, causal={self.causal}"

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor | None, mask: Tensor | None, query_mask: Tensor | None
    ) -> None:
        batch, heads, length, width = query.shape
        key_length = key.shape[2]
        if (heads, width) != (self.num_heads, self.head_dim):
            raise ValueError(
                f"{self.name} was built for {self.num_heads} heads of {self.head_dim}, the query has {heads} of {width}"
            )
        if key.shape != (batch, heads, key_length, width):
            raise ValueError(f"query {tuple(query.shape)} and key {tuple(key.shape)} do not fit together")
        if value is not None and (value.ndim != 4 or value.shape[:3] != key.shape[:3]):
            raise ValueError(f"key {tuple(key.shape)} and value {tuple(value.shape)} do not fit together")
        if length != key_length and self.causal:
            raise ValueError(f"causal {self.name} needs queries and keys of one length: {length}, {key_length}")
        if length != key_length and not self.cross:
            raise ValueError(
                f"{self.name} needs queries and keys of one length, not {length} and {key_length}: "
                "set attention@cross_attention=full"
            )
        self.check_masks(batch, length, key_length, mask, query_mask)

    def check_masks(
        self, batch: int, length: int, key_length: int, mask: Tensor | None, query_mask: Tensor | None
    ) -> None:
        """Raise ValueError if a mask is not boolean or not of a shape that the mechanism takes."""
        if mask is not None:
            shapes: list[tuple[int, ...]] = [(batch, key_length)]
            if self.accepts_pair_mask:
                shapes.append((batch, length, key_length))
            self._check_mask("mask", mask, shapes)
        if query_mask is not None:
            self._check_mask("query_mask", query_mask, [(batch, length)])

    def _check_mask(self, name: str, mask: Tensor, shapes: list[tuple[int, ...]]) -> None:
        if mask.dtype != torch.bool:
            raise ValueError(f"{name} must be boolean, True = may be attended, not {mask.dtype}")
        if tuple(mask.shape) not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise ValueError(f"{self.name} takes a {name} of shape {wanted}, not {tuple(mask.shape)}")


def _nothing(query: Tensor, key: Tensor) -> bool:
    """Return whether there is no batch row, no query or no key; products of such tensors are zeros or empty."""
    return query.shape[0] == 0 or query.shape[2] == 0 or key.shape[2] == 0


def hide(tensor: Tensor, mask: Tensor | None) -> Tensor:
    """Zero the rows of (B, ..., N, ·) that `mask` (B, N) hides, or (B, L, N) hides from every query."""
    if mask is None:
        return tensor
    seen = mask if mask.ndim == 2 else mask.any(dim=1)
    if tensor.ndim == 4:
        seen = seen[:, None]
    return tensor.masked_fill(~seen[..., None], 0)


def without_padded_queries(mask: Tensor | None, query_mask: Tensor | None) -> Tensor | None:
    """Return the mask in which a padded query attends to nothing, so that a key only it may attend is hidden."""
    if mask is None or mask.ndim == 2 or query_mask is None:
        return mask
    return mask & query_mask[..., None]


def allowed_pairs(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    """Return which keys a query may attend, broadcastable to (B, H, L, S); None when every pair is allowed."""
    allowed = None
    if mask is not None:
        allowed = mask[:, None, None, :] if mask.ndim == 2 else mask[:, None]
    if causal:
        past = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
        allowed = past[None, None] if allowed is None else allowed & past
    return allowed


def at_least_float32(tensor: Tensor) -> torch.dtype:
    """Return the dtype for sums over the sequence: float32, or float64 where the tensor has it."""
    return torch.promote_types(tensor.dtype, torch.float32)


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """Switch autocast off on the tensor's device: it would turn float32 products into half ones."""
    return torch.autocast(tensor.device.type, enabled=False) if is_autocast(tensor) else nullcontext()


def is_autocast(tensor: Tensor) -> bool:
    """Tell whether autocast is on, on the tensor's device."""
    device = tensor.device.type
    # the compiler of torch 2.11 cannot trace the first question, and what it compiles for has autocast
    available = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device)
    return available and torch.is_autocast_enabled(device)


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
