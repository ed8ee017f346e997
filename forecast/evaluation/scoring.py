"""The scores of a result: the model, its linear path alone, and the baselines, on every window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from forecast.common.group import ALONE, Group
from forecast.data.calendar import seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch, Windows
from forecast.evaluation.adaptive import Adaptive
from forecast.evaluation.baselines import BASELINES, REQUESTED, SeasonalNaive
from forecast.evaluation.evaluate import Forecaster, Row, evaluate
from forecast.evaluation.holdout import HeldOut, HeldOutBlock, Residuals, best_power, held_out, split_residuals
from forecast.evaluation.intervals import middle
from forecast.evaluation.limits import Limits, closed_states
from forecast.evaluation.linear_maps import CrossFit
from forecast.evaluation.metrics import Units, seasonal_error, seasonal_errors
from forecast.evaluation.ridge import Ridge
from forecast.evaluation.trees import Trees
from forecast.model.informer import Informer


def score(
    network: Informer,
    data: ForecastData,
    ridge: Ridge,
    group: Group = ALONE,
    held_out_blocks: Sequence[HeldOutBlock] | None = None,
    cross_fits: Sequence[CrossFit] = (),
    requested: Sequence[str] = (),
) -> dict[str, Row | None]:
    """Return each forecaster's evaluations on the validation and test splits, in float32, and calibrate its intervals.

    `linear_path` is None if the model has none, `seasonal_naive` if the training split is shorter than a season. The
    processes of `group` share the windows; the leading process has all results. The residuals that calibrate the model
    and its linear path come from windows that did not select their weights, given `held_out_blocks`; without them, from
    all validation windows. The `cross_fits` of a network whose forecast is the start of its linear path add residuals
    of training windows to those of the network and the ridge. The errors of the ridge on training windows choose how
    far intervals follow recent errors. `requested` are keys of `REQUESTED`, and get a row each.
    """
    power, limits = 0.0, scaled_limits(data)
    if group.leads and data.is_one_series:
        power = best_power(ridge, data.parts["train"], data.evaluation_batch_size, limits)
    if not network.reads_known:
        limits = limits.open()
    power = group.hand_out(power) if group.size > 1 else power
    scorer = _Scorer(network, data, group, held_out_blocks, power, limits, units_of(data), data.parts)

    def linear_path(batch: Batch) -> Tensor:
        return network.forward_linear_path(batch.past, batch.past_known, batch.future_known, batch.past_observed)

    quantiles, starts, ridges = (
        [(getattr(fit, name), fit.starts) for fit in cross_fits] for name in ("quantiles", "start", "ridge")
    )
    path = network.linear_path is not None
    rows: dict[str, Row | None] = {
        "model": scorer.row(
            network_forecaster(network), selected=True, trained=network.levels, parts=quantiles, timed=True
        ),
        "linear_path": scorer.row(linear_path, selected=True, parts=starts) if path else None,
    }
    for name, baseline in BASELINES.items():
        made = baseline.make(data, ridge)
        own = scorer if made is ridge and ridge.known is not None else replace(scorer, limits=limits.open())
        rows[name] = None if made is None else own.row(made, parts=ridges if made is ridge else ())
    for name in requested:
        rows[name] = scorer.requested(name)
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
    units: Units
    windows: Mapping[str, Windows]

    def row(
        self,
        forecaster: Forecaster,
        *,
        selected: bool = False,
        trained: tuple[float, ...] = (),
        parts: Sequence[tuple[Forecaster, Tensor]] = (),
        timed: bool = False,
    ) -> Row:
        """Return the evaluations of a forecaster; validation has `selected` its weights or not.

        `trained` are the levels of a forecaster of quantiles. `parts` are forecasters of parts of the training windows,
        with the first rows of these windows. With `timed` a single batch has a throughput.
        """
        size, group, units = self.data.evaluation_batch_size, self.group, self.units
        windows, test = self.windows["validation"], self.windows["test"]
        limits = self.limits
        validation = evaluate(
            forecaster, windows, size, keep_residuals=True, group=group, units=units, limits=limits, timed=timed
        )
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
            adaptive, adapted = self._adapted(residuals, trained)
            validation = replace(validation, intervals=adapted.scores(trained))
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
                timed=timed,
            )
        if not timed:  # the board draws those of the model
            validation = replace(validation, residuals=None, spread=None, held=None)
        row = Row(validation, scored, calibration, adaptive)
        if residuals is None:
            return row
        method, count, training = residuals.method, residuals.num_windows, residuals.num_training
        return replace(row, calibrated_by=method, calibration_windows=count, training_windows=training)

    def _adapted(self, residuals: HeldOut, trained: tuple[float, ...]) -> tuple[Adaptive | None, HeldOut]:
        """Return the form of the intervals that follows past errors or the series, and its residuals; None: neither."""
        adapted, ids = residuals.adapted(self.power), self.data.source.series.ids
        if adapted is not None:
            return Adaptive(residuals.residuals.typical, self.power, adapted.calibration(trained)), adapted
        form = None if ids is None else residuals.by_series(len(ids), trained)
        return (None, residuals) if form is None else form

    def requested(self, name: str) -> Row:
        """Return the row of a baseline on request, with the scores of its mean with the model on the same windows.

        Where it forecasts fewer windows than a split has, it also has the scores of two other rows on these windows.
        """
        baseline, group, levels = REQUESTED[name], self.group, self.network.levels
        made = baseline.make(self.data, levels) if group.leads else None
        made = group.hand_out(made) if group.size > 1 else made
        assert made is not None
        parts = {part: _at_most(windows, baseline.most(windows)) for part, windows in self.data.parts.items()}
        limits = self.limits if isinstance(made, Trees) else self.limits.open()
        own = replace(self, windows=parts, limits=limits)
        model = network_forecaster(self.network)
        others = {"mean_with_model": lambda batch: (middle(model(batch)) + middle(made(batch))) / 2}
        is_partial = any(len(parts[part]) < len(self.data.parts[part]) for part in ("validation", "test"))
        if is_partial:
            others |= {"model_there": model}
            if (naive := SeasonalNaive.of(self.data)) is not None:
                others |= {"seasonal_naive_there": naive}
        more: dict[str, dict[str, Any]] = {"fit": made.facts} if isinstance(made, Trees) else {}
        size = self.data.evaluation_batch_size
        for part in ("validation", "test"):
            more[part] = {
                key: {"scaled": evaluate(each, parts[part], size, group=group, limits=limits).sums.scaled()}
                for key, each in others.items()
            }
        if is_partial:
            more["windows"] = {part: len(parts[part]) for part in ("validation", "test")}
        row = own.row(made, trained=levels if isinstance(made, Trees) else ())
        return replace(row, more=more)

    def _training(self, forecaster: Forecaster, starts: Tensor) -> Residuals:
        """Return the residuals of the training windows with these first rows."""
        train = self.data.parts["train"]
        windows = replace(train, starts=starts.to(train.starts.device))
        size, limits = self.data.evaluation_batch_size, self.limits
        return Residuals.of(evaluate(forecaster, windows, size, keep_residuals=True, limits=limits), windows)


def _at_most(windows: Windows, most: int) -> Windows:
    """Return the windows, or at most this number of them, spread evenly."""
    return windows if len(windows) <= most else windows.thinned(-(-len(windows) // most))


def limits_of_data(data: ForecastData, *, reads_known: bool = True) -> Limits:
    """Return the limits of the targets in the training rows, original units; `reads_known` adds closed steps."""
    targets, rows = data.source.targets, data.train_rows
    series = data.source.series
    values, observed = data.training_values(targets), series.observed_of(targets, rows)
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
    values, observed = data.training_values(targets), series.observed_of(targets, rows)
    period = seasonal_period(series.frequency)
    ids = None if series.ids is None else (series.ids.of_rows[rows], len(series.ids))
    return Units(
        mean=data.scaler.mean[..., : len(targets)],
        scale=data.target_scale,
        seasonal_error=seasonal_error(values, period, observed)
        if ids is None
        else seasonal_errors(values, period, *ids, observed),
    )
