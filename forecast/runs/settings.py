"""The configuration of a training, parsed and checked once, before torch is imported."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from forecast.common.conf_files import about_option
from forecast.common.errors import InputError
from forecast.common.files import look_up
from forecast.common.losses import LOSSES, QUANTILE, check_loss, levels_error
from forecast.common.settings import MOST, option, options_of, read_options, settings
from forecast.data.lengths import Lengths, choose_lengths
from forecast.data.settings import DIAGNOSTIC, LARGEST_SEED, MOST_WINDOWS, DataSettings, named
from forecast.data.sources import Source, load_source
from forecast.data.split import split_rows

if TYPE_CHECKING:
    import torch

GROUPS = (
    *("data", "model", "attention", "cross_attention", "optimizer", "scheduler"),
    *("training", "trainer", "callbacks", "logger"),
)
"""Required groups, of which the last two may be empty; `decoder_attention` may be null."""


DECILES = tuple(tenths / 10 for tenths in range(1, 10))
"""The default of `quantiles`."""

PRECISIONS = ("32-true", "bf16-mixed")
PLACEMENTS = ("auto", "device", "mapped")
WINDOWS, BY_SERIES = "windows", "series"
ACCELERATORS = ("auto", "cpu", "gpu", "cuda")


@settings
class TrainingSettings:
    """The `training` group: length, batches and arithmetic."""

    max_epochs: float | None = option(
        "Passes over the training windows; null: max_steps alone.", unit="epochs", above=0
    )
    max_steps: int | None = option("Most training steps; null: max_epochs alone.", unit="steps", least=1)
    max_time: str | None = option(
        "Time (dd:hh:mm:ss) after which training ends with the best weights so far; null: no limit.", unit="dd:hh:mm:ss"
    )
    batch_size: int = option("Windows in a training step, over all processes.", unit="windows", least=1)
    evaluation_batch_size: int = option("Windows in a forecast batch.", unit="windows", least=1)
    evaluation_stride: int = option(
        "Keep every n-th validation and test window, counted back from the last; at most the horizon.",
        unit="windows",
        least=1,
    )
    evaluation_windows: int = option(
        "Most validation or test windows of a long table, at the same origins for all series.",
        unit="windows",
        default=MOST_WINDOWS,
        least=1,
    )
    sampling: str = option(
        "What a long table draws equally often in training: windows, or series.",
        default=WINDOWS,
        choices=(WINDOWS, BY_SERIES),
    )
    first_origin: int | None = option(
        "Row of the first training target, or step of a long table; null: the first possible one.", unit="row", least=1
    )
    validations_per_epoch: float = option("Validations in one epoch.", unit="validations", above=0)
    precision: str = option(
        "Arithmetic of training: 32-true or bf16-mixed; auto: bf16-mixed if the model gains from it.",
        choices=("auto", *PRECISIONS),
    )
    max_grad_norm: float | None = option("Largest gradient norm; null: no clipping.", above=0)
    start_confidence: float | None = option(
        "Confidence that trained weights beat the start; null: any better score counts.", least=0.5, below=1
    )
    mixing_prior: float = option(
        "The mixing weight is multiplied by n / (n + mixing_prior), n validation blocks; 0: not shrunk.",
        unit="windows",
        least=0,
    )
    linear_path_rate: float = option(
        "Learning rate of the linear path, relative to the optimizer's; 0: fixed.", least=0
    )
    checkpoint_minutes: float = option("Longest time between checkpoints, in minutes.", unit="minutes", above=0)
    progress: bool = option("Show progress bars.")
    profile: bool = option("true: record a trace of five training steps.")
    activation_checkpointing: bool = option(
        "true: recompute layers in the backward pass, for less memory and more time."
    )
    data_placement: str = option("Location of the table: auto, device or mapped (a file).", choices=PLACEMENTS)
    compile: bool = option("true: compile the training step.")

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "TrainingSettings":
        """Return the `training` group of a configuration, checked."""
        result = cls(**read_options(cls, values, "training"))
        if result.max_epochs is None and result.max_steps is None:
            raise InputError(
                "training.max_epochs=null and training.max_steps=null: a run needs an end: set one of them"
            )
        if result.max_time is not None:
            parse_time(result.max_time)
        return result

    @property
    def duration(self) -> timedelta | None:
        """The time after which training ends, None without a limit."""
        return None if self.max_time is None else parse_time(self.max_time)

    def total_steps(self, num_windows: int) -> int:
        """Return the length of the run in steps: `max_epochs` or `max_steps`, whichever comes first."""
        passes = float("inf") if self.max_epochs is None else self.max_epochs * num_windows / self.batch_size
        steps = passes if self.max_steps is None else min(passes, self.max_steps)
        return max(1, round(steps))

    def validation_interval(self, num_windows: int) -> int:
        """Return the steps between validations; one more follows the last step."""
        per_epoch = num_windows / self.batch_size
        return max(1, round(per_epoch / self.validations_per_epoch))


def parse_time(text: str) -> timedelta:
    """Parse a duration dd:hh:mm:ss."""
    pieces = text.split(":")
    if len(pieces) != 4 or not all(piece.isdecimal() and len(piece) < 7 for piece in pieces):
        raise InputError(f"training.max_time={text}: must be dd:hh:mm:ss, such as 00:00:10:00 for ten minutes")
    days, hours, minutes, seconds = map(int, pieces)
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if not duration:
        raise InputError(f"training.max_time={text}: must be at least one second")
    return duration


SET_ELSEWHERE = {
    "precision": "training.precision",
    "max_time": "training.max_time",
    "max_steps": "training.max_steps",
    "max_epochs": "training.max_epochs",
    "gradient_clip_val": "training.max_grad_norm",
    "enable_progress_bar": "training.progress",
    "val_check_interval": "training.validations_per_epoch",
    "callbacks": "callbacks",
    "logger": "logger",
    "default_root_dir": "output_dir",
}
"""Options of Lightning's Trainer, and the option here that sets each."""

