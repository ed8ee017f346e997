"""The scores of a result: the model, its linear path alone, and the baselines, on every window."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from forecast.common.group import ALONE, Group
from forecast.data.calendar import seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch, Windows
from forecast.evaluation.evaluate import Forecaster, Row, evaluate
from forecast.evaluation.metrics import Units, seasonal_error
from forecast.evaluation.ridge import Ridge
from forecast.model.informer import Informer


def last_value(batch: Batch) -> Tensor:
    """Forecast the last target value of the context for every step, shape (B, h, C_out)."""
    return batch.past[:, -1:, : batch.future.shape[2]].expand_as(batch.future)


@dataclass(frozen=True)
class SeasonalNaive:
    """The seasonal naive forecast: the newest value before the origin at the same phase of a season of `period` steps.

    It reads the table of `windows` before each origin, possibly before the context, and never after the origin.
    """

    windows: Windows
    period: int

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        step = torch.arange(self.windows.horizon, device=batch.origin.device)
        back = step % self.period - self.period  # in the season that ends at the origin
        rows = batch.origin[:, None] + back  # (B, h)
        return self.windows.values_at(rows)[..., : self.windows.num_targets]


def score(network: Informer, data: ForecastData, ridge: Ridge, group: Group = ALONE) -> dict[str, Row | None]:
    """Return each forecaster's evaluations on the validation and test splits, in float32.

    `linear_path` is None if the model has none, `seasonal_naive` if the training split is shorter than a season. The
    processes of `group` share the windows; the leading process has all results.
    """
    period = seasonal_period(data.source.series.frequency)
    units = units_of(data)

    def row(forecaster: Forecaster, *, keep_residuals: bool = False) -> Row:
        size, validation, test = data.evaluation_batch_size, data.parts["validation"], data.parts["test"]
        return Row(
            validation=evaluate(forecaster, validation, size, keep_residuals=keep_residuals, group=group, units=units),
            test=evaluate(forecaster, test, size, group=group, units=units),
        )

    def model(batch: Batch):  # type: ignore[no-untyped-def]
        return network(batch.past, batch.past_known, batch.future_known, batch.past_observed)

    def linear_path(batch: Batch) -> Tensor:
        return network.forward_linear_path(batch.past, batch.past_known, batch.future_known, batch.past_observed)

    naive = SeasonalNaive(data.parts["test"], period) if period <= len(data.split.train) else None
    return {
        "model": row(model, keep_residuals=True),
        "linear_path": row(linear_path) if network.linear_path is not None else None,
        "last_value": row(last_value),
        "seasonal_naive": row(naive) if naive is not None else None,
        "linear": row(ridge),
    }


def units_of(data: ForecastData) -> Units:
    """Return the units of the targets, with their seasonal error over the training split."""
    targets, rows = data.source.targets, slice(data.split.train.start, data.split.train.stop)
    values = data.source.series.frame[targets].to_numpy(np.float64)[rows]
    observed = data.source.series.observed_of(targets)
    period = seasonal_period(data.source.series.frequency)
    return Units(
        mean=data.scaler.mean[: len(targets)],
        scale=data.target_scale,
        seasonal_error=seasonal_error(values, period, None if observed is None else observed[rows]),
    )
