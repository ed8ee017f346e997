"""Forecast a table with a trained run, without Lightning."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.finite import check_forecast
from forecast.common.text import is_plain
from forecast.data.calendar import calendar_features, future_index
from forecast.data.clock import Clock
from forecast.data.repair import Policies
from forecast.data.scaler import Scaler
from forecast.data.series import Series
from forecast.data.table import read_table
from forecast.data.timestamps import PLAIN, TimeFormat
from forecast.model.informer import Informer
from forecast.model.original_units import Context, OriginalUnits
from forecast.model.presets import Sizes
from forecast.predict.exported import FORMATS, open_exported
from forecast.predict.input import Expected
from forecast.runs.run import CHANGED, DAMAGE, MANIFEST, Architecture, Run

Model = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Maps the fields of a `Context` to the forecast (B, h, C_out), float64, original units."""


@dataclass(frozen=True)
class Forecaster:
    """Trained model that forecasts tables in original units; `forecast.load` returns one.

    Attributes
    ----------
    targets
        Names of the columns to forecast.
    past_covariates
        Names of the other columns that the model reads.
    time_column
        Name of the time column.
    frequency
        Step of the series, as a pandas frequency such as "h" or "15min".
    context_length
        Look-back in steps: rows that a forecast needs at least.
    horizon
        Number of steps of a forecast.
    path
        Run folder or exported file that the model was loaded from.
    """

    model: Model
    scaler: Scaler
    targets: list[str]
    past_covariates: list[str]
    time_column: str
    frequency: str
    shown: str | None
    clock: Clock
    cycles: list[str]
    policies: Policies
    context_length: int
    horizon: int
    merges_series: bool = False
    path: Path | None = None
    time_format: TimeFormat = PLAIN

    @classmethod
    def load(cls, path: str | os.PathLike[str], attention: str | None = None) -> "Forecaster":
        """Load the finished run at `path`.

        Parameters
        ----------
        path
            Run folder, or "latest" for the finished run under outputs/ that started last.
        attention
            Self-attention that replaces that of training, such as "full" or "probsparse:factor=9".

        Raises
        ------
        InputError
            If `path` is not a finished run, is damaged, or its weights do not fit `attention`.
        """
        run = Run.open(path)
        network = run.load_model() if attention is None else _transplanted(run, attention)

        def model(scaler: Scaler) -> Model:
            return OriginalUnits(network, torch.tensor(scaler.mean), torch.tensor(scaler.scale)).eval()

        return cls._of(run.manifest(), model, run.path / MANIFEST)

    @classmethod
    def load_exported(cls, path: Path, run: str | os.PathLike[str] | None = None) -> "Forecaster":
        """Load an .onnx or .pt2 file written by `python -m forecast.export`.

        Raises
        ------
        InputError
            If the file is invalid, a package that opens it is missing, or it was not exported from `run`.
        """
        exported = open_exported(path)
        if run is not None:
            exported.check_made_from(Run.open(run))
        return cls._of(exported.facts, lambda _: exported, path)

    @classmethod
    def _of(cls, manifest: dict[str, Any], model: Callable[[Scaler], Model], where: Path) -> "Forecaster":
        """Construct the forecaster that a manifest describes; `where` names it in messages."""
        try:
            sizes = Architecture.from_dict(manifest["architecture"]).sizes
            data, scaler = manifest["data"], Scaler.from_dict(manifest["scaler"])
            forecaster = cls(
                model=model(scaler),
                scaler=scaler,
                targets=data["targets"],
                past_covariates=data["past_covariates"],
                time_column=data["time_column"],
                frequency=data["frequency"],
                shown=data.get("shown_frequency"),
                clock=Clock.of_facts(data),
                cycles=data["cycles"],
                policies=Policies.of(data),
                context_length=sizes.context_length,
                horizon=sizes.horizon,
                merges_series=bool(data.get("merged")),
                path=where.parent if where.name == MANIFEST else where,
                time_format=TimeFormat.of(data),
            )
            forecaster._check(sizes)
        except DAMAGE as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            reason = f"it has no {reason}" if isinstance(error, KeyError) else reason
            raise InputError(f"{where}: does not fit the model ({reason}): {CHANGED}") from None
        return forecaster

    def _check(self, sizes: Sizes) -> None:
        """Raise ValueError for inconsistent entries of a manifest, such as one edited by hand."""
        for key in ("targets", "past_covariates", "cycles"):
            if not isinstance(getattr(self, key), list):
                raise ValueError(f"{key} is not a list")
        names = [*self.columns, *self.cycles, self.time_column, self.frequency, *(self.time_format.columns or ())]
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise ValueError(f"{wrong[0]!r} is not a name")
        if wrong := [name for name in names if not is_plain(name)]:
            raise ValueError(f"{wrong[0]!r} has control characters")
        if list(self.scaler.columns) != self.columns:
            raise ValueError("the scaler has other columns")
        mean, scale = self.scaler.mean, self.scaler.scale
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("the scaler is not finite or not positive")
        known = calendar_features(future_index(pd.Timestamp(0), self.frequency, 1), self.cycles).shape[1]
        data_sizes = (len(self.targets), len(self.past_covariates), known)
        if data_sizes != (sizes.num_targets, sizes.num_past_covariates, sizes.num_known):
            raise ValueError(f"numbers of targets, past covariates and known inputs are {data_sizes}")

    @property
    def columns(self) -> list[str]:
        """Columns that an input must have, in the order of the model."""
        return [*self.targets, *self.past_covariates]

    @property
    def target_scale(self) -> Tensor:
        """Standard deviation of each target on the training split, shape (C_out,), float64, original units."""
        return torch.tensor(self.scaler.scale[: len(self.targets)])

    def read(self, path: str | os.PathLike[str]) -> Series:
        """Read a CSV or Parquet file, checked and repaired as in training; raise InputError if it does not fit."""
        return self._checked(read_table(Path(path)), str(path))

    def predict(self, frame: pd.DataFrame | pd.Series | Series) -> pd.DataFrame:
        """Forecast the steps after the last row of `frame`.

        Parameters
        ----------
        frame
            Table with at least `context_length` rows, in original units. It has the columns of training, and the time
            as index or column; other columns are ignored. A pandas Series works if the model has one column.

        Returns
        -------
        pandas.DataFrame
            Shape (horizon, number of targets), original units. The index continues that of `frame`.

        Raises
        ------
        InputError
            If columns, frequency or time zone differ from training, values are invalid or far outside the range of
            training, or `frame` has fewer than `context_length` rows.
        NotFiniteError
            If the forecast contains NaN or infinity.
        """
        series = frame if isinstance(frame, Series) else self._checked(self._table(frame), "the frame")
        context, dates = self.context(series)
        with torch.inference_mode():
            values = self.model(*context)[0].numpy()
        check_forecast(values, dates, self.targets)
        return pd.DataFrame(values, index=dates.rename(self.time_column), columns=self.targets)

    def context(self, series: Series, stop: int | None = None) -> tuple[Context, pd.DatetimeIndex]:
        """Return the model's input for a forecast that starts at row `stop` of `series`, and the dates of the forecast.

        `stop` is at least `context_length`; None: the end of `series`.
        """
        end = len(series.frame) if stop is None else stop
        rows = slice(end - self.context_length, end)
        context = series.frame[self.columns].iloc[rows]
        past = self.clock.to_training_clock(pd.DatetimeIndex(context.index))
        ahead = future_index(past, self.frequency, self.horizon)  # calendar features follow the clock of training
        known = torch.from_numpy(calendar_features(pd.DatetimeIndex(past.append(ahead)), self.cycles))
        zone = pd.DatetimeIndex(context.index).tz
        dates = ahead if zone is None else ahead.tz_convert(zone)
        observed = series.observed_of(self.columns) if self.policies.masks_past else None
        window = Context(
            past=torch.tensor(context.to_numpy(np.float64))[None],
            past_known=known[None, : self.context_length],
            future_known=known[None, self.context_length :],
            past_observed=None if observed is None else torch.tensor(observed[rows])[None],
        )
        return window, dates

    def _checked(self, frame: pd.DataFrame, source: str) -> Series:
        expected = Expected(
            targets=self.targets,
            past_covariates=self.past_covariates,
            time_column=self.time_column,
            frequency=self.frequency,
            policies=self.policies,
            context_length=self.context_length,
            shown=self.shown,
            merges_series=self.merges_series,
            time_format=self.time_format,
        )
        series = expected.check(frame, source)
        index = pd.DatetimeIndex(series.frame.index)
        self.clock.check(index, source)
        self.scaler.check_range(series.frame[self.columns].to_numpy(np.float64), index, source)
        return series

    def _table(self, data: object) -> pd.DataFrame:
        """Return `data` as a DataFrame; a Series becomes the only column of the model."""
        if isinstance(data, pd.DataFrame):
            return data
        fits = isinstance(data, pd.Series) and len(self.columns) == 1 and data.name in (None, *self.columns)
        if not fits:
            needed = ", ".join(map(repr, self.columns))
            name = f" {data.name!r}" if isinstance(data, pd.Series) else ""
            kind = type(data).__name__
            raise InputError(f"predict takes a DataFrame with the columns {needed}: this is a {kind}{name}")
        assert isinstance(data, pd.Series)
        return data.to_frame(self.columns[0])


def _transplanted(run: Run, attention: str) -> Informer:
    from forecast.predict.transplanted import attention_named, transplant

    return transplant(run, attention_named(attention))


def load(path: str | os.PathLike[str]) -> Forecaster:
    """Load a trained model for forecasting.

    Parameters
    ----------
    path
        Folder of a finished run; "latest" for the finished run under outputs/ that started last; or an .onnx or .pt2
        file written by `python -m forecast.export`.

    Returns
    -------
    Forecaster
        The model. Its `path` is the folder or file that was loaded.

    Raises
    ------
    InputError
        If there is no finished run or exported model at `path`, or it is damaged.
    """
    if str(path) == "latest":
        return Forecaster.load("latest")
    place = Path(path)
    return Forecaster.load_exported(place) if place.suffix in FORMATS and not place.is_dir() else Forecaster.load(place)
