"""Our model as a benchmark trains it: a preset with its options, a mechanism, the configured optimizer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pydoc import locate
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from forecast.attention._mechanisms import Variant
from forecast.attention._words import configured, split_word
from forecast.benchmark.task import NUM_KNOWN, SEED, Drawn, Task
from forecast.common.errors import InputError
from forecast.common.folders import configuration_folder
from forecast.evaluation.losses import loss_by_name
from forecast.model import build
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.training.steps import Peer

LOSS = "mse"
EXAMPLE = "informer:start_length=0,d_model=128"


@dataclass(frozen=True)
class Preset:
    """A model's name and its options, those of its YAML file where nothing else was said."""

    name: str
    options: Mapping[str, Any]


def parse_preset(word: str) -> Preset:
    """Give the preset that a word names.

    Raises
    ------
    InputError
        For a name without a file, or values that are not key=value.
    """
    name, changed = split_word(word, "--model", EXAMPLE)
    known = sorted(file.stem for file in (configuration_folder() / "model").glob("*.yaml"))
    if name not in known:
        raise InputError(f"--model {word}: {name!r} is none of {', '.join(known)}")
    return Preset(name, configured("model", name) | changed)


def build_ours(preset: Preset, variant: Variant, task: Task) -> Informer:
    """Give the model on the CPU, its weights the same at each call.

    Raises
    ------
    InputError
        If the model or the mechanism refuses.
    """
    sizes = Sizes(
        num_targets=task.channels,
        num_past_covariates=0,
        num_known=NUM_KNOWN,
        context_length=task.context_length,
        horizon=task.horizon,
    )
    own = {"name": variant.name, **variant.arguments}
    cross = {"name": "full", **configured("attention", "full")}
    torch.manual_seed(SEED)
    return build(preset.name, sizes, Mechanisms(encoder=own, decoder=own, cross=cross), **preset.options)


def our_peer(network: Informer, drawn: Drawn) -> Peer:
    """Give the model with its windows, on their device, and the optimizer of `conf/optimizer/adamw.yaml`."""
    network.to(drawn.values.device)
    loss_of = loss_by_name(LOSS)

    def forecast() -> Tensor:
        given: Tensor = network(drawn.past, drawn.past_known, drawn.future_known)
        return given

    def loss() -> Tensor:
        return loss_of(forecast(), drawn.future, None)

    return Peer("ours", network, our_optimizer(network.parameters()), loss, forecast)


def our_optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Give the optimizer as a run without options has it."""
    settings = configured("optimizer", "adamw")
    made = locate(settings.pop("_target_"))
    assert callable(made)
    optimizer = made(parameters, **settings)
    assert isinstance(optimizer, Optimizer)
    return optimizer
