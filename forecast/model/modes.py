"""A network looked at in evaluation mode while others go on training it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def in_evaluation(network: nn.Module) -> Iterator[None]:
    """Put `network` in evaluation mode; each of its modules is left in the mode that it was found in."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
