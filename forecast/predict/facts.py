"""What a trained model says about itself: its weights, calibration, validation errors and range of training."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors.torch

from forecast.common.errors import InputError
from forecast.common.losses import same_levels
from forecast.data.contract import DataContract
from forecast.data.training_range import TrainingRange
from forecast.evaluation.adaptive import Forms
from forecast.evaluation.baselines import EVERY
from forecast.evaluation.coverage import SOURCES
from forecast.evaluation.limits import Limits
from forecast.evaluation.metrics import PREFERRED
from forecast.model.presets import Sizes
from forecast.runs.results import start_name
from forecast.runs.run import CALIBRATION, DAMAGE, WEIGHTS


@dataclass(frozen=True)
class ModelFacts:
    """What the manifest of a run, or the description of an exported file, says beside the model's inputs.

    Attributes
    ----------
    weights
        SHA-256 of the weights.
    calibration
        Method, number of windows and known coverages of the intervals.
    validation_mse
        Validation MSE of the model and of each baseline.
    training_range
        Limits of the training rows.
    limits
        Limits that no forecast of a target crosses.
    read_calibration
        Reads the calibration, which a forecast without intervals does not need.
    path
        Run folder or exported file of the model.
    start
        What the training began with, as `start_from` of its result; None: random weights.
    attention
        Self-attention that replaces that of training, in the user's words; None: that of training.
    """

    weights: str
    calibration: Mapping[str, Any]
    validation_mse: Mapping[str, float]
    training_range: TrainingRange
    limits: Limits
    read_calibration: Callable[[], Forms] = field(repr=False)
    path: Path
    start: Mapping[str, Any] | None = None
    attention: str | None = None

    @classmethod
    def of(
        cls, manifest: Mapping[str, Any], num_targets: int, read_calibration: Callable[[], Forms], path: Path
    ) -> "ModelFacts":
        """Return the facts of a manifest of some targets; raise ValueError if they are inconsistent."""
        calibration, errors = manifest["calibration"], manifest["validation_mse"]
        if not _is_calibration(calibration):
            raise ValueError("the facts of its calibration are not valid")
        if not isinstance(errors, Mapping) or not all(_is_number(value) for value in errors.values()):
            raise ValueError("the validation errors are not numbers")
        if not isinstance(manifest.get("start_from"), Mapping | None):
            raise ValueError("the start of its training is not valid")
        pd.Timestamp(calibration.get("last_training_row", ""))  # raises ValueError if it is no time
        return cls(
            weights=str(manifest["files"][WEIGHTS]["sha256"]),
            calibration=calibration,
            validation_mse={str(name): float(value) for name, value in errors.items() if value is not None},
            training_range=TrainingRange.from_dict(manifest["training_range"]),
            limits=Limits.from_dict(manifest["limits"], num_targets),
            read_calibration=read_calibration,
            path=path,
            start=manifest.get("start_from"),
        )

    def warnings(self) -> list[str]:
        """Return a warning if a baseline was better than the model on validation, with the attention of training."""
        if self.attention is not None:
            return []
        ours = self.validation_mse.get("model")
        others = {name: mse for name, mse in self.validation_mse.items() if name in EVERY}
        if ours is None or not others:
            return []
        best = min(others, key=lambda name: others[name])
        if others[best] >= ours * (1 - PREFERRED):
            return []
        return [
            f"{EVERY[best].sentence} was better than the model on validation (MSE {others[best]:.4g} against "
            f"{ours:.4g}): compare the forecast with it"
        ]


def starts_line(models: Sequence[ModelFacts]) -> str | None:
    """Return which weights the trainings of averaged models began with; None if all began with the same."""
    names = list(dict.fromkeys(start_name(model.start) for model in models))
    return f"the runs began with {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else None


def calibration_of_run(folder: Path, sizes: Sizes) -> Forms:
    """Return the interval forms in a run folder, which fit a model of these sizes."""
    path = folder / CALIBRATION
    return _checked(path.read_bytes(), path, sizes)


def forms_of_run(folder: Path, sizes: Sizes, attention: str | None) -> Forms:
    """Return the interval forms in a run folder; refuse them for an `attention` that replaces that of training."""
    if attention is not None:
        raise InputError(
            f"--attention {attention}: intervals are calibrated for the attention of training: leave it out, or leave "
            "out the levels"
        )
    return calibration_of_run(folder, sizes)


def encoded(calibration: bytes) -> str:
    """Return the content of a calibration file as text, for an exported file."""
    return base64.b64encode(calibration).decode()


def calibration_of_text(text: str, path: Path, sizes: Sizes) -> Forms:
    """Return the interval forms in an exported file, which fit a model of these sizes."""
    return _checked(base64.b64decode(text), path, sizes)


def _checked(content: bytes, path: Path, sizes: Sizes) -> Forms:
    """Return the interval forms in `content`, read from `path`; raise InputError if it is damaged or does not fit."""
    try:
        forms = Forms.from_tensors(safetensors.torch.load(content))
        if forms.plain.shape[:2] != (sizes.horizon, sizes.num_targets):
            raise ValueError("it has another horizon or number of targets")
        if not same_levels(forms.plain.trained, sizes.quantiles):
            raise ValueError("it is for other quantiles than those of the model")
    except DAMAGE as error:
        raise InputError(f"{path}: its calibration is damaged ({str(error).splitlines()[0]}): copy it again") from None
    return forms


def _is_calibration(facts: Any) -> bool:
    if not isinstance(facts, Mapping) or not isinstance(facts.get("method"), str):
        return False
    coverages = [facts.get(key, {}) for key in SOURCES]
    return (
        isinstance(facts.get("explanation"), str)
        and isinstance(facts.get("last_training_row", ""), str)
        and isinstance(facts.get("windows"), int)
        and all(isinstance(each, Mapping) and all(_is_number(value) for value in each.values()) for each in coverages)
    )


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def check_manifest(contract: DataContract, sizes: Sizes, limits: TrainingRange | None) -> None:
    """Raise ValueError for entries of a manifest that contradict each other, such as one edited by hand."""
    layout, channels = contract.layout, contract.channels
    data_sizes = (len(contract.targets), len(channels) - len(contract.targets), layout.width)
    if data_sizes != (sizes.num_targets, sizes.num_past_covariates, sizes.num_known):
        raise ValueError(f"numbers of targets, past covariates and known inputs are {data_sizes}")
    if replace(layout, look_back=sizes.known_look_back) != sizes.layout:
        raise ValueError("the known covariates have other kinds")
    if contract.static.sizes != {key: getattr(sizes, key) for key in contract.static.sizes}:
        raise ValueError("the static covariates have other kinds")
    numbers = contract.encoder.numbers
    expected = [numbers] if contract.roles.ids else [channels, [*channels, *numbers]]
    if limits is not None and list(limits.columns) not in expected:
        raise ValueError("the range of training has other columns")
