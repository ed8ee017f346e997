"""A trained model, and its input tensors for a checked series."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.data.calendar import earlier_index, future_index
from forecast.data.contract import DataContract
from forecast.data.scaler import Scaler, SeriesScaler
from forecast.data.training_range import TrainingRange
from forecast.evaluation.adaptive import Forms
from forecast.model.informer import Informer
from forecast.model.original_units import Context
from forecast.model.presets import Sizes
from forecast.predict.exported import Exported
from forecast.predict.facts import ModelFacts, calibration_of_text, check_manifest, forms_of_run
from forecast.predict.forecast import Question
from forecast.predict.known import gather_known, with_unread
from forecast.predict.shown import Shown
from forecast.runs.run import CHANGED, DAMAGE, MANIFEST, RESULT, TIME_BUDGET, Architecture, Run
from forecast.tables.labels import decode_labels
from forecast.tables.repair import Policies
from forecast.tables.series import Ahead, Series

Model = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Maps the fields of a `Context` to the forecast (B, h, C_out), float64, original units; for a panel both are z-scores.

A model of quantiles gives all of them, (B, h, C_out, K).
"""


def is_of_panel(run: Path) -> bool:
    """Return whether a run folder has a model of many series."""
    return has_ids(Run(run).manifest())


def has_ids(manifest: Mapping[str, Any]) -> bool:
    """Return whether a manifest describes a model of many series."""
    data = manifest.get("data")
    return isinstance(data, dict) and bool(data.get("id_columns"))


