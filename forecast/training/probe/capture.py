"""Query, key, value and output of every attention of a network, as they pass by."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from forecast.attention.base import Attention
from forecast.model.decoder import DecoderLayer
from forecast.model.encoder import EncoderLayer
from forecast.model.informer import Informer


class Captured(NamedTuple):
    """A call of a mechanism: query and output (B, H, L, ·), key and value (B, H, S, ·)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


See = Callable[[str, Attention, Captured], None]
"""Is shown the name of the place, the mechanism there, and its call."""


def places(network: Informer) -> dict[str, Attention]:
    """Give the mechanisms by place, in the order of their calls: `encoder.0.self`, …, `decoder.0.cross`."""
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
    """Show each call of the mechanisms to `see` as it returns: no layer's tensors outlive the layer."""
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
