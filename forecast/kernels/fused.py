"""Where an operation of a mechanism runs: in a kernel of this folder written in Triton, or in its plain form.

A function here takes the plain form first. The kernel runs if kernels are on, Triton is installed, the tensors are on a
GPU, all of float32 or all of bfloat16, and no head is wider than 256. Otherwise the plain form runs: also in exported
graphs, under `torch.func` and in forward mode. A kernel's gradient cannot be differentiated again.

Kernels are off by default, since they are not measured on a GPU yet. `FORECAST_KERNELS=1` in the environment turns them
on, `use` in a program. With `TRITON_INTERPRET=1` as well, they run on the CPU in Triton's interpreter, for tests.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec

import torch
from torch import Tensor

VARIABLE = "FORECAST_KERNELS"
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
WIDEST = 256
MOST_FEW = 128
"""Most sampled keys and most chosen queries of the kernels for `probsparse`: their scores are in registers."""

DTYPES = (torch.float32, torch.bfloat16)


@dataclass
class _Switch:
    is_on: bool
    forms: list[set[str]] = field(default_factory=list)


def _load() -> bool:
    """Import the kernels, which nothing does while they are off; return whether Triton is installed."""
    if find_spec("triton") is None:
        return False
    from forecast.kernels import triton_sampling, triton_sums  # noqa: F401

    return True


_SWITCH = _Switch(os.environ.get(VARIABLE) == "1" and _load())


@contextmanager
def use(kernels: bool) -> Iterator[None]:
    """Turn the kernels on or off inside the context, in all threads; without Triton they stay off."""
    before, _SWITCH.is_on = _SWITCH.is_on, kernels and _load()
    try:
        yield
    finally:
        _SWITCH.is_on = before


def are_on() -> bool:
    """Return whether kernels run where they apply."""
    return _SWITCH.is_on


@contextmanager
def watch() -> Iterator[set[str]]:
    """Return a set that receives "kernel" or "plain" for each operation inside the context that has a kernel."""
    forms: set[str] = set()
    _SWITCH.forms.append(forms)
    try:
        yield forms
    finally:
        _SWITCH.forms.remove(forms)


def summed_means(
    plain: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    features: str,
    normalize: bool = True,
    scale: float = 1.0,
) -> Tensor:
    """Return `plain(query, key, value, mask)`: means of the values whose weights are products of features.

    Parameters
    ----------
    plain
        Plain form of the operation, not causal.
    query, key, value, mask
        As in `Attention.forward`.
    features
        "elu", "relu", "softplus" or "exp": as in `linear`. "softmax": a softmax of the query over its features and of
        the key over positions, as in `efficient`. "taylor": vectors scaled to length 1, with weights 1 + q·k.
    normalize
        Whether the weights of a query are divided by their sum.
    scale
        Factor of the softmax of the query.
    """
    if not _applies(query, key, value):
        return plain(query, key, value, mask)
    from forecast.kernels import triton_sums

    output: Tensor = triton_sums.summed_means(query, key, value, mask, features, normalize, scale)[0]
    return output


def informative_queries(
    plain: Callable[[], Tensor],
    query: Tensor,
    key: Tensor,
    positions: Tensor,
    valid: Tensor | None,
    mask: Tensor | None,
    query_mask: Tensor | None,
    *,
    count: int,
    is_published: bool,
) -> Tensor:
    """Return `plain()`: the positions of the `count` queries with the highest measure, highest first, (B, H, count).

    Parameters
    ----------
    plain
        Plain form of the operation, not causal.
    query, key, mask, query_mask
        As in `Attention.forward`.
    positions, valid
        Sampled keys (B or 1, L or 1, U), and which of the U are valid in a batch row, (B, 1, U).
    count
        Number of queries to choose.
    is_published
        Whether the sum of scores is divided by the number of all keys instead of the sampled ones.
    """
    if not _applies(query, key, few=positions.shape[2]):
        return plain()
    from forecast.kernels import triton_sampling

    divisors = mask.sum(dim=1) if mask is not None and is_published else None
    valid = None if valid is None else valid[:, 0]
    sample = positions, valid, divisors, query_mask, is_published
    chosen: Tensor = triton_sampling.informative_queries(query, key, *sample, count)
    return chosen


def softmax_of_few(
    plain: Callable[[], Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    chosen: Tensor,
    active: Callable[[], Tensor] | None = None,
) -> Tensor:
    """Return `plain()`: softmax attention of the queries `chosen` (B, H, u), the mean of the values for the others.

    Parameters
    ----------
    plain
        Plain form of the operation, not causal.
    query, key, value, mask
        As in `Attention.forward`.
    chosen
        Positions of the queries.
    active
        Returns which of them are active, boolean, (B, H, u); the others get the mean too. None: all.
    """
    if not _applies(query, key, value, few=chosen.shape[2]):
        return plain()
    from forecast.kernels import triton_sampling

    places = (chosen if active is None else chosen.masked_fill(~active(), -1)).contiguous()
    output: Tensor = triton_sampling.softmax_of_few(query, key, value, mask, places)[0]
    return output


def _applies(*tensors: Tensor, few: int = 1) -> bool:
    """Return whether a kernel runs for these tensors (B, H, N, ·), and note the form where `watch` is active."""
    applies = _SWITCH.is_on and few <= MOST_FEW and _is_possible(tensors)
    if _SWITCH.forms and not torch.compiler.is_compiling():
        for forms in _SWITCH.forms:
            forms.add("kernel" if applies else "plain")
    return applies


def _is_possible(tensors: tuple[Tensor, ...]) -> bool:
    first = tensors[0]
    if not (first.is_cuda or (IS_INTERPRETED and first.device.type == "cpu")):
        return False
    if first.dtype not in DTYPES or any(x.dtype != first.dtype or x.shape[3] > WIDEST for x in tensors):
        return False
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    return not torch._C._are_functorch_transforms_active() and torch.autograd.forward_ad._current_level < 0