PER_PROCESSOR = 4
"""Most processes of a CPU training per processor; a run folder could request a million."""


@settings
class TrainerSettings:
    """The `trainer` group; no option of it leaves out windows or changes the count of steps."""

    accelerator: str = option(
        "Device: cpu, gpu or cuda, or auto: a CUDA GPU if there is one, else the CPU.", choices=ACCELERATORS
    )
    devices: int | str = option("Processes on each machine; auto: one per GPU.", unit="processes")
    log_every_n_steps: int = option("Steps between logged points.", unit="steps", least=1)
    num_nodes: int = option("Machines that train together.", unit="machines", default=1, least=1)
    benchmark: bool | None = option("Let cuDNN search for its fastest kernels.", default=None)
    deterministic: bool | None = option("Refuse non-deterministic operations.", default=None)
    detect_anomaly: bool = option("Find the operation that makes a gradient non-finite; slow.", default=False)

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "TrainerSettings":
        """Return the `trainer` group of a configuration, checked except for the presence of the devices."""
        for key, home in SET_ELSEWHERE.items():
            if key in values:
                raise InputError(f"trainer.{key}: is set by {home}: set that instead")
        result = cls(**read_options(cls, values, "trainer"))
        if result.devices != "auto" and (not isinstance(result.devices, int) or result.devices < 1):
            raise InputError(f"trainer.devices={result.devices}: must be auto or a whole number of at least 1")
        return result

    def device(self, local_rank: int = 0) -> "torch.device":
        """Return the device of process `local_rank` on a machine; "auto" is CUDA if there is a GPU, else the CPU."""
        import torch

        available = torch.cuda.is_available()
        if self.accelerator in ("gpu", "cuda") and not available:
            raise InputError(
                f"trainer.accelerator={self.accelerator}: torch finds no CUDA device here: use trainer=default"
            )
        on_cpu = self.accelerator == "cpu" or not available
        return torch.device("cpu") if on_cpu else torch.device("cuda", local_rank)

    def count_processes(self) -> tuple[int, int]:
        """Return the number of processes on each machine, and of machines."""
        import torch

        on_cpu = self.device().type == "cpu"
        if self.devices == "auto":
            if on_cpu:
                raise InputError(
                    "trainer.devices=auto: counts GPUs, but this training runs on the CPU: set the number of "
                    "processes, as in trainer.devices=2"
                )
            return torch.cuda.device_count(), self.num_nodes
        assert isinstance(self.devices, int)
        if on_cpu and self.devices > (most := PER_PROCESSOR * (os.cpu_count() or 1)):
            raise InputError(
                f"trainer.devices={self.devices}: CPU training on this machine has at most {most} processes: lower it"
            )
        if not on_cpu and self.devices > (visible := torch.cuda.device_count()):
            raise InputError(
                f"trainer.devices={self.devices}: this process sees {visible} CUDA devices: lower it, or let each "
                "process see all devices of its machine"
            )
        return self.devices, self.num_nodes


MORE_BASELINES = ("trees", "ets", "theta", "arima")
"""Baselines on request."""


@settings
class EvaluationSettings:
    """The `evaluation` group."""

    baselines: list[str] = option(f"More baselines: {', '.join(MORE_BASELINES)}.", default=())

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "EvaluationSettings":
        """Return the `evaluation` group of a configuration, checked."""
        result = cls(**read_options(cls, values, "evaluation"))
        for name in result.baselines:
            if name not in MORE_BASELINES or list(result.baselines).count(name) > 1:
                raise InputError(f"evaluation.baselines={name}: choose from {', '.join(MORE_BASELINES)}, each once")
        return result


