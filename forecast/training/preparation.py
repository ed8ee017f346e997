"""From a configuration to all that a training needs: seed, data, model, task; nothing is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.common.errors import InputError
from forecast.common.group import ALONE, Group
from forecast.common.options import check_target, prepared
from forecast.data.calendar import seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.mapped import Address
from forecast.data.sources import load_source
from forecast.data.storage import Placing
from forecast.evaluation.linear_start import LinearMaps, fit_maps
from forecast.evaluation.metrics import loss_by_name
from forecast.evaluation.mixing import independent_blocks, shrinkage
from forecast.model.compiling import check_compiling
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.runs.run import Architecture
from forecast.runs.settings import (
    TrainingSettings,
    choose_device,
    choose_precision,
    exact_convolutions,
    read_root,
    read_training,
)
from forecast.training.callbacks.configured import configured
from forecast.training.schedule import SCHEDULES
from forecast.training.task import ForecastTask


@dataclass(frozen=True)
class Preparation:
    """What a training is made of.

    Parameters
    ----------
    config
        The configuration, its precision settled.
    maps
        The linear baseline, and the map that the model's linear path starts from, with which it is good before
        the first step.
    """

    config: dict[str, Any]
    settings: TrainingSettings
    device: torch.device
    precision: str
    data: ForecastData
    architecture: Architecture
    network: Informer
    maps: LinearMaps
    task: ForecastTask
    callbacks: list[Callback]


def prepare(
    config: Mapping[str, Any],
    group: Group = ALONE,
    maps: LinearMaps | None = None,
    table: Address | None = None,
    before_maps: Callable[[ForecastData, Informer], None] = lambda data, network: None,
) -> Preparation:
    """Return what the training that `config` describes is made of, the data where this process trains from.

    Parameters
    ----------
    config
        Plain values, the configuration.
    group
        The processes that are to train together.
    maps
        The linear maps, where another process has fitted them.
    table
        Where the scaled table is, if another process of this machine has written it to a file.
    before_maps
        Called once all is checked that can be, before the linear maps are fitted.

    Raises
    ------
    InputError
        If the configuration or the data cannot be used.
    """
    root, settings = read_root(config), read_training(config["training"])
    device = choose_device(config["trainer"], group.place.local_rank)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # what asks for no device is to find this process's own
    precision = choose_precision(settings.precision, device, config["model"].get("d_model"))
    loss_by_name(root.loss)
    check_target(config["optimizer"], "optimizer", Optimizer)
    check_target(config["scheduler"], "scheduler", LRScheduler, functions=SCHEDULES)
    lightning.seed_everything(root.seed, verbose=False)
    exact_convolutions()
    data = ForecastData(
        load_source(config["data"]),
        config["data"]["split"],
        context_length=root.context_length,
        horizon=root.horizon,
        batch_size=settings.batch_size,
        evaluation_batch_size=settings.evaluation_batch_size,
        placing=Placing(settings.data_placement, device, group.place.local_size, Path(root.output_dir), table),
        evaluation_stride=settings.evaluation_stride,
        first_origin=settings.first_origin,
        seed=root.seed,
    )
    _check_shares(settings.batch_size, data, group)
    architecture = _architecture(config, data)
    network = architecture.build()
    if settings.compile:
        check_compiling(network, device, group.size)
    network.checkpoint_activations(settings.activation_checkpointing)
    data.to(device)
    task = ForecastTask(
        network,
        loss=root.loss,
        make_optimizer=prepared(config["optimizer"]),
        make_scheduler=prepared(config["scheduler"]),
        max_grad_norm=settings.max_grad_norm,
        linear_path_rate=settings.linear_path_rate,
        total_steps=settings.total_steps(len(data.parts["train"])),
        trust=shrinkage(independent_blocks(data.parts["validation"]), settings.share_prior),
        seed=root.seed,
    )
    task.configure_optimizers()  # what is out of its range is refused before there is a folder
    callbacks = configured(config["callbacks"])
    if maps is None:
        before_maps(data, network)
        maps = fit_maps(
            data.parts["train"],
            data.parts["validation"],
            starts=network.linear_path is not None and architecture.options["linear_path"] != "zero",
            period=seasonal_period(data.source.series.frequency),
            confidence=settings.start_confidence,
            stride=settings.evaluation_stride,
            batch_size=settings.evaluation_batch_size,
        )
    if maps.start is not None:
        assert network.linear_path is not None
        network.linear_path.start_from(maps.start.weight)
    return Preparation(
        config={**config, "training": {**config["training"], "precision": precision}},
        settings=settings,
        device=device,
        precision=precision,
        data=data,
        architecture=architecture,
        network=network,
        maps=maps,
        task=task,
        callbacks=callbacks,
    )


def _check_shares(batch_size: int, data: ForecastData, group: Group) -> None:
    """Refuse a batch that the processes cannot share evenly, and more processes than windows to validate on."""
    if batch_size % group.size:
        raise InputError(
            f"training.batch_size={batch_size}: {group.size} processes share it evenly: give a multiple of that"
        )
    if (windows := len(data.parts["validation"])) < group.size:
        raise InputError(
            f"trainer.devices: {group.size} processes have {windows} validation windows to share: use fewer"
        )


def _architecture(config: Mapping[str, Any], data: ForecastData) -> Architecture:
    options = dict(config["model"])
    own = config["attention"]
    mechanisms = Mechanisms(
        encoder=own, decoder=config.get("decoder_attention") or own, cross=config["cross_attention"]
    )
    return Architecture(preset=options.pop("name"), options=options, mechanisms=mechanisms, sizes=Sizes(**data.sizes))
