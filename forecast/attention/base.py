"""The contract of an attention mechanism, and what one is written with."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, check_mask, without_padded_queries, zero_masked
from forecast.common.errors import InputError

__all__ = [
    "Attention",
    "CausalAbility",
    "Cost",
    "Costs",
    "Head",
    "Mask",
    "SparseQueries",
    "allowed_pairs",
    "at_least_float32",
    "full_precision",
    "is_autocast",
    "sparse_queries",
]

CausalAbility = Literal["strict", "values only", "no"]


class Attention(nn.Module, ABC):
    """A weighted mean of the values for each query; a mechanism is a subclass alone in its file.

    A subclass declares its abilities and its cost below and writes `attend` and
    `attention_weights`. It is handed
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
    time_cost, memory_cost : Cost or mapping of str to Cost
        How the cost of a head grows with the length L, forward pass; see `Costs`.

    Raises
    ------
    InputError
        For a request that the mechanism cannot fulfil.
    """

    causal_ability: ClassVar[CausalAbility] = "no"
    accepts_pair_mask: ClassVar[bool] = False
    cross: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
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
        """Return the mixed values, shape (B, H, L, V); arguments as in `forward`."""

    @abstractmethod
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        """Return the explicit or implied weights, shape (B, H, L, S); arguments as in `forward`."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask = None,
        query_mask: Mask = None,
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
        query, key = zero_masked(query, query_mask), zero_masked(key, mask)
        output = self.attend(query, key, zero_masked(value, mask), mask, query_mask)
        return zero_masked(output, query_mask).to(dtype)

    def attention_map(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the weights whose product with the values is the output, shape (B, H, L, S).

        They take O(L S) memory whatever the mechanism: for looking at, and for tests in float64. A
        mechanism that draws at random in training mode draws anew here.
        """
        self._check(query, key, None, mask, query_mask)
        if _nothing(query, key):
            return (query @ key.transpose(-1, -2)).to(at_least_float32(query))
        mask = without_padded_queries(mask, query_mask)
        return zero_masked(
            self.attention_weights(zero_masked(query, query_mask), zero_masked(key, mask), mask, query_mask), query_mask
        )

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

    def _check(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask, query_mask: Mask) -> None:
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

    def check_masks(self, batch: int, length: int, key_length: int, mask: Mask, query_mask: Mask) -> None:
        """Raise ValueError if a mask is not boolean or not of a shape that the mechanism takes."""
        if mask is not None:
            shapes: list[tuple[int, ...]] = [(batch, key_length)]
            if self.accepts_pair_mask:
                shapes.append((batch, length, key_length))
            check_mask(self.name, "mask", mask, shapes)
        if query_mask is not None:
            check_mask(self.name, "query_mask", query_mask, [(batch, length)])

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float | None:
        """Return the floating-point operations of one head's forward pass; None where nobody has counted them.

        A multiplication and an addition are two; exponentials and sampling are left out. `arguments` are those
        of the YAML file.
        """
        return None

    @classmethod
    def elements_moved(cls, head: Head, backward: bool) -> int:
        """Return the numbers that one head moves at the least: query, key and value read once, the output written once.

        The backward pass reads those three and the output's gradient, and writes three gradients.
        """
        inputs = head.queries * head.width + head.keys * (head.width + head.value_width)
        output = head.queries * head.value_width
        return inputs + output + (2 * inputs + output) * backward


class SparseQueries(Attention):
    """The capability of a mechanism in which few queries get the softmax, all others the mean of the values.

    It speaks for the class that defines `choose_active_queries` and for subclasses with no method of their own but
    a constructor: any other may attend in another way.
    """

    is_declared: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        methods = {name for name, member in vars(cls).items() if callable(member)} - {"__init__", "extra_repr"}
        cls.is_declared = "choose_active_queries" in methods or (cls.is_declared and not methods)

    @abstractmethod
    def choose_active_queries(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the positions of the queries that get the softmax, best first, shape (B, H, u)."""

    def num_active_queries(self, length: int) -> int | None:
        """Return how many of `length` queries `choose_from_products` chooses; None where it cannot."""
        return None

    def choose_from_products(self, length: int, device: torch.device, products: Callable[[Tensor], Tensor]) -> Tensor:
        """Choose in unmasked self-attention without the keys of all positions, shape (B, H, u).

        `products` returns those of all queries with the keys at positions (U,), shape (B, H, L, U).
        """
        raise NotImplementedError


def sparse_queries(mechanism: Attention) -> SparseQueries | None:
    """Return the mechanism if it has the capability `SparseQueries` and its class speaks for it, else None."""
    return mechanism if isinstance(mechanism, SparseQueries) and mechanism.is_declared else None


def _nothing(query: Tensor, key: Tensor) -> bool:
    """Return whether there is no batch row, no query or no key; products of such tensors are zeros or empty."""
    return query.shape[0] == 0 or query.shape[2] == 0 or key.shape[2] == 0


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
