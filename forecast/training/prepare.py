"""From settings to the components of a training: seed, data, network, linear maps, task, callbacks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning
import pandas as pd
import torch
from lightning.pytorch.callbacks import (
    BatchSizeFinder,
    Callback,
    Checkpoint,
    GradientAccumulationScheduler,
    LearningRateFinder,
    ModelPruning,
    ProgressBar,
    StochasticWeightAveraging,
    Timer,
    WeightAveraging,
)
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.common.errors import InputError
from forecast.common.group import ALONE, Group
from forecast.common.losses import QUANTILE
from forecast.common.progress import progress
from forecast.common.targets import TARGET, check_target, make, prepared
from forecast.data.calendar import seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.generated.windows import HELD, DrawnWindows, Pool, draw_pool, driver_names, training_windows
from forecast.data.mapped import Address
from forecast.data.panel import PanelData
from forecast.data.settings import DROP, GENERATED, DataSettings
from forecast.data.sources import Source
from forecast.data.storage import Placing
from forecast.data.windows import Windows
from forecast.evaluation.linear_maps import LinearMaps, fit_maps
from forecast.evaluation.mixing import independent_blocks, shrinkage
from forecast.evaluation.ridge import PENALTIES
from forecast.evaluation.significance import FEWEST, count_blocks
from forecast.model.compiling import check_compiling
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.runs.run import Architecture
from forecast.runs.settings import BY_SERIES, Settings, exact_convolutions, follow_table
from forecast.training.schedule import SCHEDULES
from forecast.training.start_from import Beginning, beginning_of, keep_mixing_weight
from forecast.training.start_pretrained import PretrainedBeginning
from forecast.training.task import ForecastTask

METRICS = ("val/selection", "val/mse", "val/mae")
"""Metrics that a callback can monitor: `ForecastTask` logs them before the callbacks run. The first selects."""

QUANTILE_METRICS = (*METRICS, "val/quantile_loss")
"""Metrics that a callback of a run with loss=quantile can monitor."""


@dataclass(frozen=True)
class Preparation:
    """Components of a training.

    The precision in `settings` is resolved. `linear_maps` has the linear baseline and the start of the linear path.
    `start` is the run whose weights begin the training. Trained weights replace the start with this `confidence`; None:
    if their score is better.
    """

    settings: Settings
    device: torch.device
    data: ForecastData
    architecture: Architecture
    network: Informer
    linear_maps: LinearMaps
    task: ForecastTask
    callbacks: list[Callback]
    start: Beginning | PretrainedBeginning | None = None
    confidence: float | None = None

    @property
    def validation_blocks(self) -> int | None:
        """Number of blocks of validation windows that judge the training; None if any better score counts."""
        return None if self.confidence is None else _blocks(self.data)


def prepare(
    settings: Settings,
    source: Source,
    group: Group = ALONE,
    linear_maps: LinearMaps | None = None,
    table: Address | None = None,
    before_linear_fit: Callable[[ForecastData, Informer], None] = lambda data, network: None,
) -> Preparation:
    """Build and check all components of a training, and move the data to their device. No file is read or written.

    `source` is the series of the settings. The processes of `group` train together. The leading process fits
    `linear_maps` (None: fit them here) and sends them to the workers; a worker on the same machine also gets the file
    of the scaled `table`. `before_linear_fit` is called after all checks, just before the linear fits.
    """
    settings, _ = follow_table(settings, source)
    local_rank = group.place.local_rank
    device, settings = settings.trainer.device(local_rank), settings.settled(local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # the default for code that names no device
    check_target(settings.optimizer, "optimizer", Optimizer)
    check_target(settings.scheduler, "scheduler", LRScheduler, functions=SCHEDULES)
    lightning.seed_everything(settings.seed, verbose=False)
    exact_convolutions()
    data = make_data(settings, source, device, group, table)
    architecture, network = _make_network(settings, data, device, group)
    data.to(device)
    task = _make_task(settings, data, network)
    start = beginning_of(settings.start_from)
    if start is not None:
        start.check_network(architecture, data)
        start.begin(task, torch.from_numpy(data.static))
    callbacks = make_callbacks(settings.callbacks, settings.loss)
    if linear_maps is None:
        before_linear_fit(data, network)
        linear_maps = _fit_linear(settings, data, architecture, network)
    if linear_maps.start is not None:
        assert network.linear_path is not None
        first = linear_maps.start
        network.linear_path.start_from(first.weight, first.known, linear_maps.offsets)
        keep_mixing_weight(task, data.parts["validation"], settings.training.evaluation_batch_size)
    confidence = _confidence(settings, data, network, linear_maps, start)
    return Preparation(settings, device, data, architecture, network, linear_maps, task, callbacks, start, confidence)


def _confidence(
    settings: Settings,
    data: ForecastData,
    network: Informer,
    linear_maps: LinearMaps,
    start: Beginning | PretrainedBeginning | None,
) -> float | None:
    """Return the confidence with which trained weights must beat the start; None if any better score counts.

    Any better score counts after a start from a run, unless validation is too short or better without the run's
    encoder-decoder.
    """
    continues = start is not None and (start.chooses_weight or network.mixing_weight != 0)
    if (linear_maps.start is None and not continues) or (continues and _blocks(data) >= FEWEST):
        return None
    return settings.training.start_confidence


def _blocks(data: ForecastData) -> int:
    """Return the number of blocks of validation windows."""
    windows = data.parts["validation"]
    return count_blocks(int(windows.with_target.sum()), windows.overlap)


class GeneratedData(ForecastData):
    """Windows of generated series, each standardized; see `forecast.data.generated.prior`.

    The table of `source` has the series of validation and test, one after the other; those of training are drawn.
    """

    is_one_series = False

    def __init__(self, source: Source, settings: DataSettings, **options: Any) -> None:
        self.settings = settings
        super().__init__(source, settings.split, **options)

    def _cut_parts(self, table: Windows, targets: Mapping[str, range]) -> None:
        rows, length = self.settings.rows, table.context_length + table.horizon
        if rows < length:
            raise InputError(f"data.rows={rows}: must be at least context_length + horizon, {length}")
        held = DrawnWindows(**{**vars(table), "starts": torch.arange(2 * HELD) * rows + rows - length}, seed=0)
        self.parts = {
            "train": training_windows(self._pool(), rows, self.settings.seed, table),
            "validation": replace(held, starts=held.starts[:HELD]),
            "test": replace(held, starts=held.starts[HELD:]),
        }
        self.left_out = dict.fromkeys(self.parts, 0)

    def _pool(self) -> Pool:
        """Return the series of training, with drivers in the unit of the encoder."""
        ours = self.settings
        pool = draw_pool(ours.seed, range(ours.series), ours.rows, ours.channels, ours.drivers)
        for part in pool.drivers.split(2**20):  # in its place: all of it in float64 may not fit
            scaled = self.encoder.dense(pd.DataFrame(part.numpy(), columns=driver_names(ours.drivers)))
            part.copy_(torch.from_numpy(scaled))
        return pool

    def to(self, device: torch.device) -> None:
        """Move the tables of all splits to `device`."""
        self.parts = {part: windows.to(device) for part, windows in self.parts.items()}


def make_data(
    settings: Settings, source: Source, device: torch.device, group: Group = ALONE, table: Address | None = None
) -> ForecastData:
    """Return the windows of all splits, on the CPU; `device` is where they will be moved to."""
    training = settings.training
    placing = Placing(training.data_placement, device, group.place.local_size, Path(settings.output_dir), table)
    context_length, horizon = settings.lengths
    options: dict[str, Any] = {
        "context_length": context_length,
        "horizon": horizon,
        "batch_size": training.batch_size,
        "evaluation_batch_size": training.evaluation_batch_size,
        "placing": placing,
        "evaluation_stride": training.evaluation_stride,
        "first_origin": training.first_origin,
        "seed": settings.seed,
    }
    if (start := beginning_of(settings.start_from)) is not None:
        start.check_table(source)
        options["encoder"] = start.encoder
    if settings.data.source == GENERATED:
        data: ForecastData = GeneratedData(source, settings.data, **options)
    elif source.series.ids is None:
        if training.sampling == BY_SERIES:
            raise InputError("training.sampling=series: the table has one series: name data.id_columns, or set windows")
        data = ForecastData(source, settings.data.split, **options)
    else:
        data = _panel_data(settings, source, options)
    _check_group_size(training.batch_size, data, group)
    return data


def _panel_data(settings: Settings, source: Source, options: dict[str, Any]) -> PanelData:
    table, patch = settings.data, settings.model.get("patch_length")
    least = table.least_context or patch or seasonal_period(source.series.frequency)
    return PanelData(
        source,
        table.split,
        split_by=table.split_by,
        least_context=least,
        drops_short=table.short_series == DROP,
        most_windows=settings.training.evaluation_windows,
        static_named=bool(table.static_columns),
        id_embedding=table.id_embedding,
        by_series=settings.training.sampling == BY_SERIES,
        **options,
    )


def _make_network(
    settings: Settings, data: ForecastData, device: torch.device, group: Group
) -> tuple[Architecture, Informer]:
    options, encoder = dict(settings.model), dict(settings.attention)
    mechanisms = Mechanisms(
        encoder=encoder, decoder=dict(settings.decoder_attention or encoder), cross=dict(settings.cross_attention)
    )
    quantiles = list(settings.quantiles) if settings.loss == QUANTILE else []
    architecture = Architecture(options.pop("name"), options, mechanisms, Sizes(**data.sizes, quantiles=quantiles))
    network = architecture.build()
    if data.static.size:
        network.set_static(torch.from_numpy(data.static))
    if settings.training.compile:
        check_compiling(network, device, group.size)
    network.checkpoint_activations(settings.training.activation_checkpointing)
    return architecture, network


def _make_task(settings: Settings, data: ForecastData, network: Informer) -> ForecastTask:
    training = settings.training
    task = ForecastTask(
        network,
        loss=settings.loss,
        make_optimizer=prepared(settings.optimizer),
        make_scheduler=prepared(settings.scheduler),
        max_grad_norm=training.max_grad_norm,
        linear_path_rate=training.linear_path_rate,
        total_steps=training.total_steps(len(data.parts["train"])),
        shrinkage=shrinkage(independent_blocks(data.parts["validation"]), training.mixing_prior),
        seed=settings.seed,
        frozen=settings.freeze,
    )
    task.configure_optimizers()  # refuse options out of range before the run folder is made
    return task


def _fit_linear(settings: Settings, data: ForecastData, architecture: Architecture, network: Informer) -> LinearMaps:
    training = settings.training
    with progress(len(PENALTIES), quiet=not (training.progress and many_inputs(data))) as (say, advance):

        def done() -> None:
            advance(1)
            say("penalties of the ridge")

        return fit_maps(
            data.parts["train"],
            data.parts["validation"],
            starts=network.linear_path is not None and architecture.options["linear_path"] != "zero",
            period=seasonal_period(data.source.series.frequency),
            confidence=training.start_confidence,
            batch_size=training.evaluation_batch_size,
            quantiles=network.levels if network.is_weighted else (),
            each_series=architecture.options.get("path_weights") == "series",
            done=done,
        )


MANY_INPUTS = 10_000
"""Number of known inputs, over all targets, from which the linear fit takes minutes."""


def many_inputs(data: ForecastData) -> int:
    """Return the number of known inputs that the linear models read, if their fit takes long; else 0."""
    inputs = data.layout.num_features(data.parts["train"].horizon)
    return inputs if inputs * len(data.source.targets) >= MANY_INPUTS else 0


def _check_group_size(batch_size: int, data: ForecastData, group: Group) -> None:
    """Refuse a batch size that the processes do not divide, and more processes than validation windows."""
    if batch_size % group.size:
        raise InputError(
            f"training.batch_size={batch_size}: must be a multiple of {group.size}, the number of processes"
        )
    if (windows := len(data.parts["validation"])) < group.size:
        raise InputError(
            f"trainer.devices: {group.size} processes need as many validation windows, there are {windows}: "
            "use fewer processes"
        )


LOOP_CHANGING = (
    *(StochasticWeightAveraging, GradientAccumulationScheduler, LearningRateFinder, BatchSizeFinder),
    *(ModelPruning, WeightAveraging),
)
"""Callbacks of Lightning that change the loop, the rates or the weights."""


def make_callbacks(nodes: Mapping[str, Any], loss: str = "") -> list[Callback]:
    """Return the callbacks of the `callbacks` group; refuse one that would fail later, during the run."""
    callbacks: list[Callback] = []
    for name, node in nodes.items():
        if not isinstance(node, Mapping) or TARGET not in node:
            raise InputError(f"callbacks.{name}={node}: needs a {TARGET}; ~callbacks.{name} removes it")
        check_target(node, f"callbacks.{name}", Callback)
        callback: Callback = make(node, f"callbacks.{name}")
        if isinstance(callback, (Checkpoint, ProgressBar, Timer)):
            raise InputError(f"callbacks.{name}: {type(callback).__name__}: every run already has one")
        if isinstance(callback, LOOP_CHANGING):
            raise InputError(
                f"callbacks.{name}: {type(callback).__name__}: changes weights, steps or rates behind the training, "
                f"which then keeps other weights than it scored: ~callbacks.{name} removes it"
            )
        monitor, patience = getattr(callback, "monitor", METRICS[0]), getattr(callback, "patience", 1)
        metrics = QUANTILE_METRICS if loss == QUANTILE else METRICS
        if monitor not in metrics:
            raise InputError(f"callbacks.{name}.monitor={monitor}: choose one of {', '.join(metrics)}")
        if not isinstance(patience, int) or isinstance(patience, bool) or patience < 1:
            raise InputError(f"callbacks.{name}.patience={patience}: must be a whole number of at least 1")
        if callback.state_key in [other.state_key for other in callbacks]:
            raise InputError(
                f"callbacks.{name}: another callback has the same class and options: ~callbacks.{name} removes it"
            )
        callbacks.append(callback)
    return callbacks
