"""The contract of an attention mechanism, and the names that a mechanism imports."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import (
    Mask,
    allowed_pairs,
    check_heads,
    check_mask,
    without_padded_queries,
    zero_masked,
)
from forecast.common.errors import InputError

__all__ = [
    "Attention",
    "CausalAbility",
    "Cost",
    "Costs",
    "Head",
    "Invariance",
    "Mask",
    "SparseQueries",
    "allowed_pairs",
    "at_least_float32",
    "full_precision",
    "is_autocast",
    "is_half_on_cpu",
    "is_transformed",
    "sparse_queries",
]

CausalAbility = Literal["strict", "values only", "no"]
Invariance = Literal["order of keys", "shift of keys", "scale of keys", "scale of queries"]


class Attention(nn.Module, ABC):
    """Base class of an attention mechanism: a weighted mean of the values for each query.

    A mechanism is the only subclass in its file. It declares the attributes below and implements `attend` and
    `attention_weights`. Both receive checked masks, and tensors that are zero wherever they are masked. They are never
    called with an empty batch, no queries or no keys. Their output for a masked query is replaced by zeros.

    Parameters
    ----------
    num_heads
        Number of heads H.
    head_dim
        Width E of one head of query and key.
    causal
        Whether a query attends only to positions up to its own.
    max_key_length
        Length of the longest key, for mechanisms with parameters per position; None if unknown.

    Attributes
    ----------
    causal_ability
        "strict": later positions never change an output. "values only": later values are never mixed in, but later
        queries and keys may change the weights. "no": `causal=True` is refused.
    accepts_pair_mask
        Whether a mask of shape (B, L, S), one row per query, is accepted as well as (B, S).
    cross
        Whether query and key may differ in length.
    deterministic
        Whether two passes in training mode agree. In evaluation mode they always do.
    heads_alike
        Whether all heads compute the same function; False for parameters or constants per head.
    weights_may_vanish
        Whether all weights of a query may be 0 although it has keys; its output is then zeros.
    local
        Whether keys far from a query have no weight; otherwise every allowed key has one.
    invariances
        Changes that leave the output as it is, which the check tries. "order of keys": another order of keys and
        values, not causal. "shift of keys": one vector added to all keys. "scale of keys", "scale of queries": a
        positive factor for each vector.
    must_be_called
        Whether a layer calls its projections and the mechanism even if a form that reads only their weights is faster.
        Set it on an instance before you register hooks on these modules.
    time_cost
        Growth of the time of one head's forward pass; see `Costs`.
    memory_cost
        Growth of the memory of one head's forward pass; see `Costs`.

    Raises
    ------
    InputError
        If the mechanism cannot be causal, or an argument is out of range.
    """

    causal_ability: ClassVar[CausalAbility] = "no"
    accepts_pair_mask: ClassVar[bool] = False
    cross: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    heads_alike: ClassVar[bool] = True
    weights_may_vanish: bool = False  # an instance may set it, since it can depend on an argument
    local: ClassVar[bool] = False
    invariances: ClassVar[tuple[Invariance, ...]] = ()
    must_be_called: bool = False
    time_cost: ClassVar[Costs]
    memory_cost: ClassVar[Costs]

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
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        """Return the attention output, shape (B, H, L, V); arguments as in `forward`."""

    @abstractmethod
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        """Return the weights, explicit or implied, shape (B, H, L, S); arguments as in `forward`."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the attention output.

        Parameters
        ----------
        query
            Shape (B, H, L, E).
        key
            Shape (B, H, S, E).
        value
            Shape (B, H, S, V).
        mask
            Boolean, True where a key may be attended. Shape (B, S), or (B, L, S) if `accepts_pair_mask`.
            `forecast.attention.mask_from_lengths` makes it of valid lengths.
        query_mask
            Boolean, True for a query, False for padding. Shape (B, L).

        Returns
        -------
        Tensor
            Shape (B, H, L, V), dtype of `value`. Zeros for padding and for a query without a key to attend to. No two
            elements share memory.

        Raises
        ------
        ValueError
            If shapes do not match, or the mechanism does not accept a mask of this type or shape.
        """
        self._check(query, key, value, mask, query_mask)
        dtype = value.dtype
        if _is_empty(query, key):
            return (query.to(dtype) @ key.to(dtype).transpose(-1, -2) @ value).to(dtype)
        mask = without_padded_queries(mask, query_mask)
        query, key = zero_masked(query, query_mask), zero_masked(key, mask)
        output = self.attend(query, key, zero_masked(value, mask), mask, query_mask)
        return zero_masked(output, query_mask).to(dtype)

    def attention_map(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the weights whose product with the values is the output, shape (B, H, L, S).

        Every mechanism needs O(L S) memory here: the map is for figures, and for tests in float64. A random mechanism
        in training mode draws a new sample.
        """
        self._check(query, key, None, mask, query_mask)
        if _is_empty(query, key):
            return (query @ key.transpose(-1, -2)).to(at_least_float32(query))
        mask = without_padded_queries(mask, query_mask)
        return zero_masked(
            self.attention_weights(zero_masked(query, query_mask), zero_masked(key, mask), mask, query_mask), query_mask
        )

    def positive_integer(self, name: str, value: object) -> int:
        """Return `value`; raise InputError unless it is an integer of at least 1."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"attention={self.name}: {name} must be an integer of at least 1, not {value!r}")
        return value

    def true_or_false(self, name: str, value: object) -> bool:
        """Return `value`; raise InputError unless it is a boolean."""
        if not isinstance(value, bool):
            raise InputError(f"attention={self.name}: {name} must be true or false, not {value!r}")
        return value

    def one_of(self, name: str, value: str, choices: tuple[str, ...]) -> str:
        """Return `value`; raise InputError unless it is one of `choices`."""
        if value not in choices:
            raise InputError(f"attention={self.name}: {name} must be one of {', '.join(choices)}, not {value!r}")
        return value

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, head_dim={self.head_dim}, causal={self.causal}"

    def _check(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask, query_mask: Mask) -> None:
        check_heads(query, key, value)
        batch, heads, length, width = query.shape
        key_length = key.shape[2]
        if (heads, width) != (self.num_heads, self.head_dim):
            raise ValueError(
                f"{self.name} was built for {self.num_heads} heads of {self.head_dim}, the query has {heads} of {width}"
            )
        if key.shape != (batch, heads, key_length, width):
            raise ValueError(f"query {tuple(query.shape)} and key {tuple(key.shape)} do not match")
        if value is not None and value.shape[:3] != key.shape[:3]:
            raise ValueError(f"key {tuple(key.shape)} and value {tuple(value.shape)} do not match")
        if length != key_length and self.causal:
            raise ValueError(f"causal {self.name} needs as many queries as keys, not {length} and {key_length}")
        if length != key_length and not self.cross:
            raise ValueError(
                f"{self.name} needs as many queries as keys, not {length} and {key_length}: "
                "set attention@cross_attention=full"
            )
        self.check_masks(batch, length, key_length, mask, query_mask)

    def check_masks(self, batch: int, length: int, key_length: int, mask: Mask, query_mask: Mask) -> None:
        """Raise ValueError if a mask is not boolean, or the mechanism does not accept its shape."""
        if mask is not None:
            shapes: list[tuple[int, ...]] = [(batch, key_length)]
            if self.accepts_pair_mask:
                shapes.append((batch, length, key_length))
            check_mask(self.name, "mask", mask, shapes)
        if query_mask is not None:
            check_mask(self.name, "query_mask", query_mask, [(batch, length)])

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float | None:
        """Return the floating-point operations of one head's forward pass; None if unknown.

        A multiplication and an addition are two operations. Exponentials and sampling are not counted. `arguments` are
        the keys of the YAML file.
        """
        return None

    @classmethod
    def elements_moved(cls, head: Head, backward: bool) -> int:
        """Return the least number of elements that one head reads and writes.

        The forward pass reads query, key and value once and writes the output once. The backward pass reads the same
        three and the output's gradient, and writes three gradients.
        """
        inputs = head.queries * head.width + head.keys * (head.width + head.value_width)
        output = head.queries * head.value_width
        return inputs + output + (2 * inputs + output) * backward


class SparseQueries(Attention):
    """Capability of a mechanism: a few active queries get the softmax, all others the mean of the values.

    `is_declared` is True for the class that defines `choose_active_queries`, and for subclasses that add a constructor
    at most. Other subclasses may attend differently.
    """

    is_declared: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        methods = {name for name, member in vars(cls).items() if callable(member)} - {"__init__", "extra_repr"}
        cls.is_declared = "choose_active_queries" in methods or (cls.is_declared and not methods)

    @abstractmethod
    def choose_active_queries(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the positions of the active queries, highest measure first, shape (B, H, u)."""

    def active_queries(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return which queries are active, boolean, shape (B, H, L)."""
        chosen = self.choose_active_queries(query, key, mask, query_mask)
        active = torch.zeros(query.shape[:3], dtype=torch.bool, device=query.device)
        return active.scatter(2, chosen, self.is_active(chosen, query_mask))

    def is_active(self, chosen: Tensor, query_mask: Mask) -> Tensor:
        """Return which of the `chosen` queries (B, H, u) are active; with padded queries, not all may be."""
        return torch.ones_like(chosen, dtype=torch.bool)

    def num_active_queries(self, length: int) -> int | None:
        """Return the number u that `choose_from_products` chooses of `length` queries; None if it is not supported."""
        return None

    def choose_from_products(self, length: int, device: torch.device, products: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the active queries of unmasked self-attention, shape (B, H, u), without computing all keys.

        `products` maps positions (U,) to the products of all queries with the keys there, shape (B, H, L, U).
        """
        raise NotImplementedError


def sparse_queries(mechanism: Attention) -> SparseQueries | None:
    """Return the mechanism if its class declares the capability `SparseQueries`, else None."""
    return mechanism if isinstance(mechanism, SparseQueries) and mechanism.is_declared else None


def _is_empty(query: Tensor, key: Tensor) -> bool:
    """Return whether there is no batch row, query or key. Products of such tensors are empty or zero."""
    return query.shape[0] == 0 or query.shape[2] == 0 or key.shape[2] == 0


def at_least_float32(tensor: Tensor) -> torch.dtype:
    """Return the dtype for sums over the sequence: float64 for a float64 tensor, else float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


def is_half_on_cpu(tensor: Tensor) -> bool:
    """Return whether the tensor is in half precision on a CPU, which multiplies few rows faster in float32."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.bfloat16, torch.float16)


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the tensor's device, so that float32 products stay float32."""
    return torch.autocast(tensor.device.type, enabled=False) if is_autocast(tensor) else nullcontext()


def is_autocast(tensor: Tensor) -> bool:
    """Return whether autocast is enabled on the tensor's device."""
    device = tensor.device.type
    # torch 2.11 cannot compile is_autocast_available; every device that it compiles for supports autocast
    available = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device)
    return available and torch.is_autocast_enabled(device)


def is_transformed() -> bool:
    """Return whether torch.func or forward-mode differentiation is active, which hand-written passes do not support."""
    return bool(torch._C._are_functorch_transforms_active()) or torch.autograd.forward_ad._current_level >= 0
