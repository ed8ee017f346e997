"""Models and input data of a benchmark at given sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pydoc import locate
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from forecast.attention._parsing import Variant, configured, split_word
from forecast.common.conf_files import choice_files
from forecast.common.errors import InputError
from forecast.evaluation.metrics import loss_by_name
from forecast.model import build
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.training.steps import Peer

NUM_KNOWN = 6
"""Inputs known in advance, as for hourly data: sine and cosine of the hour, the weekday and the day of the year."""

BEFORE = 1
"""Steps before the look-back, for models that read the value of the previous step with each step."""

SEED = 0


@dataclass(frozen=True)
class Task:
    """Batches of `batch` windows: `context_length` steps of `channels` series, then `horizon` steps."""

    context_length: int
    horizon: int
    batch: int
    channels: int

    @property
    def label(self) -> str:
        """Text for the look-back and the horizon."""
        return f"{self.context_length:,} → {self.horizon:,}"

    def draw(self, device: torch.device) -> "Drawn":
        """Return seeded windows, the same at each call."""
        rows = BEFORE + self.context_length + self.horizon
        generator = torch.Generator().manual_seed(SEED)
        values = torch.randn(self.batch, rows, self.channels, generator=generator)
        known = torch.rand(self.batch, rows, NUM_KNOWN, generator=generator) * 2 - 1
        return Drawn(self, values.to(device), known.to(device))


@dataclass(frozen=True)
class Drawn:
    """Windows of a task: the step before the look-back, the look-back, the horizon.

    `values` are standard normal, shape (B, 1 + T + h, C); `known` are in [-1, 1], shape (B, 1 + T + h, F).
    """

    task: Task
    values: Tensor
    known: Tensor

    @property
    def past(self) -> Tensor:
        """The look-back's values, shape (B, T, C)."""
        return self.values[:, BEFORE : BEFORE + self.task.context_length]

    @property
    def past_known(self) -> Tensor:
        """The known inputs of the look-back, shape (B, T, F)."""
        return self.known[:, BEFORE : BEFORE + self.task.context_length]

    @property
    def future(self) -> Tensor:
        """The target values, shape (B, h, C)."""
        return self.values[:, BEFORE + self.task.context_length :]

    @property
    def future_known(self) -> Tensor:
        """The known inputs of the horizon, shape (B, h, F)."""
        return self.known[:, BEFORE + self.task.context_length :]


LOSS = "mse"
EXAMPLE = "informer:start_length=0,d_model=128"


@dataclass(frozen=True)
class Preset:
    """A model's name and its options, by default those of its YAML file."""

    name: str
    options: Mapping[str, Any]


def parse_preset(word: str) -> Preset:
    """Return the preset for a word such as `informer:d_model=128`."""
    name, changed = split_word(word, "--model", EXAMPLE)
    known = [file.stem for file in choice_files("model")]
    if name not in known:
        raise InputError(f"--model {word}: unknown name {name!r}: choose one of {', '.join(known)}")
    return Preset(name, configured("model", name) | changed)


def build_ours(preset: Preset, variant: Variant, task: Task) -> Informer:
    """Return the model on the CPU, with the same weights at each call."""
    sizes = Sizes(
        num_targets=task.channels,
        num_past_covariates=0,
        num_known=NUM_KNOWN,
        context_length=task.context_length,
        horizon=task.horizon,
    )
    chosen = {"name": variant.name, **variant.arguments}
    cross = {"name": "full", **configured("attention", "full")}
    torch.manual_seed(SEED)
    return build(preset.name, sizes, Mechanisms(encoder=chosen, decoder=chosen, cross=cross), **preset.options)


def our_peer(network: Informer, drawn: Drawn) -> Peer:
    """Return the model with its windows, on their device, and the default optimizer."""
    network.to(drawn.values.device)
    loss_of = loss_by_name(LOSS)

    def forecast() -> Tensor:
        output: Tensor = network(drawn.past, drawn.past_known, drawn.future_known)
        return output

    def loss() -> Tensor:
        return loss_of(forecast(), drawn.future, None)

    return Peer("ours", network, our_optimizer(network.parameters()), loss, forecast)


def our_optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Return the optimizer of `conf/optimizer/adamw.yaml`, the default of a run."""
    settings = configured("optimizer", "adamw")
    made = locate(settings.pop("_target_"))
    assert callable(made)
    optimizer = made(parameters, **settings)
    assert isinstance(optimizer, Optimizer)
    return optimizer
