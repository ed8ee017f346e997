"""The scores of a result: the model, its linear path alone, and the baselines, on every window."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from forecast.common.group import ALONE, Group
from forecast.data.calendar import seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch
from forecast.evaluation.adaptive import Adaptive
from forecast.evaluation.baselines import BASELINES
from forecast.evaluation.evaluate import Forecaster, Row, evaluate, residual_places
from forecast.evaluation.holdout import HeldOut, HeldOutBlock, Residuals, best_power, held_out, split_residuals
from forecast.evaluation.limits import Limits, closed_states
from forecast.evaluation.linear_maps import CrossFit
from forecast.evaluation.metrics import Units, seasonal_error, seasonal_errors
from forecast.evaluation.ridge import Ridge
from forecast.model.informer import Informer


def score(
    network: Informer,
    data: ForecastData,
    ridge: Ridge,
    group: Group = ALONE,
    held_out_blocks: Sequence[HeldOutBlock] | None = None,
    cross_fits: Sequence[CrossFit] = (),
) -> dict[str, Row | None]:
    """Return each forecaster's evaluations on the validation and test splits, in float32, and calibrate its intervals.

    `linear_path` is None if the model has none, `seasonal_naive` if the training split is shorter than a season. The
    processes of `group` share the windows; the leading process has all results. The residuals that calibrate the model
    and its linear path come from windows that did not select their weights, given `held_out_blocks`; without them, from
    all validation windows. The `cross_fits` of a network whose forecast is the start of its linear path add residuals
    of training windows to those of the network and the ridge. The errors of the ridge on training windows choose how
    far intervals follow recent errors.
    """
    power, limits = 0.0, scaled_limits(data)
    if group.leads and data.is_one_series:
        power = best_power(ridge, data.parts["train"], data.evaluation_batch_size, limits)
    if not network.reads_known:
        limits = limits.open()
    scorer = _Scorer(network, data, group, held_out_blocks, group.hand_out(power) if group.size > 1 else power, limits)

    def linear_path(batch: Batch) -> Tensor:
        return network.forward_linear_path(batch.past, batch.past_known, batch.future_known, batch.past_observed)

    quantiles, starts, ridges = (
        [(getattr(fit, name), fit.starts) for fit in cross_fits] for name in ("quantiles", "start", "ridge")
    )
    path = network.linear_path is not None
    rows: dict[str, Row | None] = {
        "model": scorer.row(network_forecaster(network), selected=True, trained=network.levels, parts=quantiles),
        "linear_path": scorer.row(linear_path, selected=True, parts=starts) if path else None,
    }
    for name, baseline in BASELINES.items():
        made = baseline.make(data, ridge)
        own = scorer if made is ridge and ridge.known is not None else replace(scorer, limits=limits.open())
        rows[name] = None if made is None else own.row(made, parts=ridges if made is ridge else ())
    return rows


def network_forecaster(network: Informer) -> Forecaster:
    """Return the function from a batch to the forecast of `network`, all quantiles if it has several."""

    def model(batch: Batch) -> Tensor:
        inputs = batch.past, batch.past_known, batch.future_known, batch.past_observed
        if network.levels:
            return network.forward_quantiles(*inputs)
        forecast: Tensor = network(*inputs)
        return forecast

    return model


@dataclass(frozen=True)
class _Scorer:
    network: Informer
    data: ForecastData
    group: Group
    held_out_blocks: Sequence[HeldOutBlock] | None
    power: float
    limits: Limits

    def row(
        self,
        forecaster: Forecaster,
        *,
        selected: bool = False,
        trained: tuple[float, ...] = (),
        parts: Sequence[tuple[Forecaster, Tensor]] = (),
    ) -> Row:
        """Return the evaluations of a forecaster; validation has `selected` its weights or not.

        `trained` are the levels of a forecaster of quantiles. `parts` are forecasters of parts of the training windows,
        with the first rows of these windows.
        """
        size, group, units = self.data.evaluation_batch_size, self.group, units_of(self.data)
        windows, test = self.data.parts["validation"], self.data.parts["test"]
        limits = self.limits
        validation = evaluate(forecaster, windows, size, keep_residuals=True, group=group, units=units, limits=limits)
        residuals: HeldOut | None = None
        if selected and self.held_out_blocks is not None:
            residuals = held_out(forecaster, self.network, windows, self.held_out_blocks, size, group, limits)
        elif group.leads:
            residuals = split_residuals(validation, windows, selected=selected)
        calibration, adaptive = None, None
        if group.leads:
            assert residuals is not None
            if parts:
                residuals = residuals.after(Residuals.joined([self._training(*part) for part in parts]))
            calibration = residuals.calibration(trained)
            if (adapted := residuals.adapted(self.power)) is not None:
                adaptive = Adaptive(residuals.residuals.typical, self.power, adapted.calibration(trained))
            validation = replace(validation, intervals=(residuals if adapted is None else adapted).scores(trained))
        is_held_out = validation.intervals is not None
        if group.size > 1:
            calibration, adaptive, is_held_out = group.hand_out((calibration, adaptive, is_held_out))
        if is_held_out and not self.data.split.test:  # these windows calibrated the intervals: keep the held-out scores
            scored = validation
        else:
            before = windows if self.data.split.test else None
            scored = evaluate(
                forecaster,
                test,
                size,
                group=group,
                units=units,
                calibration=calibration,
                adaptive=adaptive,
                before=before,
                limits=limits,
            )
        row = Row(validation, scored, calibration, adaptive)
        return (
            row
            if residuals is None
            else replace(
                row,
                calibrated_by=residuals.method,
                calibration_windows=residuals.num_windows,
                training_windows=residuals.num_training,
            )
        )

    def _training(self, forecaster: Forecaster, starts: Tensor) -> Residuals:
        """Return the residuals of the training windows with these first rows."""
        train = self.data.parts["train"]
        windows = replace(train, starts=starts.to(train.starts.device))
        kept = residual_places(len(windows), windows.horizon, windows.num_targets).numpy()
        size, limits = self.data.evaluation_batch_size, self.limits
        return Residuals.of(evaluate(forecaster, windows, size, keep_residuals=True, limits=limits), kept, windows)


def limits_of_data(data: ForecastData, *, reads_known: bool = True) -> Limits:
    """Return the limits of the targets in the training rows, original units; `reads_known` adds closed steps."""
    targets, rows = data.source.targets, data.train_rows
    values, observed = data.source.series.frame[targets].to_numpy(np.float64)[rows], None
    if (seen := data.source.series.observed_of(targets, rows)) is not None:
        observed = np.asarray(seen)
    series = data.source.series
    limits = Limits.fit(values, seasonal_period(series.frequency), observed)
    limits = limits.within([series.bounds.of_target(name) for name in targets])
    if not data.source.roles.known or not reads_known or not (limits.lower == 0).all():
        return limits
    known = data.parts["train"].known.cpu().numpy()[rows]
    closed = closed_states(known, values, observed, data.layout.num_calendar)
    past = len(data.layout.past_categories)
    return replace(limits, closed=tuple(state for state in closed if state[0] < data.layout.width - past))


def scaled_limits(data: ForecastData) -> Limits:
    """Return the limits of the targets as z-scores, on the device of the windows."""
    count = len(data.source.targets)
    return limits_of_data(data).scaled(data.scaler.mean[..., :count], data.target_scale, data.parts["test"].device)


def units_of(data: ForecastData) -> Units:
    """Return the units of the targets, with their seasonal error over the training split."""
    targets, rows, series = data.source.targets, data.train_rows, data.source.series
    values, observed = series.frame[targets].to_numpy(np.float64)[rows], series.observed_of(targets, rows)
    period = seasonal_period(series.frequency)
    ids = None if series.ids is None else (series.ids.of_rows[rows], len(series.ids))
    return Units(
        mean=data.scaler.mean[..., : len(targets)],
        scale=data.target_scale,
        seasonal_error=seasonal_error(values, period, observed)
        if ids is None
        else seasonal_errors(values, period, *ids, observed),
    )
