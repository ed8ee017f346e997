"""What a trained model says about itself: its weights, calibration, validation errors and range of training."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import safetensors.torch

from forecast.common.errors import InputError
from forecast.common.losses import same_levels
from forecast.common.text import is_plain
from forecast.data.calendar import calendar_features, future_index
from forecast.data.training_range import TrainingRange
from forecast.evaluation.adaptive import Forms
from forecast.evaluation.coverage import SOURCES
from forecast.evaluation.limits import Limits
from forecast.evaluation.metrics import PREFERRED
from forecast.model.presets import Sizes
from forecast.runs.run import CALIBRATION, DAMAGE, WEIGHTS

if TYPE_CHECKING:
    from forecast.predict.forecaster import Forecaster

ROWS = {
    "training_mean": "the mean of training",
    "last_value": "the last value",
    "seasonal_naive": "the seasonal naive forecast",
    "linear": "ridge regression",
}
"""Baselines of a result, as named in a warning."""


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
    """

    weights: str
    calibration: Mapping[str, Any]
    validation_mse: Mapping[str, float]
    training_range: TrainingRange
    limits: Limits
    read_calibration: Callable[[], Forms] = field(repr=False)

    @classmethod
    def of(cls, manifest: Mapping[str, Any], num_targets: int, read_calibration: Callable[[], Forms]) -> "ModelFacts":
        """Return the facts of a manifest of some targets; raise ValueError if they are inconsistent."""
        calibration, errors = manifest["calibration"], manifest["validation_mse"]
        if not _is_calibration(calibration):
            raise ValueError("the facts of its calibration are not valid")
        if not isinstance(errors, Mapping) or not all(_is_number(value) for value in errors.values()):
            raise ValueError("the validation errors are not numbers")
        pd.Timestamp(calibration.get("last_training_row", ""))  # raises ValueError if it is no time
        return cls(
            weights=str(manifest["files"][WEIGHTS]["sha256"]),
            calibration=calibration,
            validation_mse={str(name): float(value) for name, value in errors.items() if value is not None},
            training_range=TrainingRange.from_dict(manifest["training_range"]),
            limits=Limits.from_dict(manifest["limits"], num_targets),
            read_calibration=read_calibration,
        )

    def warnings(self) -> list[str]:
        """Return a warning if a baseline was better than the model on validation."""
        ours = self.validation_mse.get("model")
        others = {name: mse for name, mse in self.validation_mse.items() if name in ROWS}
        if ours is None or not others:
            return []
        best = min(others, key=lambda name: others[name])
        if others[best] >= ours * (1 - PREFERRED):
            return []
        return [
            f"{ROWS[best]} was better than the model on validation (MSE {others[best]:.4g} against {ours:.4g}): "
            "compare the forecast with it"
        ]


def calibration_of_run(folder: Path, sizes: Sizes) -> Forms:
    """Return the interval forms in a run folder, which fit a model of these sizes."""
    path = folder / CALIBRATION
    return _checked(path.read_bytes(), path, sizes)


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


def check_manifest(forecaster: "Forecaster", sizes: Sizes) -> None:
    """Raise ValueError for inconsistent entries of a manifest, such as one edited by hand."""
    for key in ("targets", "past_covariates", "known_covariates", "unread", "cycles"):
        if not isinstance(getattr(forecaster, key), list):
            raise ValueError(f"{key} is not a list")
    columns = [*forecaster.columns, *forecaster.unread, *(forecaster.time_format.columns or ())]
    names = [*columns, *forecaster.cycles, forecaster.time_column, forecaster.frequency]
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise ValueError(f"{wrong[0]!r} is not a name")
    if wrong := [name for name in names if not is_plain(name)]:
        raise ValueError(f"{wrong[0]!r} has control characters")
    if forecaster.last_rows is not None and (type(forecaster.last_rows) is not int or forecaster.last_rows < 1):
        raise ValueError(f"last_rows {forecaster.last_rows!r} is not a number of rows")
    if list(forecaster.scaler.columns) != forecaster.channels:
        raise ValueError("the scaler has other columns")
    past = set(forecaster.encoder.past_categories)
    known = sorted([*forecaster.known_covariates, *forecaster.unread])
    if sorted(forecaster.encoder.known) != known or not past <= set(forecaster.past_covariates):
        raise ValueError("the encoder has other columns")
    mean, scale = forecaster.scaler.mean, forecaster.scaler.scale
    if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
        raise ValueError("the scaler is not finite or not positive")
    calendar = calendar_features(future_index(pd.Timestamp(0), forecaster.frequency, 1), forecaster.cycles).shape[1]
    layout = forecaster.encoder.layout(calendar, 0 if forecaster.holidays is None else len(forecaster.holidays.columns))
    data_sizes = (len(forecaster.targets), len(forecaster.channels) - len(forecaster.targets), layout.width)
    if data_sizes != (sizes.num_targets, sizes.num_past_covariates, sizes.num_known):
        raise ValueError(f"numbers of targets, past covariates and known inputs are {data_sizes}")
    if replace(layout, look_back=sizes.known_look_back) != sizes.layout:
        raise ValueError("the known covariates have other kinds")
    limits = None if forecaster.facts is None else forecaster.facts.training_range
    ranged = forecaster.channels, [*forecaster.channels, *forecaster.encoder.numbers]
    if limits is not None and list(limits.columns) not in ranged:
        raise ValueError("the range of training has other columns")
