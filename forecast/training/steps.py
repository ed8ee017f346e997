"""Training steps and forecasts of a model on fixed windows, for benchmarks and plans."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

if TYPE_CHECKING:
    from forecast.training.prepare import Preparation


@dataclass(frozen=True)
class Peer:
    """A model with its optimizer and its windows.

    `label` is the name in tables. `loss` returns the loss on the windows with its graph, `forecast` the model's output.
    """

    label: str
    model: nn.Module
    optimizer: Optimizer
    loss: Callable[[], Tensor]
    forecast: Callable[[], object]

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return next(self.model.parameters()).device

    @property
    def num_parameters(self) -> int:
        """The number of learned parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)

    def held_bytes(self, *, training: bool) -> int:
        """Return the bytes of weights and buffers, and of the optimizer's state if `training`."""
        state = [value for values in self.optimizer.state.values() for value in values.values()] if training else []
        tensors = [*self.model.parameters(), *self.model.buffers(), *filter(torch.is_tensor, state)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def training_step(peer: Peer, precision: str) -> Callable[[], object]:
    """Set the model to training mode and return a function that runs one step: forward, backward, update."""
    peer.model.train()

    def step() -> object:
        with arithmetic(peer.device, precision):
            loss = peer.loss()
        loss.backward()
        peer.optimizer.step()
        peer.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def inference(peer: Peer, precision: str) -> Callable[[], object]:
    """Set the model to evaluation mode and return a function that forecasts one batch."""
    peer.model.eval()

    def forecast() -> object:
        with torch.inference_mode(), arithmetic(peer.device, precision):
            return peer.forecast()

    return forecast


def arithmetic(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return a context that computes under bf16 autocast for "bf16" and in float32 for "fp32"."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


def prepare_optimizer(peer: Peer) -> None:
    """Create the optimizer's state as its first step would, without changing a weight."""
    rates = [group["lr"] for group in peer.optimizer.param_groups]
    for group in peer.optimizer.param_groups:
        group["lr"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    peer.optimizer.step()
    peer.optimizer.zero_grad(set_to_none=True)
    for group, rate in zip(peer.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def evaluation_batch(prepared: "Preparation") -> int:
    """Return the size of the largest evaluation batch: a split may have fewer windows than a full batch."""
    data = prepared.data
    return min(data.evaluation_batch_size, max(len(data.parts["validation"]), len(data.parts["test"])))


def precision_of(prepared: "Preparation") -> str:
    """Return the training precision by its name in a benchmark."""
    return "bf16" if prepared.settings.training.precision == "bf16-mixed" else "fp32"
