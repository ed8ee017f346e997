"""Where a training step's time stands beside the machine's matrix product, and in which of its parts it goes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from forecast.benchmark.case import DTYPES
from forecast.benchmark.machine import product_rate
from forecast.benchmark.measure import WARM_UP
from forecast.benchmark.models import Preset
from forecast.common.timing import Spread, interleave, seconds_of
from forecast.model.flops import training_operations
from forecast.model.informer import Informer
from forecast.training.steps import Peer, arithmetic, training_step


@dataclass(frozen=True)
class StepFigures:
    """Seconds of a step and of its parts, each timed by itself; the operations counted, and what a product reaches.

    `products` are the operations a second of the encoder layer's own products, before the steps and after.
    """

    step: Spread
    forward: Spread
    backward: Spread
    update: Spread
    operations: int
    products: tuple[float, float]

    @property
    def product_rate(self) -> float:
        """The limit: the higher of the two."""
        return max(self.products)

    @property
    def share(self) -> float:
        """The step's operations a second as a share of the limit."""
        return self.operations / self.step.median / self.product_rate

    @property
    def share_without_update(self) -> float:
        """The same of forward and backward alone."""
        return self.operations / (self.forward.median + self.backward.median) / self.product_rate

    @property
    def update_share(self) -> float:
        """The optimizer's part of the step's time."""
        return self.update.median / (self.forward.median + self.backward.median + self.update.median)


def measure_step(
    network: Informer, peer: Peer, preset: Preset, precision: str, *, repetitions: int
) -> tuple[StepFigures, Callable[[], object]]:
    """Time a step and its parts, in turn, between two measurements of the limit; give the figures and the step."""
    step, device = training_step(peer, precision), peer.device
    rows = encoder_rows(network, step)
    for _ in range(WARM_UP[device.type]):
        step()
    counted = training_operations(step)
    before = layer_product_rate(preset, rows, precision, device)
    parts = _parts(peer, precision)
    taken: dict[str, list[float]] = {name: [] for name in parts}

    def whole() -> float:
        return seconds_of(step, device)

    def apart() -> float:
        for name, part in parts.items():
            taken[name].append(seconds_of(part, device))
        return 0.0

    total = interleave({"whole": whole, "apart": apart}, least=repetitions, most=repetitions, seconds=0)["whole"]
    after = layer_product_rate(preset, rows, precision, device)
    spreads = {name: Spread.of(seconds) for name, seconds in {"step": total, **taken}.items()}
    return StepFigures(operations=counted, products=(before, after), **spreads), step


def encoder_rows(network: Informer, run: Callable[[], object]) -> int:
    """Give the tokens of all windows that come to the encoder when `run` runs the network."""
    seen: list[int] = []

    def look(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0].shape[:-1].numel())

    hook = network.encoder.register_forward_pre_hook(look)
    run()
    hook.remove()
    return seen[0]


def layer_product_rate(preset: Preset, rows: int, precision: str, device: torch.device) -> float:
    """Give the operations a second of the fastest of an encoder layer's products: projection, into and out of d_ff."""
    d_model, d_ff = preset.options["d_model"], preset.options["d_ff"]
    shapes = [(rows, d_model, d_model), (rows, d_model, d_ff), (rows, d_ff, d_model)]
    return max(product_rate(*shape, device, DTYPES[precision]) for shape in shapes)


def _parts(peer: Peer, precision: str) -> dict[str, Callable[[], object]]:
    """Give the parts of a step, to be run one after the other."""
    losses: list[Tensor] = []

    def forward() -> object:
        with arithmetic(peer.device, precision):
            losses.append(peer.loss())
        return None

    def backward() -> object:
        losses.pop().backward()
        return None

    def update() -> object:
        peer.optimizer.step()
        peer.optimizer.zero_grad(set_to_none=True)
        return None

    return {"forward": forward, "backward": backward, "update": update}
