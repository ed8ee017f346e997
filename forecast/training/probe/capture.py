"""Capture of the inputs and outputs of attention on a batch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import isqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from forecast.attention.base import Attention, Mask
from forecast.data.windows import Batch, evenly_spaced
from forecast.model.decoder import DecoderLayer
from forecast.model.encoder import EncoderLayer
from forecast.model.informer import Informer, in_evaluation


class Captured(NamedTuple):
    """One call of a mechanism: query and output (B, H, L, ·), key and value (B, H, S, ·), masks (B, S) and (B, L)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    mask: Mask = None
    query_mask: Mask = None

    def rows(self, chosen: slice | Tensor) -> "Captured":
        """Return the call restricted to the chosen sequences."""
        return Captured._make(None if tensor is None else tensor[chosen] for tensor in self)

    def head(self, number: int) -> "Captured":
        """Return the call restricted to one head."""
        one = (tensor[:, number : number + 1] for tensor in self[:4])
        return Captured._make((*one, self.mask, self.query_mask))


OnCall = Callable[[str, Attention, Captured], None]
"""Function that receives the name of a place, its mechanism and a call of it."""


def places(network: Informer) -> dict[str, Attention]:
    """Return the mechanisms by place, in the order of their calls: `encoder.0.self`, …, `decoder.0.cross`."""
    mechanisms: dict[str, Attention] = {}
    for number, layer in enumerate(network.encoder.layers):
        assert isinstance(layer, EncoderLayer)
        mechanisms[f"encoder.{number}.self"] = layer.attention.attention
    for number, layer in enumerate(network.decoder.layers):
        assert isinstance(layer, DecoderLayer)
        mechanisms[f"decoder.{number}.self"] = layer.self_attention.attention
        mechanisms[f"decoder.{number}.cross"] = layer.cross_attention.attention
    return mechanisms


@contextmanager
def capturing(mechanisms: Mapping[str, Attention], on_call: OnCall) -> Iterator[None]:
    """Pass each call of the mechanisms to `on_call` as it returns, so that no tensors are kept between layers."""
    before = [mechanism.must_be_called for mechanism in mechanisms.values()]
    handles: list[RemovableHandle] = []
    try:
        for place, mechanism in mechanisms.items():
            mechanism.must_be_called = True
            handles.append(mechanism.register_forward_hook(partial(_pass_on, on_call, place)))
        yield
    finally:
        for handle in handles:
            handle.remove()
        for mechanism, must_be_called in zip(mechanisms.values(), before, strict=True):
            mechanism.must_be_called = must_be_called


def _pass_on(
    on_call: OnCall,
    place: str,
    mechanism: Attention,
    arguments: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None],
    output: Tensor,
) -> None:
    query, key, value, mask, query_mask = arguments
    assert mask is None or mask.ndim == 2, "the networks of this program pass no mask per query"
    on_call(place, mechanism, Captured(query, key, value, output, mask, query_mask))


@torch.inference_mode()
def capture_calls(network: Informer, batch: Batch, on_call: OnCall) -> None:
    """Forecast `batch` in evaluation mode and float32, and pass the call of each attention to `on_call`.

    The modes of the network and the random state of the CPU and of the network's device are restored.
    """
    device = batch.past.device
    devices = [device] if device.type == "cuda" else []
    autocast = torch.autocast(device.type, enabled=False)
    with torch.random.fork_rng(devices), in_evaluation(network), capturing(places(network), on_call), autocast:
        network(batch.past, batch.past_known, batch.future_known, batch.past_observed)


BUDGET = 2**22
"""Maximum number of weights of one map: sequences * heads * queries * keys (16 MiB)."""

MAX_SEQUENCES, MAX_QUERIES, MIN_QUERIES = 8, 64, 4


def sample_of(mechanism: Attention, call: Captured) -> tuple[Tensor, Tensor]:
    """Return positions of sequences, and of queries that are the same in each, evenly spaced over a call.

    All keys are included. For a causal mechanism only the first positions are sampled, as far as a square map fits into
    `BUDGET`. Later positions do not affect the output there.
    """
    batch, heads, length, _ = call.query.shape
    num_keys = call.key.shape[2]
    if mechanism.causal:
        length = min(length, max(1, isqrt(BUDGET // heads)))
        queries = evenly_spaced(length, MAX_QUERIES)
        weights = heads * length**2
    else:
        queries = evenly_spaced(length, min(MAX_QUERIES, max(MIN_QUERIES, BUDGET // (heads * num_keys))))
        weights = heads * len(queries) * num_keys
    sequences = evenly_spaced(batch, min(MAX_SEQUENCES, max(1, BUDGET // weights)))
    return sequences.to(call.query.device), queries.to(call.query.device)
