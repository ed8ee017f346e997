"""Measure the memory of training steps and evaluation batches at small sizes, in this process."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.memory import peak_bytes
from forecast.data.windows import Windows
from forecast.evaluation.metrics import loss_by_name
from forecast.plan.footprint import Level, Line
from forecast.training.prepare import Preparation
from forecast.training.steps import Peer, evaluation_batch, inference, precision_of, prepare_optimizer, training_step

POINTS = 3
"""Number of measured look-backs; three show quadratic growth."""

FEW_TOKENS, FEW_HORIZONS = 1024, 8
"""A look-back below either is multiplied, not divided: at short look-backs the decoder dominates the memory."""

FRACTIONS, MULTIPLES = (1, 1 / 2, 1 / 4, 3 / 4), (1, 2, 4, 1 / 2, 1 / 4, 3 / 4)
"""Factors of the look-back, in the order in which they are tried."""


def measure_levels(made: Preparation, shrink: int = 1) -> list[Level]:
    """Return the levels of the look-back and of two others, by increasing look-back, without those that fail.

    A longer look-back is measured with fewer windows, for the same number of tokens; its fixed bytes then count for
    each window. Batches are divided by `shrink` if full batches do not fit.
    """
    windows = made.data.parts["train"]
    levels: list[Level] = []
    for length in _lengths(made, shrink):
        if len(levels) == POINTS:
            break
        try:
            longer = -(-length // windows.context_length)
            levels.append(_level(made, replace(windows, context_length=length), shrink, longer))
        except (InputError, MemoryError, RuntimeError) as error:
            fault = isinstance(error, RuntimeError) and not ran_out_of_memory(error)
            if fault or length == windows.context_length:
                raise
    return sorted(levels, key=lambda level: level.context_length)


def _lengths(made: Preparation, shrink: int) -> list[int]:
    """Return the look-backs to try, the configured one first, in whole tokens and within the table."""
    windows, options = made.data.parts["train"], made.architecture.options
    step = int(options.get("stride") or options.get("patch_length") or 1)
    whole = windows.context_length
    few = whole // step < FEW_TOKENS or whole < FEW_HORIZONS * windows.horizon
    shares = MULTIPLES if few and shrink == 1 else FRACTIONS
    batch = max(made.settings.training.batch_size, evaluation_batch(made))
    room = len(windows.values) - int(windows.starts[min(batch, len(windows)) - 1]) - windows.horizon
    others = (max(1, int(whole * share)) for share in shares[1:])
    return [whole, *dict.fromkeys(length - length % step for length in others if step <= length <= room)]


def peer_of(made: Preparation, windows: Windows, batch: int) -> Peer:
    """Return the model at this look-back with a batch of windows and an allocated optimizer state."""
    sizes = made.architecture.sizes.with_look_back(windows.context_length)
    network = replace(made.architecture, sizes=sizes).build().to(made.device)
    network.checkpoint_activations(made.settings.training.activation_checkpointing)
    loss_of = loss_by_name(made.settings.loss, network.levels)
    positions = torch.arange(batch, device=windows.starts.device) % len(windows)
    inputs = windows.batch(positions)
    given = (inputs.past, inputs.past_known, inputs.future_known, inputs.past_observed)

    def loss() -> Tensor:
        losses = [loss_of(each, inputs.future, inputs.future_observed) for each in network.learners(*given)]
        return torch.stack(losses).sum()

    peer = Peer("plan", network, made.task.make_optimizer(network.parameters()), loss, lambda: network(*given))
    prepare_optimizer(peer)
    return peer


def _level(made: Preparation, windows: Windows, shrink: int, longer: int = 1) -> Level:
    def line(pass_of: Callable[[Peer], Callable[[], object]], largest: int) -> Line:
        def point(batch: int) -> tuple[int, int]:
            return batch, peak_bytes(pass_of(peer_of(made, windows, batch)), made.device)

        if longer > 1:
            return Line.proportional(*point(max(1, largest // longer)))
        return Line.through(*map(point, (largest // 2, largest) if largest > 1 else (1, 2)))

    step = line(lambda peer: training_step(peer, precision_of(made)), made.settings.training.batch_size // shrink)
    # evaluation always runs in float32
    evaluation = line(lambda peer: inference(peer, "fp32"), evaluation_batch(made) // shrink)
    return Level(windows.context_length, peer_of(made, windows, 1).held_bytes(training=True), step, evaluation)
