"""Count the floating-point operations of a call."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode, flop_registry


def operations(call: Callable[[], Any]) -> int:
    """Return the operations of `call` without gradients; a multiplication and its addition are 2 operations.

    Matrix products, convolutions and fused softmax attention count. Elementwise operations, norms and means do not.
    """
    with torch.no_grad():
        return training_operations(call)


def training_operations(call: Callable[[], Any]) -> int:
    """Return the operations of `call`, including a backward pass that it runs; see `operations`."""
    counter = FlopCounterMode(display=False, custom_mapping=_FUSED)
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]
    with counter:
        call()
    return int(counter.get_total_flops())


def operations_of(function: Any, args: Any, kwargs: Any, result: Any) -> int | None:
    """Return the operations of one call of an operator; None if it is not among those that count."""
    if (fused := _FUSED.get(function.overloadpacket)) is not None:
        return fused(*tree_map_only(torch.Tensor, lambda tensor: tensor.shape, args))
    if (counted := flop_registry.get(function.overloadpacket)) is not None:
        return int(counted(*args, **kwargs, out_val=result))
    return None


class _NoModules(nullcontext[None]):
    """Replacement for torch's module tracker, whose hooks would disable the CPU kernels."""

    parents: ClassVar[set[str]] = {"Global"}


def _fused_softmax(query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
    """Return the operations of QKᵀ and of the weights times V; as in torch's count, a causal mask saves nothing."""
    pairs, width, value_width = _sizes(query, value)
    return 2 * pairs * (width + value_width)


def _fused_softmax_backward(
    gradient: torch.Size, query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any
) -> int:
    """Return the operations of recomputing QKᵀ and of the four products of the gradients, as in torch's count."""
    pairs, width, value_width = _sizes(query, value)
    return 2 * pairs * (3 * width + 2 * value_width)


def _sizes(query: torch.Size, value: torch.Size) -> tuple[int, int, int]:
    """Return the number of query-key pairs over all heads, and the widths of query and value."""
    *batch, num_queries, width = query
    num_keys, value_width = value[-2:]
    return torch.Size(batch).numel() * num_queries * num_keys, width, value_width


# torch itself counts the fused kernels of other devices
_FUSED: dict[Any, Callable[..., int]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused_softmax,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_softmax_backward,
}
