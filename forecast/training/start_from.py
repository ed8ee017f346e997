"""A training that begins with the weights of a finished run (`start_from`): what it takes, and what must agree."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor

from forecast.common.configuration import check_places, check_trial, plain_values
from forecast.common.errors import InputError
from forecast.common.files import flatten, look_up
from forecast.common.losses import QUANTILE
from forecast.common.text import shown
from forecast.data.contract import DataContract
from forecast.data.datamodule import ForecastData
from forecast.data.known import KnownEncoder
from forecast.data.sources import Source
from forecast.data.windows import Windows
from forecast.evaluation.evaluate import evaluate
from forecast.model.informer import in_evaluation
from forecast.predict.ensemble import Ensemble, load
from forecast.pretrained.weights import NAME, open_pretrained
from forecast.runs.results import RUN
from forecast.runs.resume import place_of, read_config
from forecast.runs.run import Architecture, Run
from forecast.training.start_pretrained import PretrainedBeginning, with_pretrained
from forecast.training.task import ForecastTask

ARCHITECTURE = (
    *("context_length", "horizon", "loss", "quantiles", "model"),
    *("attention", "decoder_attention", "cross_attention"),
)
"""Options that decide the network, which are those of the run."""

INPUTS = (
    *("static_covariates", "categorical", "perfect_foresight", "holidays", "holidays_before", "holidays_after"),
    *("holidays_column", "calendar", "id_embedding"),
)
"""Options of the data, beside the roles of columns, that decide what the network reads."""

OF_THE_TABLE = (
    *("split_by", "least_context", "duplicates", "missing", "last_rows", "bounds", "whole_numbers"),
    *INPUTS,
)
"""Options of the data that a training on a later table of one's own takes from the run."""

LATEST = "latest"
"""What a command line calls the finished run that started last."""

CURE = "give a table like that of the run, or leave out start_from"


