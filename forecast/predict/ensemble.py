"""Several runs as one forecaster: the mean of their forecasts."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.series import Series
from forecast.predict.forecaster import Forecaster
from forecast.runs.run import Run

ALIKE = ("horizon", "targets", "past_covariates", "time_column", "frequency", "policies")
"""Properties that members of an ensemble share; look-back, model and seed may differ."""


@dataclass(frozen=True)
class Ensemble:
    """Forecasters of one horizon that were trained on the same part of the same data."""

    members: list[Forecaster]

    @classmethod
    def load(cls, paths: Sequence[str | os.PathLike[str]]) -> "Ensemble":
        """Return the ensemble of the finished runs at `paths`."""
        runs = [Run.open(path).path for path in paths]
        for place, run in enumerate(runs):
            if run.resolve() in [other.resolve() for other in runs[:place]]:
                raise InputError(f"--run {run}: is given twice and would weigh double: give each run once")
        first, *others = members = [Forecaster.load(run) for run in runs]
        for run, other in zip(runs[1:], others, strict=True):
            if apart := _apart(first, other):
                cure = "give runs of the same data, targets and horizon"
                raise InputError(f"{run}: cannot be averaged with {runs[0]}: {apart}: {cure}")
        return cls(members)

    def read(self, path: str | os.PathLike[str]) -> Series:
        """Read a file and let every member check it; return the series of the one with the longest look-back."""
        read = [(member.context_length, member.read(path)) for member in self.members]
        return max(read, key=lambda pair: pair[0])[1]

    def predict(self, frame: pd.DataFrame | pd.Series | Series) -> pd.DataFrame:
        """Forecast what follows `frame` as `Forecaster.predict` does: the mean over the members, original units."""
        forecasts = [member.predict(frame) for member in self.members]
        mean = np.mean([forecast.to_numpy() for forecast in forecasts], axis=0)
        return pd.DataFrame(mean, index=forecasts[0].index, columns=forecasts[0].columns)


def _apart(first: Forecaster, other: Forecaster) -> str:
    """Return the first difference that prevents averaging two forecasters, empty if there is none."""
    for name in ALIKE:
        ours, theirs = getattr(first, name), getattr(other, name)
        if ours != theirs:
            return f"its {name.replace('_', ' ')} is {theirs}, there {ours}"
    for ours, theirs in ((first.scaler.mean, other.scaler.mean), (first.scaler.scale, other.scaler.scale)):
        if not np.array_equal(ours, theirs):
            return "its training part has another mean or deviation"
    return ""
