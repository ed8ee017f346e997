"""The inputs and outputs of attention on a batch, captured."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from forecast.attention.base import Attention
from forecast.data.windows import Batch, evenly_spaced
from forecast.model.decoder import DecoderLayer
from forecast.model.encoder import EncoderLayer
from forecast.model.informer import Informer, in_evaluation


class Captured(NamedTuple):
    """A call of a mechanism: query and output (B, H, L, ·), key and value (B, H, S, ·)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


See = Callable[[str, Attention, Captured], None]
"""Receives the name of the place, the mechanism there, and its call."""


def places(network: Informer) -> dict[str, Attention]:
    """Return the mechanisms by place, in the order of their calls: `encoder.0.self`, …, `decoder.0.cross`."""
    found: dict[str, Attention] = {}
    for number, layer in enumerate(network.encoder.layers):
        assert isinstance(layer, EncoderLayer)
        found[f"encoder.{number}.self"] = layer.attention.attention
    for number, layer in enumerate(network.decoder.layers):
        assert isinstance(layer, DecoderLayer)
        found[f"decoder.{number}.self"] = layer.self_attention.attention
        found[f"decoder.{number}.cross"] = layer.cross_attention.attention
    return found


@contextmanager
def watching(mechanisms: Mapping[str, Attention], see: See) -> Iterator[None]:
    """Pass each call of the mechanisms to `see` as it returns: no layer's tensors outlive the layer."""
    handles: list[RemovableHandle] = []
    try:
        for place, mechanism in mechanisms.items():
            handles.append(mechanism.register_forward_hook(partial(_show, see, place)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _show(
    see: See,
    place: str,
    mechanism: Attention,
    arguments: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None],
    output: Tensor,
) -> None:
    query, key, value, mask, query_mask = arguments
    assert mask is None, "the networks of this program hide nothing from themselves"
    assert query_mask is None
    see(place, mechanism, Captured(query, key, value, output))


@torch.inference_mode()
def pass_by(network: Informer, batch: Batch, see: See) -> None:
    """Forecast `batch` and pass each attention's call to `see`, in evaluation mode and float32, without gradients.

    The network's modes are restored, and the random state of the CPU and of the network's device.
    """
    device = batch.past.device
    devices = [device] if device.type == "cuda" else []
    autocast = torch.autocast(device.type, enabled=False)
    with torch.random.fork_rng(devices), in_evaluation(network), watching(places(network), see), autocast:
        network(batch.past, batch.past_known, batch.future_known, batch.past_observed)


BUDGET = 2**22
"""Most weights of one map held for a layer, heads by queries by keys over all sequences (16 MiB)."""

MOST_SEQUENCES, MOST_QUERIES, LEAST_QUERIES = 8, 64, 4


@dataclass(frozen=True)
class Sample:
    """Sequences of a batch and positions of their queries, the same of each; all keys are included."""

    sequences: Tensor
    queries: Tensor

    @classmethod
    def of(cls, mechanism: Attention, call: Captured, budget: int = BUDGET) -> "Sample":
        """Return a sample spread over the sequences and positions of a call.

        A causal mechanism is sampled in its first positions, up to the largest square map within `budget`. Its output
        there depends on nothing that comes after them.
        """
        batch, heads, length, _ = call.query.shape
        num_keys = call.key.shape[2]
        if mechanism.causal:
            length = min(length, max(1, isqrt(budget // heads)))
            queries = evenly_spaced(length, MOST_QUERIES)
            held = heads * length**2
        else:
            queries = evenly_spaced(length, min(MOST_QUERIES, max(LEAST_QUERIES, budget // (heads * num_keys))))
            held = heads * len(queries) * num_keys
        sequences = evenly_spaced(batch, min(MOST_SEQUENCES, max(1, budget // held)))
        return cls(sequences.to(call.query.device), queries.to(call.query.device))

    def calls(self, call: Captured) -> Captured:
        """Return the call of the sampled sequences alone, with all their queries."""
        return Captured(*(tensor[self.sequences] for tensor in call))