@dataclass(frozen=True, repr=False)
class TrainedModel(Shown):
    """A model, the contract on the tables that it forecasts, and what its run says about it."""

    model: Model = field(repr=False)
    contract: DataContract
    facts: ModelFacts = field(repr=False)

    @classmethod
    def of_manifest(
        cls,
        manifest: dict[str, Any],
        model: Callable[[Scaler | SeriesScaler], Model],
        where: Path,
        forms: Callable[[Sizes], Forms],
        attention: str | None = None,
    ) -> Self:
        """Return the trained model that a manifest describes; `where` names it in messages.

        `forms` reads the interval forms for a model of these sizes. `attention` replaces that of training.
        """
        try:
            sizes = Architecture.from_dict(manifest["architecture"]).sizes
            contract = DataContract.from_dict(manifest, sizes.context_length, sizes.horizon)
            path = where.parent if where.name == MANIFEST else where
            facts = ModelFacts.of(manifest, sizes.num_targets, lambda: forms(sizes), path)
            check_manifest(contract, sizes, facts.training_range)
            return cls(model(contract.scaler), contract, replace(facts, attention=attention))
        except DAMAGE as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            reason = f"it has no {reason}" if isinstance(error, KeyError) else reason
            raise InputError(f"{where}: does not fit the model ({reason}): {CHANGED}") from None

    @classmethod
    def of_run(cls, run: Run, attention: str | None, model: Callable[[Informer, Scaler | SeriesScaler], Model]) -> Self:
        """Return the trained model of a run; `attention` replaces that of training."""
        if attention is None:
            network = run.load_model()
        else:
            from forecast.predict.transplanted import transplanted  # here: it reads the configuration of a mechanism

            network = transplanted(run, attention)
        forms = partial(forms_of_run, run.path, attention=attention)
        return cls.of_manifest(run.manifest(), partial(model, network), run.path / MANIFEST, forms, attention)

    @classmethod
    def of_exported(cls, exported: Exported, path: Path) -> Self:
        """Return the trained model in an opened file, read from `path`."""
        forms = partial(calibration_of_text, exported.calibration, path)
        return cls.of_manifest(exported.facts, lambda _: exported, path, forms)

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json` of the run: scores, speed, and what was trained on.

        A training with `time_budget` adds `time_budget`: how the time was spent.
        """
        result = self._content(RESULT)
        spent = read_json(self.path / TIME_BUDGET)
        return result if spent is None else {**result, "time_budget": spent}

    @property
    def targets(self) -> list[str]:
        return self.contract.targets

    @property
    def past_covariates(self) -> list[str]:
        return self.contract.roles.past

    @property
    def known_covariates(self) -> list[str]:
        return self.contract.known

    @property
    def unread(self) -> list[str]:
        return self.contract.unread

    @property
    def time_column(self) -> str:
        return self.contract.time_column

    @property
    def frequency(self) -> str:
        return self.contract.frequency

    @property
    def policies(self) -> Policies:
        return self.contract.policies

    @property
    def scaler(self) -> Scaler | SeriesScaler:
        return self.contract.scaler

    @property
    def context_length(self) -> int:
        return self.contract.context_length

    @property
    def horizon(self) -> int:
        return self.contract.horizon

    @property
    def path(self) -> Path:
        return self.facts.path

    @property
    def attention(self) -> str | None:
        return self.facts.attention

    @property
    def least_context(self) -> int:
        """Fewest rows of a series."""
        return self.contract.least_context or self.context_length

    @property
    def unlimited(self) -> Self:
        """The same model, which reads all rows of a table although training read its last ones."""
        reading = replace(self.contract.reading, last_rows=None)
        return replace(self, contract=replace(self.contract, reading=reading))

    @property
    def columns(self) -> list[str]:
        """Columns that an input must have."""
        return self.contract.columns

    @property
    def channels(self) -> list[str]:
        """Columns whose past values the model reads as numbers, in its order, the targets first."""
        return self.contract.channels

    @property
    def batch(self) -> int | None:
        """Number of windows per call of the model; None: any."""
        return self.model.batch if isinstance(self.model, Exported) else None

    @property
    def hides_steps(self) -> bool:
        """Whether steps of a look-back may be hidden from the model, since they have no value."""
        return self.policies.masks_past or self.least_context < self.context_length

    def outputs(self, windows: Context) -> Tensor:
        """Return the output of the model for windows, one at a time if it was exported so."""
        if self.batch is None:
            return self.model(*windows)
        return torch.cat([self.model(*windows.rows(slice(row, row + 1))) for row in range(len(windows.past))])

    @property
    def target_scale(self) -> Tensor:
        """Standard deviation of each target on the training split, shape (C_out,), float64, original units."""
        return torch.tensor(self.scaler.scale[: len(self.targets)])

    @property
    def decimals(self) -> dict[str, int]:
        """Decimals of the forecast of each target; see `Scaler.decimals`."""
        return self.scaler.decimals(self.targets)

    @property
    def whole(self) -> list[str]:
        """Targets whose forecasts are whole numbers."""
        return self.contract.whole

    def check_question(self, question: Question) -> None:
        """Raise InputError if the model cannot answer a question, before any forecast is computed."""
        if not question.is_plain:
            self.forms.plain.check_intervals(question.levels)
            self.forms.plain.check(question.quantiles)

    @cached_property
    def forms(self) -> Forms:
        """The interval forms of the model; raise InputError if it has none."""
        return self.facts.read_calibration()

    def context(
        self, series: Series, stop: int | None = None, *, beyond_training: bool = True
    ) -> tuple[Context, pd.DatetimeIndex]:
        """Return the model's input for a forecast that starts at row `stop` of `series`, and the dates of the forecast.

        `stop` is at least `context_length`; None: the end of `series`. The steps before the first row of a shorter
        series are masked; their known covariates repeat the first row. Known covariates far from training are refused
        unless `beyond_training`.
        """
        end = len(series.frame) if stop is None else stop
        places = np.arange(end - self.context_length, end)
        context = series.frame.iloc[places.clip(min=0)]
        if not beyond_training:
            self.known_range.refuse_far(context, "the input")
        absent = int((places < 0).sum())
        past = self.contract.clock.to_training_clock(pd.DatetimeIndex(context.index[absent:]))
        if absent:
            past = pd.DatetimeIndex(earlier_index(past, self.frequency, absent).append(past))
        ahead, dates = self._horizon(past, pd.DatetimeIndex(context.index))
        past_known = self.contract.known_inputs(past, context, series.labels)
        observed = self._observed(series, places)
        window = Context(
            past=torch.tensor(context[self.channels].to_numpy(np.float64))[None],
            past_known=torch.from_numpy(past_known)[None],
            future_known=torch.from_numpy(self._future_known(series, end, ahead, dates, beyond_training))[None],
            past_observed=None if observed is None else torch.tensor(observed)[None],
        )
        return window, dates

    def _horizon(self, past: pd.DatetimeIndex, rows: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
        """Return the times of the steps after `past`, on the clock of training, and their dates in the zone of `rows`.

        Calendar features follow the clock of training.
        """
        ahead = future_index(past, self.frequency, self.horizon)
        dates = ahead if rows.tz is None else ahead.tz_convert(rows.tz)
        return ahead, dates.rename(self.time_column)

    @cached_property
    def known_range(self) -> TrainingRange:
        """The limits of the known numbers in training."""
        read = [name for name in self.contract.encoder.numbers if name not in self.contract.unread]
        return self.facts.training_range.of(read)

    def known_ahead(self, series: Series) -> pd.DataFrame:
        """Return the known covariates of the steps after a checked series, shape (h, K), labels as text."""
        rows = pd.DatetimeIndex(series.frame.index[-self.context_length :])
        times, dates = self._horizon(self.contract.clock.to_training_clock(rows), rows)
        return self._gathered(series, len(series.frame), times, dates, beyond_training=True)

    def earlier(self, series: Series, origins: np.ndarray, future_known: Tensor | None = None) -> Context:
        """Return the model's input for forecasts that start at the rows `origins` (B,) of `series`, in one batch.

        Each has a complete look-back. `future_known` (1, h, F) are the known inputs after the last row, which the
        newest of them read; None: all horizons end within the series.
        """
        first = int(origins.min()) - self.context_length
        end = len(series.frame) if future_known is not None else int(origins.max()) + self.horizon
        rows = series.frame.iloc[first:end]
        times = self.contract.clock.to_training_clock(pd.DatetimeIndex(rows.index))
        known = torch.from_numpy(self.contract.known_inputs(times, rows, series.labels))
        layout = self.contract.encoder.layout(0)  # only the number of past categories counts here
        ahead = layout.future(known)
        if future_known is not None:
            ahead = torch.cat([ahead, future_known[0]])
        places = torch.from_numpy(origins - first)[:, None]
        past = places + torch.arange(-self.context_length, 0)
        values = torch.tensor(rows[self.channels].to_numpy(np.float64))
        observed = series.observed_of(self.channels) if self.contract.policies.masks_past else None
        return Context(
            past=values[past],
            past_known=known[past],
            future_known=ahead[places + torch.arange(self.horizon)],
            past_observed=None if observed is None else torch.tensor(np.asarray(observed[first:end]))[past],
        )

    def _observed(self, series: Series, places: np.ndarray) -> np.ndarray | None:
        """Return which values of the rows at `places` were measured, (T, C_in); None without a mask, or if all were.

        A negative place is before the first row.
        """
        observed = series.observed_of(self.channels) if self.contract.policies.masks_past else None
        if observed is None:
            before = np.repeat(places[:, None] >= 0, len(self.channels), 1)
            return None if before.all() else before
        return np.asarray(observed[places.clip(min=0)] & (places >= 0)[:, None])

    def _future_known(
        self, series: Series, end: int, times: pd.DatetimeIndex, dates: pd.DatetimeIndex, beyond_training: bool
    ) -> np.ndarray:
        """Return the known inputs (h, F) of the steps from row `end` of `series` on."""
        future, labels = self._gathered(series, end, times, dates, beyond_training), {}
        future = with_unread(future, self.contract.encoder, self.contract.unread)
        for name in self.contract.encoder.categorical:
            if name in self.contract.encoder.past_categories:  # a past covariate has no future
                future[name], labels[name] = np.nan, ()
                continue
            codes, values = pd.factorize(future[name])
            future[name], labels[name] = codes.astype(np.float64), tuple(values)
        return self.contract.known_inputs(times, future, labels)

    def _gathered(
        self, series: Series, end: int, times: pd.DatetimeIndex, dates: pd.DatetimeIndex, beyond_training: bool
    ) -> pd.DataFrame:
        """Return the known covariates of the steps from row `end` of `series` on, labels as text."""
        if not self.contract.known:
            return pd.DataFrame(index=times)
        tables = series.ahead
        if end < len(series.frame):
            rows = decode_labels(series.frame[self.contract.known].iloc[end : end + self.horizon], series.labels)
            tables = (Ahead(rows, np.arange(end, end + len(rows)) + 2, "the table"), *tables)
        empty = [name for name in self.contract.encoder.empty_labels if name in self.contract.known]
        check = self.contract.encoder.check_range if beyond_training else self._check_near
        return gather_known(tables, self.contract.known, times, dates, self.contract.clock, check, empty)

    def _check_near(self, known: pd.DataFrame, source: str) -> None:
        """Raise InputError for known numbers far from training."""
        self.contract.encoder.check_range(known, source)
        self.known_range.refuse_far(known, source)