@settings
class Settings:
    """The configuration of a training: a field for each root option and each group.

    Groups with a `_target_`, or with a constructor that checks them, stay plain mappings.
    """

    context_length: int | None = option("Look-back in steps; null: follows from the table.", unit="steps", least=1)
    horizon: int | None = option(
        "Length of the forecast in steps; null: follows from the table.", unit="steps", least=1
    )
    seed: int = option("Seed of the weights, the order of windows and dropout.", least=0, most=LARGEST_SEED)
    loss: str = option("Training loss on z-scores: mse, mae, huber or quantile.", choices=LOSSES, checked=False)
    quantiles: list[float] = option("Levels of loss=quantile, symmetric about 0.5.", default=(), items="numbers")
    output_dir: str = option("Folder of all runs.")
    start_from: str | None = option(
        "Run folder (or latest), or pretrained, whose weights begin the training; null: random weights.", default=None
    )
    freeze: list[str] = option(
        "Parts of the network that training does not change, such as [encoder,tokens].", default=(), items="parts"
    )
    resume: bool | str = option("auto (newest run of this configuration) or a run folder; false: a new run.")
    data: DataSettings
    training: TrainingSettings
    trainer: TrainerSettings
    evaluation: EvaluationSettings
    model: Mapping[str, Any]
    attention: Mapping[str, Any]
    decoder_attention: Mapping[str, Any] | None
    cross_attention: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    callbacks: Mapping[str, Any]
    logger: Mapping[str, Any]
    plain: dict[str, Any]
    """The configuration as plain values, as in `config.json`."""
    chosen: str = ""
    """Line with the lengths that follow from the table; empty if all were set."""

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Settings":
        """Return the settings of a composed configuration of plain values; raise InputError for an invalid option."""
        config = named(config)
        known = options_of(cls)
        for key in config:
            if key not in (*known, *GROUPS, "decoder_attention", "evaluation", "sweep", "ensemble"):
                raise InputError(f"{key}: {about_option(str(key))}")
        if (members := config.get("ensemble", 1)) != 1:
            raise InputError(f"ensemble={members}: this is about one training: leave it out")
        decoder = config.get("decoder_attention")
        for key in (*GROUPS, *(["decoder_attention"] if decoder is not None else [])):
            if not isinstance(config.get(key), Mapping):
                raise InputError(f"{key}={config.get(key)}: must be a group of options, as in the files of conf/")
        if "resume" in config:
            check_resume(config["resume"])
        root = read_options(cls, {key: value for key, value in config.items() if key in known}, "")
        check_loss(root["loss"])
        _check_quantiles(root)
        data = DataSettings.parse(config["data"])
        _check_diagnostic(data, root)
        return cls(
            **root,
            data=data,
            training=TrainingSettings.parse(config["training"]),
            trainer=TrainerSettings.parse(config["trainer"]),
            evaluation=EvaluationSettings.parse(config.get("evaluation", {})),
            **{key: config[key] for key in GROUPS if key not in ("data", "training", "trainer")},
            decoder_attention=decoder,
            plain=config,
        )

    @property
    def lengths(self) -> tuple[int, int]:
        """Look-back and horizon of settings that `follow_table` has completed."""
        assert self.context_length is not None
        assert self.horizon is not None
        return self.context_length, self.horizon

    def at_lengths(self, lengths: Lengths, chosen: str) -> "Settings":
        """Return these settings with all lengths set; `chosen` is the line about them."""
        look_back, horizon = lengths.context_length, lengths.horizon
        model = {**self.model, **{key: getattr(lengths, key) for key in IN_PATCHES if key in self.model}}
        plain = {**self.plain, "context_length": look_back, "horizon": horizon, "model": model}
        return replace(self, context_length=look_back, horizon=horizon, model=model, plain=plain, chosen=chosen)

    def at_seed(self, seed: int) -> "Settings":
        """Return these settings with another seed."""
        return replace(self, seed=seed, plain={**self.plain, "seed": seed})

    def at_length(self, **length: float | str | None) -> "Settings":
        """Return these settings with another length of the training, such as `max_time`."""
        plain = {**self.plain, "training": {**self.plain["training"], **length}}
        return replace(self, training=TrainingSettings.parse(plain["training"]), plain=plain)

    def at_precision(self, precision: str) -> "Settings":
        """Return these settings with another `training.precision`."""
        plain = {**self.plain, "training": {**self.plain["training"], "precision": precision}}
        return replace(self, training=replace(self.training, precision=precision), plain=plain)

    def settled(self, local_rank: int = 0) -> "Settings":
        """Return these settings with "auto" precision replaced by the choice for this machine's device."""
        device = self.trainer.device(local_rank)
        return self.at_precision(choose_precision(self.training.precision, device, self.model.get("d_model")))


