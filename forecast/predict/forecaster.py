"""A trained run, ready to forecast a table: no trainer, no Lightning."""

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
from forecast.model.informer import Informer
from forecast.model.original_units import Context, OriginalUnits
from forecast.model.presets import Sizes
from forecast.predict.exported import FORMATS, open_exported
from forecast.predict.input import Expected
from forecast.runs.run import CHANGED, DAMAGE, MANIFEST, Architecture, Run

Model = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Maps the parts of a `Context` to the forecast (B, h, C_out), float64, original units."""


@dataclass(frozen=True)
class Forecaster:
    """A trained model with the facts of its training: roles, scaler, calendar, frequency, repairs.

    `path` is the folder or the file that it was loaded from.
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

    @classmethod
    def load(cls, path: str | os.PathLike[str], attention: str | None = None) -> "Forecaster":
        """Return the forecaster of the finished run at `path`, its weights under another `attention` if one is given.

        Raises
        ------
        InputError
            If `path` is no finished run, or a damaged one, or its weights do not go with `attention`.
        """
        run = Run.open(path)
        network = run.load_model() if attention is None else _transplanted(run, attention)

        def model(scaler: Scaler) -> Model:
            return OriginalUnits(network, torch.tensor(scaler.mean), torch.tensor(scaler.scale)).eval()

        return cls._of(run.manifest(), model, run.path / MANIFEST)

    @classmethod
    def load_exported(cls, path: Path, run: str | os.PathLike[str] | None = None) -> "Forecaster":
        """Return the forecaster of a file that `forecast.export` wrote.

        Raises
        ------
        InputError
            If it is no such file, a package that opens it is missing, or it was not made from `run`.
        """
        exported = open_exported(path)
        if run is not None:
            exported.check_made_from(Run.open(run))
        return cls._of(exported.facts, lambda _: exported, path)

    @classmethod
    def _of(cls, manifest: dict[str, Any], model: Callable[[Scaler], Model], where: Path) -> "Forecaster":
        """Return the forecaster that a manifest describes; `where` names it in messages."""
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
            )
            forecaster._check(sizes)
        except DAMAGE as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            reason = f"it has no {reason}" if isinstance(error, KeyError) else reason
            raise InputError(f"{where}: does not fit the model ({reason}): {CHANGED}") from None
        return forecaster

    def _check(self, sizes: Sizes) -> None:
        """Refuse invalid entries of a manifest changed by hand."""
        for key in ("targets", "past_covariates", "cycles"):
            if not isinstance(getattr(self, key), list):
                raise ValueError(f"{key} is no list")
        names = [*self.columns, *self.cycles, self.time_column, self.frequency]
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise ValueError(f"{wrong[0]!r} is no name")
        if steering := [name for name in names if not is_plain(name)]:
            raise ValueError(f"{steering[0]!r} has control characters")
        if list(self.scaler.columns) != self.columns:
            raise ValueError("the scaler is of other columns")
        mean, scale = self.scaler.mean, self.scaler.scale
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("the scaler is not finite, or not above 0")
        known = calendar_features(future_index(pd.Timestamp(0), self.frequency, 1), self.cycles).shape[1]
        of_data = (len(self.targets), len(self.past_covariates), known)
        if of_data != (sizes.num_targets, sizes.num_past_covariates, sizes.num_known):
            raise ValueError(f"targets, past covariates and known inputs are {of_data}")

    @property
    def columns(self) -> list[str]:
        """The columns that an input must have, in the model's order."""
        return [*self.targets, *self.past_covariates]

    @property
    def target_scale(self) -> Tensor:
        """The standard deviation of each target's training part, shape (C_out,), float64, original units."""
        return torch.tensor(self.scaler.scale[: len(self.targets)])

    def read(self, path: str | os.PathLike[str]) -> Series:
        """Read and check a CSV or Parquet file with the columns and at the frequency of training."""
        return self._checked(read_table(Path(path)), str(path))

    def predict(self, frame: pd.DataFrame | pd.Series | Series) -> pd.DataFrame:
        """Forecast what follows `frame`.

        Parameters
        ----------
        frame
            At least `context_length` rows up to the forecast's origin, in original units, with the
            columns of training (others are not looked at) and the time as index or column. A pandas Series will
            do for a model of one column.

        Returns
        -------
        pandas.DataFrame
            `horizon` rows in original units, a column a target; the index continues the input's.

        Raises
        ------
        InputError
            If the table is flawed, too short, out of training's range, or not of its columns or frequency.
        NotFiniteError
            If the forecast is not finite.
        """
        series = frame if isinstance(frame, Series) else self._checked(self._table(frame), "the frame")
        context, dates = self.context(series)
        with torch.inference_mode():
            values = self.model(*context)[0].numpy()
        check_forecast(values, dates, self.targets)
        return pd.DataFrame(values, index=dates.rename(self.time_column), columns=self.targets)

    def context(self, series: Series, stop: int | None = None) -> tuple[Context, pd.DatetimeIndex]:
        """Return the model's input for a forecast from row `stop` of `series` on, and the dates of the forecast.

        `stop` is at least `context_length`; None is the end.
        """
        end = len(series.frame) if stop is None else stop
        rows = slice(end - self.context_length, end)
        context = series.frame[self.columns].iloc[rows]
        past = self.clock.to_training_clock(pd.DatetimeIndex(context.index))
        ahead = future_index(past, self.frequency, self.horizon)  # days are those of the clock that they are read by
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
        )
        series = expected.check(frame, source)
        index = pd.DatetimeIndex(series.frame.index)
        self.clock.check(index, source)
        self.scaler.check_range(series.frame[self.columns].to_numpy(np.float64), index, source)
        return series

    def _table(self, given: object) -> pd.DataFrame:
        """Return a frame, or a series as the frame of the model's one column."""
        if isinstance(given, pd.DataFrame):
            return given
        fits = isinstance(given, pd.Series) and len(self.columns) == 1 and given.name in (None, *self.columns)
        if not fits:
            needed = ", ".join(map(repr, self.columns))
            name = f" {given.name!r}" if isinstance(given, pd.Series) else ""
            kind = type(given).__name__
            raise InputError(f"predict takes a DataFrame with the columns {needed}: this is a {kind}{name}")
        assert isinstance(given, pd.Series)
        return given.to_frame(self.columns[0])


def _transplanted(run: Run, attention: str) -> Informer:
    from forecast.predict.transplanted import attention_named, transplant

    return transplant(run, attention_named(attention))


def load(path: str | os.PathLike[str]) -> Forecaster:
    """Return the forecaster of the finished run at `path`, or of a file that `forecast.export` wrote.

    "latest" is the finished run under outputs/ that started last; the forecaster's `path` says which.
    """
    if str(path) == "latest":
        return Forecaster.load("latest")
    place = Path(path)
    return Forecaster.load_exported(place) if place.suffix in FORMATS and not place.is_dir() else Forecaster.load(place)
