"""A training that begins with the pretrained network (`start_from=pretrained`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.datamodule import ForecastData
from forecast.data.known import KnownEncoder
from forecast.data.sources import Source
from forecast.pretrained.weights import NAME, Pretrained, open_pretrained
from forecast.runs.results import PRETRAINED
from forecast.runs.run import Architecture
from forecast.training.task import ForecastTask

OWN = ("linear_path", "path_weights", "dropout", "response_width")
"""Options of the model that a training chooses for itself."""

QUERIES = "tokens.query"
"""The queries of the horizon: a shorter horizon takes the first ones."""

RATE = 3e-4
"""Learning rate from the pretrained weights, unless one is given."""


@dataclass(frozen=True)
class PretrainedBeginning:
    """The pretrained network as the start of a training. Parts that it does not have begin at zero."""

    pretrained: Pretrained
    encoder: KnownEncoder | None = None
    chooses_weight: bool = True

    @property
    def facts(self) -> dict[str, Any]:
        """The kind of start, the SHA-256 of the weights, and what they were trained on, for a result."""
        card = self.pretrained.card
        return {"kind": PRETRAINED, "run": None, "weights": card["sha256"], "pretrained_on": card["trained_on"]}

    @property
    def longest(self) -> int:
        """The longest look-back that the weights fit."""
        return self.pretrained.architecture.sizes.context_length

    def check_table(self, source: Source) -> None:
        """Accept any table: the network reads each column by itself."""

    def check_network(self, architecture: Architecture, data: ForecastData) -> None:
        """Raise InputError for a network that the weights do not fit."""
        ours, theirs = _fixed(self.pretrained.architecture), _fixed(architecture)
        for key in ours:
            if ours[key] != theirs.get(key):
                raise InputError(
                    f"start_from={NAME}: has model.{key}={ours[key]}, and this training {theirs.get(key)}: leave it out"
                )
        if asdict(self.pretrained.architecture.mechanisms) != asdict(architecture.mechanisms):
            raise InputError(f"start_from={NAME}: its attention is full: leave out attention, or start_from")
        longest = self.pretrained.architecture.sizes
        for key in ("context_length", "horizon"):
            if (value := getattr(architecture.sizes, key)) > (most := getattr(longest, key)):
                raise InputError(f"{key}={value}: start_from={NAME} has seen at most {most}: lower it")

    @torch.no_grad()
    def begin(self, task: ForecastTask, static: Tensor) -> None:
        """Copy the weights into the network; the weights of known inputs, channels and properties become zero."""
        network, given = task.network, self.pretrained.network.state_dict()
        for name, value in network.state_dict().items():
            if name in given:
                value.copy_(given[name][: len(value)] if name == QUERIES else given[name])
            elif name in ("tokens.known.weight", "tokens.channel", "tokens.static.weight"):
                value.zero_()
        if static.numel():
            network.set_static(static)

    def lines(self, data: ForecastData, task: ForecastTask) -> list[str]:
        """Return what is printed on the start."""
        mixed = "" if task.network.linear_path is None else "; validation chooses its share beside the linear path"
        return [f"start: the pretrained network{mixed}"]


def with_pretrained(plain: dict[str, Any], typed: set[str]) -> dict[str, Any]:
    """Return a configuration with the architecture of the pretrained network; `typed` are options that a user gave."""
    own = open_pretrained().architecture
    options = _fixed(own)
    levels = list(own.sizes.quantiles)
    chosen = {"loss": "quantile", "quantiles": levels, **{f"model.{key}": value for key, value in options.items()}}
    _refuse_others(plain, chosen, typed)
    mine = plain["model"] if plain["model"].get("name") == own.preset else {}
    model = {"name": own.preset, **own.options, **{key: mine[key] for key in OWN if key in mine}, **options}
    model["dropout"] = mine["dropout"] if "model.dropout" in typed else own.options["dropout"]
    model["linear_path"] = mine.get("linear_path", "weighted")
    mechanisms = own.mechanisms
    optimizer = plain["optimizer"] if "optimizer.lr" in typed else plain["optimizer"] | {"lr": RATE}
    return {
        **plain,
        "loss": "quantile",
        "quantiles": levels,
        "model": model,
        "attention": dict(mechanisms.encoder),
        "decoder_attention": None,
        "cross_attention": dict(mechanisms.cross),
        "optimizer": optimizer,
    }


def _fixed(architecture: Architecture) -> dict[str, Any]:
    """Return the options of the model that follow from the weights; a stride of null is the patch length."""
    options = {key: value for key, value in architecture.options.items() if key not in OWN}
    return options | {"stride": options["stride"] or options["patch_length"]}


def _refuse_others(plain: Mapping[str, Any], chosen: Mapping[str, Any], typed: Sequence[str] | set[str]) -> None:
    for key, value in chosen.items():
        group, _, name = key.rpartition(".")
        given = plain[group].get(name) if group else plain[name]
        if key in typed and given != value:
            raise InputError(
                f"{key}={given}: start_from={NAME} has {value}, and its weights fit no other: leave it out"
            )
    if "attention" in typed and plain["attention"].get("name") != "full":
        raise InputError(f"attention={plain['attention']['name']}: start_from={NAME} has full: leave it out")
