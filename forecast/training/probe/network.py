"""A look at every attention of a network in one forward pass that leaves no trace."""

import torch

from forecast.attention.base import Attention
from forecast.data.windows import Batch
from forecast.model.informer import Informer, in_evaluation
from forecast.training.probe.capture import Captured, See, places, watching
from forecast.training.probe.layer import Findings, look_at


def probe(network: Informer, batch: Batch) -> dict[str, Findings]:
    """Return what each attention of `network` does on the windows of `batch`, by place; see `pass_by`."""
    found: dict[str, Findings] = {}

    def see(place: str, mechanism: Attention, call: Captured) -> None:
        found[place] = look_at(mechanism, call)

    pass_by(network, batch, see)
    return found


@torch.inference_mode()
def pass_by(network: Informer, batch: Batch, see: See) -> None:
    """Forecast `batch` and show `see` each attention's call.

    In evaluation mode and float32, without gradients. The network's modes and the random state, of the CPU
    and of the network's device, are those of before.
    """
    device = batch.past.device
    devices = [device] if device.type == "cuda" else []
    autocast = torch.autocast(device.type, enabled=False)
    with torch.random.fork_rng(devices), in_evaluation(network), watching(places(network), see), autocast:
        network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