IN_PATCHES = ("patch_length", "stride")
"""Lengths that only a model of patches has."""


def follow_table(settings: Settings, source: Source | None = None) -> tuple[Settings, Source | None]:
    """Return the settings with the lengths that are null chosen for the table (`choose_lengths`), and the table.

    `source` is the table; if it is None, the table is read if a length follows from it. A stride that is null beside a
    patch length is the patch length.
    """
    names = [field.name for field in fields(Lengths)]
    given = {name: look_up(settings.plain, _key_of(name)) for name in names}
    for name in IN_PATCHES:
        if (value := given[name]) is not None and not (type(value) is int and 1 <= value <= MOST):
            raise InputError(f"model.{name}={value}: must be a whole number of at least 1")
    missing = [name for name in names if given[name] is None and (name not in IN_PATCHES or name in settings.model)]
    if missing in ([], ["stride"]):
        return settings, source
    source = load_source(settings.data) if source is None else source
    rows, step = source.series.num_steps, source.series.frequency
    lengths = choose_lengths(Lengths(**given), step, split_rows(rows, **settings.data.split, unit=source.series.unit))
    words = " ".join(f"{_key_of(name)}={getattr(lengths, name)}" for name in missing)
    return settings.at_lengths(lengths, f"{words}: chosen for {rows:,} rows of step {step}"), source


def _key_of(name: str) -> str:
    return f"model.{name}" if name in IN_PATCHES else name


def _check_diagnostic(data: DataSettings, root: Mapping[str, Any]) -> None:
    """Refuse generated windows of other sizes than those of the model, since a forecast would begin elsewhere."""
    if data.source != DIAGNOSTIC:
        return
    for key, wanted in (("window_look_back", "context_length"), ("window_horizon", "horizon")):
        if (value := getattr(data, key)) != root[wanted]:
            raise InputError(f"data.{key}={value}: follows {wanted}, here {root[wanted]}: leave it out")


def _check_quantiles(root: Mapping[str, Any]) -> None:
    """Refuse levels that a model cannot forecast, and levels that another loss would ignore."""
    levels = root.get("quantiles", [])
    if not all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels):
        raise InputError(f"quantiles={levels}: must be numbers, such as quantiles=[0.1,0.5,0.9]")
    if root["loss"] == QUANTILE:
        if reason := levels_error(levels):
            raise InputError(f"quantiles={levels}: {reason}: use levels such as quantiles=[0.1,0.5,0.9]")
    elif levels and tuple(levels) != DECILES:
        raise InputError(
            f"quantiles={levels}: only loss=quantile forecasts them: add loss=quantile, or leave out quantiles; every "
            "run has intervals (predict --levels)"
        )


def check_resume(value: Any) -> None:
    """Refuse a `resume` that is not false, "auto" or a folder."""
    if value is not False and not (isinstance(value, str) and value):
        raise InputError(f"resume={value}: choose false, auto (the newest run of this configuration), or a run folder")


def check_one_process(trainer: Mapping[str, Any]) -> None:
    """Refuse a job of a sweep that would start processes."""
    for key in ("devices", "num_nodes"):
        if (value := trainer.get(key, 1)) != 1:
            raise InputError(
                f"trainer.{key}={value}: each job of a sweep is one process on one device: set it to 1, and run jobs "
                "in parallel with hydra/launcher=joblib, or a GPU each with hydra/launcher=submitit_slurm"
            )


WIDE = 256
"""Width from which CPU training with matrix units is faster in bf16; below it the conversions cost more.

Time of a bf16 step over a float32 step: 2.1, 1.4 and 0.9 at widths 64, 128 and 256 (patches); 2.2, 0.74 and 0.44 at 64,
256 and 512 (one token a step). Measured on one thread of an Intel Xeon with AMX, torch 2.13.
"""


def choose_precision(wanted: str, device: "torch.device", width: object) -> str:
    """Return Lightning's name of the precision; "auto" is bf16 if a model of this width gains from it."""
    if wanted == "auto":
        from forecast.common.devices import has_bfloat16_units

        is_wide = isinstance(width, int) and width >= WIDE  # the model refuses other values
        fast = has_bfloat16_units(device) and (device.type == "cuda" or is_wide)
        return "bf16-mixed" if fast else "32-true"
    if wanted not in PRECISIONS:
        raise InputError(f"training.precision {wanted!r}: choose auto, {' or '.join(PRECISIONS)}")
    return wanted


def exact_convolutions() -> None:
    """Compute float32 convolutions in full float32; a GPU uses TF32 otherwise."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
