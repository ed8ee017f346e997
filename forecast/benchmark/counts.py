"""The arithmetic and the memory traffic that a pass cannot do without, counted, not measured."""

from collections.abc import Mapping
from typing import Any

from forecast.attention._sampling import log_count
from forecast.model._few import pays

BACKWARD = 2
"""Each product of the forward pass has two of its size in the backward pass."""


def head_operations(
    name: str, length: int, width: int, arguments: Mapping[str, Any], *, causal: bool = False
) -> float | None:
    """Return the floating-point operations of one head's forward pass, queries and keys of one length.

    None for a mechanism that nobody has counted. A multiplication and an addition are two; exponentials
    and sampling are left out. Causal halves `full`; the others' formulas are those without.
    """
    linear = 4 * length * width**2
    match name:
        case "full":
            return 4 * length**2 * width / (2 if causal else 1)
        case "probsparse":
            # U keys for all queries, then u queries for all keys, twice; here u and U are equal
            return 6 * length * log_count(arguments["factor"], length) * width
        case "linear" | "efficient":
            return linear + 3 * length * width
        case "taylor":
            return linear + 5 * length * width
        case "linformer":
            return 8 * length * min(int(arguments["rank"]), length) * width
        case "mean":
            return length * width
    return None


def projection_operations(length: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of the four projections of a layer, forward, a batch row."""
    return 4 * 2 * length * d_model * num_heads * head_dim


def few_of(name: str, length: int, head_dim: int, arguments: Mapping[str, Any], *, causal: bool) -> int | None:
    """Return how many queries a float32 layer of self-attention goes by; None where it makes keys for all."""
    if name != "probsparse" or causal or arguments.get("sampling") != "shared":
        return None
    few = log_count(arguments["factor"], length)
    return few if pays(length, few, head_dim) else None


def few_operations(length: int, few: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of a layer that goes by its few queries straight from the tokens, forward, a batch row."""
    return 2 * num_heads * few * d_model * (3 * length + 6 * head_dim)


def attention_elements(
    name: str, length: int, num_heads: int, head_dim: int, *, causal: bool = False, backward: bool = False
) -> int:
    """Return the numbers moved at the least: query, key and value read once, the output written once.

    The backward pass reads those three and the output's gradient, and writes three gradients. `mean` reads
    values alone, and only causal does it write more than a row; so with their gradients.
    """
    tensors = (1 + causal) * (1 + backward) if name == "mean" else 4 + 7 * backward
    return tensors * length * num_heads * head_dim


def layer_elements(length: int, d_model: int, num_heads: int, head_dim: int) -> int:
    """Return the numbers that a layer moves at the least, forward: input, four weights, output."""
    return 2 * length * d_model + 4 * d_model * num_heads * head_dim
