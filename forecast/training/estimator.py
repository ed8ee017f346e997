"""`forecast.Estimator`: a forecast in the manners of scikit-learn, for its searches and pipelines."""

import os
import tempfile
from pathlib import Path
from typing import Any, Self

import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast.common.errors import InputError
from forecast.data.calendar import future_index
from forecast.predict.ensemble import Ensemble, load
from forecast.predict.forecaster import Forecaster
from forecast.predict.panel import PanelForecaster
from forecast.tables.formats.frames import as_frame
from forecast.training.from_python import fit


class Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Forecasts a table as an estimator of scikit-learn: `clone`, `set_params` and searches work.

    Parameters
    ----------
    horizon, context_length, attention, loss, seed
        Options of `forecast.fit`.
    targets, past_covariates, known_covariates
        Roles of the columns, as for `forecast.fit`; None: all columns are targets.
    training
        Options of the training, such as `{"max_steps": 500}`.
    options
        Further options of `forecast.fit` by their names.
    time_budget
        As for `forecast.fit`.
    folder
        Folder below which each call of `fit` makes its run folder; None: a temporary one, which is removed with the
        estimator.

    Attributes
    ----------
    folder_
        The run folder. A pickled estimator holds this path and no weights.
    result_
        The scores of the training.
    n_features_in_, feature_names_in_
        Number and names of the columns of the fitted table.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
    >>> choices = {"attention": ["full", "probsparse"]}
    >>> search = GridSearchCV(Estimator(horizon=24), choices, cv=TimeSeriesSplit(3))
    >>> search.fit(frame).best_params_  # doctest: +SKIP
    """

    def __init__(
        self,
        horizon: int | None = None,
        *,
        context_length: int | None = None,
        attention: str = "full",
        loss: str = "mae",
        seed: int = 1,
        targets: list[str] | None = None,
        past_covariates: list[str] | None = None,
        known_covariates: list[str] | None = None,
        training: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        time_budget: str | float | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.horizon = horizon
        self.context_length = context_length
        self.attention = attention
        self.loss = loss
        self.seed = seed
        self.targets = targets
        self.past_covariates = past_covariates
        self.known_covariates = known_covariates
        self.training = training
        self.options = options
        self.time_budget = time_budget
        self.folder = folder

    def fit(self, X: Any, y: None = None) -> Self:
        """Train on a table, and return the estimator; `y` is ignored, since the targets are columns of `X`."""
        table = as_frame(X)
        named = ("context_length", "attention", "loss", "seed", "targets", "past_covariates", "known_covariates")
        given = {name: getattr(self, name) for name in (*named, "training")}
        options = {name: value for name, value in given.items() if value is not None} | (self.options or {})
        if options.get("id_columns"):
            raise InputError("id_columns: an estimator forecasts one series: use forecast.fit for a long table")
        place = None
        if self.folder is not None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            place = tempfile.mkdtemp(prefix="run-", dir=self.folder)
        model = fit(table, self.horizon, time_budget=self.time_budget, folder=place, **options)
        assert not isinstance(model, PanelForecaster)
        self._model = model
        self.folder_ = str(model.path)
        self.result_ = model.result
        self.n_features_in_, self.feature_names_in_ = table.shape[1], table.columns.to_numpy(object)
        self.last_rows_ = table.iloc[-2 * _longest(model).context_length :]  # twice, since rows may be absent
        return self

    @property
    def model_(self) -> Forecaster | Ensemble:
        """The trained model, as `forecast.load` returns it; it is read again after unpickling."""
        check_is_fitted(self, "folder_")
        if getattr(self, "_model", None) is None:
            if not Path(self.folder_).is_dir():
                raise InputError(f"{self.folder_}: the temporary run folder is gone: set folder= before fit")
            model = load(self.folder_)
            assert not isinstance(model, PanelForecaster)
            self._model = model
        return self._model

    def predict(self, X: Any = None) -> pd.DataFrame:
        """Return the forecast of the steps after `X`; None: after the fitted table.

        A table that continues the fitted one gets its look-back from it, and another one needs a look-back of its own.
        """
        model = self.model_
        if X is None:
            return model.predict(self.last_rows_)
        table = as_frame(X, "X")
        return model.predict(self._continued(table) if self._expected()[1] == self._start(table) else table)

    def score(self, X: Any, y: None = None) -> float:
        """Return minus the MSE of z-scores over every window of `X`, so that larger is better.

        The look-back of the first windows comes from the fitted table.

        Raises
        ------
        InputError
            If `X` does not begin one step after the fitted table.
        """
        table = as_frame(X, "X")
        last, expected = self._expected()
        start = self._start(table)
        if start != expected:
            raise InputError(f"X begins at {start}, the fitted table ends at {last}: give the rows from {expected} on")
        scores = self.model_.score(self._continued(table), start=start)
        return -float(scores["mse"].to_numpy()[0])  # the model is the first row

    def _continued(self, table: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([self.last_rows_, table], ignore_index=True)

    def _expected(self) -> tuple[pd.Timestamp, pd.Timestamp]:
        """Return the last time of the fitted table, and the time of the step after it."""
        model = _longest(self.model_)
        index = pd.DatetimeIndex(model.series_of(self.last_rows_, None).frame.index)
        return index[-1], future_index(index, model.frequency, 1)[0]

    def _start(self, table: pd.DataFrame) -> pd.Timestamp:
        """Return the first time of a table."""
        column = self.model_.time_column
        if column not in table.columns or not len(table):
            raise InputError(f"X has no row with the column {column!r} of the fitted table: add it")
        return pd.Timestamp(pd.to_datetime(table[column]).min())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the model."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_model"}


def _longest(model: Forecaster | Ensemble) -> Forecaster:
    """Return the model, or the one of an ensemble that needs the most rows."""
    members = model.members if isinstance(model, Ensemble) else [model]
    return max(members, key=lambda member: member.context_length)