@dataclass(frozen=True)
class Beginning:
    """A finished run whose weights begin a training."""

    path: Path
    contract: DataContract
    digest: str
    seen: str | None
    """Last row of its training and validation; None if its result does not say."""
    chooses_weight: bool = False
    """Whether the mixing weight is chosen on validation before the first step; a run has its own."""
    pretrained_on: str | None = None
    """What the pretrained weights were trained on with which the run, or one before it, began; None without any."""

    @property
    def encoder(self) -> KnownEncoder:
        """The encoding of the known inputs."""
        return self.contract.encoder

    @classmethod
    def of(cls, word: str | None) -> "Beginning | None":
        """Return the run that `start_from` names, a folder or "latest"; None without one."""
        if word is None:
            return None
        try:
            model = load(word)
        except InputError as error:
            raise InputError(f"start_from={word}: {str(error).replace('--run', 'start_from')}") from None
        if isinstance(model, Ensemble) or model.path is None or not model.path.is_dir():
            raise InputError(f"start_from={word}: is not one run: give the folder of one, outputs/…")
        assert model.facts is not None
        seen, pretrained_on = (look_up(model.result, key) for key in ("data.last_seen_row", "start_from.pretrained_on"))
        return cls(model.path, model.contract, model.facts.weights, seen, pretrained_on=pretrained_on)

    @property
    def facts(self) -> dict[str, Any]:
        """The kind of start, the folder, the SHA-256 of its weights, and what came before it, for a result."""
        return {"kind": RUN, "run": str(self.path), "weights": self.digest, "pretrained_on": self.pretrained_on}

    @property
    def architecture(self) -> Architecture:
        """The architecture of the run."""
        return Architecture.from_dict(Run(self.path).manifest()["architecture"])

    @property
    def longest(self) -> int:
        """The longest look-back that the weights fit, which is that of the run."""
        return self.architecture.sizes.context_length

    def check_table(self, source: Source) -> None:
        """Raise InputError for a table of another step, or with other roles, than the run had."""
        own, roles, series = self.contract, source.roles, source.series
        self._compare("a step of", own.frequency, series.frequency)
        self._compare("id columns", len(own.roles.ids), len(roles.ids))
        self._compare("targets:", len(own.targets), len(source.targets))
        self._compare("past covariates:", len(own.roles.past), len(roles.past))
        self._compare("known covariates", sorted(own.roles.known), sorted(roles.known))
        named = [name for name in (*roles.past, *roles.known) if name in series.labels]
        self._compare("text columns", sorted(own.encoder.categorical), sorted(named))

    def check_network(self, architecture: Architecture, data: ForecastData) -> None:
        """Raise InputError for a network that the weights do not fit, and name the difference."""
        self._compare("calendar cycles", self.contract.cycles, list(data.cycles))
        there, here = (flatten(asdict(one)) for one in (self.architecture, architecture))
        for key in [*there, *here]:
            self._compare(key.replace("options.", "model."), there.get(key), here.get(key))

    def _compare(self, name: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            raise InputError(f"start_from={self.path}: has {name} {ours}, and this training {theirs}: {CURE}")

    def begin(self, task: ForecastTask, static: Tensor) -> None:
        """Copy the weights of the run into the network; the static covariates (C_out, S) are those of this table."""
        task.network.load_state_dict(Run(self.path).load_model().state_dict())
        if static.numel():
            task.network.set_static(static)

    def lines(self, data: ForecastData, task: ForecastTask) -> list[str]:
        """Return what is printed on the start."""
        network, weight = task.network, task.network.mixing_weight
        path = ", the linear path" if network.linear_path is not None else ""
        known = "; labels new to it are unknown" if data.encoder.categorical else ""
        left = " (mixing weight 0 at first: validation is better with the linear path alone)" if weight == 0 else ""
        lines = [
            f"start: the weights of {shown(str(self.path))}{left}",
            f"fitted on this table: the z-scores of the targets{path} and the intervals; from the run: the known "
            f"inputs{known}",
        ]
        validation = data.parts["validation"]
        first = data.index[int(validation.starts[0]) + validation.context_length]
        if self.seen is not None and str(first) <= self.seen:
            lines.append(
                f"note: the run has seen rows up to {self.seen}: if they are in this table, its scores from {first} on "
                "are too good"
            )
        return lines


def keep_mixing_weight(task: ForecastTask, windows: Windows, batch_size: int) -> None:
    """Set the mixing weight to 0 if the validation MSE is lower without the run's encoder-decoder."""
    if not task.network.mixing_weight:
        return
    weight = task.network.combination.mixing_weight
    assert isinstance(weight, Tensor)
    task.to(windows.starts.device)
    own = weight.clone()
    with in_evaluation(task), torch.no_grad():
        mixed = evaluate(task, windows, batch_size).sums.scaled()["mse"]
        weight.zero_()
        alone = evaluate(task, windows, batch_size).sums.scaled()["mse"]
    if mixed < alone:
        weight.copy_(own)


def composed(config: DictConfig, words: Sequence[str]) -> dict[str, Any]:
    """Return the plain values of the configuration of some words, checked; `start_from` fills in those of its run."""
    plain = plain_values(config)
    check_trial(plain, words)
    check_places(config, words)
    return with_run(plain, words)


def with_run(plain: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return a configuration with the architecture of the run that it starts from, if any, and its roles of columns.

    An option of the architecture in `words` with another value is refused; one of the table counts.
    """
    word, typed = plain["start_from"], set(map(place_of, words))
    if word == NAME:
        return with_pretrained(plain, typed)
    if (start := Beginning.of(word if isinstance(word, str) else None)) is None:
        return plain
    stored = read_config(start.path)
    own = {key: stored.get(key) for key in ARCHITECTURE}
    if "loss" in typed and QUANTILE not in (plain["loss"], own["loss"]):
        own["loss"] = plain["loss"]
    here, there = flatten({key: plain.get(key) for key in ARCHITECTURE}), flatten(own)
    for key, value in here.items():
        # words set an option by its name, by the choice of its group, or by an experiment
        is_typed = not typed.isdisjoint((key, key.removesuffix(".name"), "experiment"))
        if value is not None and value != there.get(key) and is_typed:
            raise InputError(
                f"{key}={value}: start_from={start.path} has {there.get(key)}, and its weights fit no other network: "
                "leave it out"
            )
    is_own = plain["data"].get("source") == "file" and plain["data"].get("file_name") is None
    taken = options_of_table(start.contract, stored["data"], OF_THE_TABLE if is_own else INPUTS)
    data = plain["data"] | {
        key: value for key, value in taken.items() if key in plain["data"] and f"data.{key}" not in typed
    }
    return {**plain, **own, "data": data, "start_from": word_of(start.path)}


def word_of(folder: Path) -> str:
    """Return the word of `start_from` for a run folder; one whose name is a word of its own gets a "./"."""
    return f"./{folder}" if str(folder) in (NAME, LATEST) else str(folder)


def beginning_of(word: str | None) -> Beginning | PretrainedBeginning | None:
    """Return what `start_from` names: a run folder, "latest" or "pretrained"; None without one."""
    return PretrainedBeginning(open_pretrained()) if word == NAME else Beginning.of(word)


def options_of_table(contract: DataContract, stored: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the roles of columns of a run and some options of its data, for a training on another table."""
    own = {name: stored[name] for name in names if name in stored}
    return {**own, **contract.roles.named, "calendar": list(contract.cycles)}
