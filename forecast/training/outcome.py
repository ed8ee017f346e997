"""Results of a finished run: figures for TensorBoard, and the files of the run folder."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from lightning.pytorch.loggers import Logger
from safetensors.torch import save

from forecast.common.errors import InputError
from forecast.common.files import replacing, write_json
from forecast.common.finite import check_forecast
from forecast.common.pictures import Lines, best_median_worst, draw_forecast, draw_sheet, mean_errors
from forecast.common.spreadsheet import write_frame
from forecast.data.calendar import future_index, seasonal_period
from forecast.data.datamodule import ForecastData
from forecast.data.panel import PanelData
from forecast.data.scaler import rounded
from forecast.data.windows import Windows, evenly_spaced
from forecast.evaluation.achievable import achieved
from forecast.evaluation.adaptive import Forms
from forecast.evaluation.evaluate import Row, errors_by_part, limits_of
from forecast.evaluation.interval_scores import LEVELS
from forecast.evaluation.scoring import limits_of_data, scaled_limits
from forecast.model.informer import Informer, flops_per_window
from forecast.predict.known import gather_known
from forecast.runs import results
from forecast.runs.run import CALIBRATION, ERRORS, FORECAST, INPUT, PICTURE, RESULT, SERIES, Run
from forecast.tables.labels import decode_labels
from forecast.tables.times.clock import Clock
from forecast.training.fit import Fit
from forecast.training.prepare import Preparation
from forecast.training.probe.maps import attention_maps, token_names
from forecast.training.tensorboard.figures import (
    draw_calendar_errors,
    draw_reliability,
    draw_step_coverage,
    draw_step_errors,
)
from forecast.training.tensorboard.logger import Board, board_of
from forecast.training.tensorboard.maps import draw_heads, draw_map


def write_outcome(
    run: Run, prepared: Preparation, rows: Mapping[str, Row | None], fit: Fit, *, processes: int
) -> dict[str, Any]:
    """Write all files of a finished run except the manifest, and return the content of `result.json`."""
    data, network, config = prepared.data, prepared.network, prepared.settings.plain
    model = rows["model"]
    assert model is not None
    ridge, start = prepared.linear_maps.baseline, prepared.linear_maps.start
    facts = {
        "command": results.command_line(),
        "config": config,
        "seed": prepared.settings.seed,
        "status": fit.status,
        "device": results.device_name(prepared.device),
        "processes": processes,
        "precision": prepared.settings.training.precision,
        "versions": results.versions(),
        "commit": results.commit(),
        "data": {**_data_facts(data, config), "known_readers": _known_readers(prepared)},
        "model": {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "steps": fit.steps,
            "best_step": fit.best_step,
            "validation_blocks": prepared.validation_blocks,
            "mixing_weight": network.mixing_weight,
            "share_trusted": prepared.task.shrinkage if network.is_weighted else None,
        },
        "linear_fit": {"look_back": ridge.look_back, "penalty": ridge.penalty, "every": ridge.every},
        "linear_path_start": None if start is None else start.name,
        "start_from": None if prepared.start is None else prepared.start.facts,
        "speed": {
            **fit.speed,
            "inference_windows_per_s": model.test.windows_per_s,
            **model.test.load.figures("inference"),
            "flops_per_window": flops_per_window(network, data.parts["test"]),
        },
        "probe": fit.probe,
        "validations": [{"step": step, "seconds": seconds, "mse": mse} for step, seconds, mse in fit.validations],
    }
    ids = data.source.series.ids
    result = results.assemble(rows, targets=data.source.targets, scale=data.target_scale, facts=facts, ids=ids)
    if (reached := achieved(prepared.settings.data, result)) is not None:
        result["diagnostic"] = reached
    with replacing(run.path / ERRORS) as file:
        results.window_errors(model, data.index).to_parquet(file)
    assert model.calibration is not None
    with replacing(run.path / CALIBRATION) as file:
        file.write(save(Forms(model.calibration, model.adaptive).tensors()))
    if ids is None:
        _write_last_forecast(run, config["data"]["name"], network, data)
    else:
        with replacing(run.path / SERIES) as file:
            results.series_scores(model, ids).to_parquet(file)
        assert isinstance(data, PanelData)
        _write_panel_forecast(run, config["data"]["name"], network, data)
    run.save_weights(network)
    write_json(run.path / RESULT, result)
    return result


def _known_readers(prepared: Preparation) -> list[str]:
    """Return the rows of the result that read the known covariates."""
    network, path = prepared.network, prepared.network.linear_path
    reads = {
        "model": network.reads_known,
        "linear_path": path is not None and path.reads_known,
        "linear": prepared.linear_maps.baseline.known is not None,
        "trees": "trees" in prepared.settings.evaluation.baselines,
    }
    return [row for row, is_read in reads.items() if is_read] if prepared.data.source.roles.known else []


def _data_facts(data: ForecastData, config: Mapping[str, Any]) -> dict[str, Any]:
    train, validation, test = (data.parts[name] for name in ("train", "validation", "test"))
    last_targets = validation.starts.cpu().numpy() + validation.context_length + validation.horizon - 1
    ids = data.source.series.ids
    return {
        "name": config["data"]["name"],
        "path": None if data.source.path is None else str(data.source.path),
        "sha256": data.source.sha256,
        "rows": data.source.series.num_rows,
        **({} if ids is None else {"series": len(ids)}),
        "channels": data.source.columns,
        **data.source.roles.named,
        "known_ahead": _has_known_ahead(data) if data.source.roles.known else None,
        "static_covariates": [*data.source.roles.static, *(data.source.roles.fixed or ())],
        "perfect_foresight": data.source.roles.perfect_foresight,
        "holidays": None if data.source.holidays is None else data.source.holidays.to_dict(),
        "frequency": data.source.series.frequency,
        "season": seasonal_period(data.source.series.frequency),
        "cycles": list(data.cycles),
        "first_train_target": str(data.index[int(train.starts[0]) + train.context_length]),
        "last_training_row": str(data.index[data.train_rows].max()),
        "last_seen_row": str(data.index[last_targets].max()),
        "first_test_target": str(data.index[int(test.starts[0]) + test.context_length]),
        "windows": {part: len(windows) for part, windows in data.parts.items()},
        **({} if ids is None else {"origins": {part: _dates(data, own) for part, own in data.parts.items()}}),
        "scored_split": data.split.scored,
        "evaluation_stride": data.stride_of("test"),
        "windows_left_out": data.left_out,
        "placement": data.placement.facts(),
        "policies": data.source.series.policies.facts(),
        "notes": list(data.notes),
        "warnings": data.warnings,
    }


def _dates(data: ForecastData, windows: Windows) -> int:
    """Return the number of dates at which windows begin."""
    return data.index[windows.starts.cpu().numpy() + windows.context_length].nunique()


def _has_known_ahead(data: ForecastData) -> bool:
    """Return whether the table has the known covariates of the horizon after its last target value."""
    series, known = data.source.series, data.source.roles.known
    empty = [name for name in data.encoder.empty_labels if name in data.encoder.categories]
    if series.ids is not None:
        rows = Counter(name for table in series.ahead for name in table.ids)
        return all(rows[name] >= data.sizes["horizon"] for name in series.ids.names)
    try:
        times = future_index(data.index, series.frequency, data.sizes["horizon"])
        clock = Clock.of(data.index, series.frequency)
        gather_known(series.ahead, known, times, times, clock, empty_allowed=empty)
    except InputError:
        return False
    return True


@torch.inference_mode()
def _write_last_forecast(run: Run, name: str, network: Informer, data: ForecastData) -> None:
    windows, targets = data.parts["test"], data.source.targets
    batch = windows.batch(torch.tensor([len(windows) - 1], device=windows.starts.device))
    forecast = network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
    origin = int(batch.origin)
    index = data.index[origin : origin + windows.horizon]
    count = len(targets)
    past = torch.from_numpy(data.original(batch.past[..., :count].double().cpu().numpy(), batch))
    observed = None if batch.past_observed is None else batch.past_observed[..., :count].cpu()
    limits = limits_of_data(data, reads_known=network.reads_known)
    own = limits.at(past, observed, windows.horizon, future_known=batch.future_known.cpu())
    values = own.clip(torch.from_numpy(data.original(forecast.double().cpu().numpy(), batch)))[0].numpy()
    check_forecast(values, index, targets)
    frame = pd.DataFrame(values, index=index, columns=targets)
    with replacing(run.path / FORECAST) as file:
        write_frame(file, rounded(frame, data.scaler.decimals(targets), data.source.whole))
    first = max(0, origin - 3 * windows.horizon)  # as many as are drawn
    table = data.source.series.measured_in(slice(first, origin + windows.horizon))[targets]
    title = f"{name}: forecast of the last {data.split.scored} window, {windows.horizon} steps from {index[0]}"
    draw_forecast(run.path / PICTURE, table.iloc[: origin - first], frame, table.loc[index], title)
    if data.source.path is None:  # generated data: save an input file for `predict`
        _write_input(run.path / INPUT, data, origin)


@torch.inference_mode()
def _write_panel_forecast(run: Run, name: str, network: Informer, data: PanelData) -> None:
    """Write the forecast of the last test window of each series, in long form, and draw nine of them."""
    windows, targets, limits = data.parts["test"], data.source.targets, scaled_limits(data)
    limits = limits if network.reads_known else limits.open()
    assert windows.panel is not None
    series = windows.panel.series[windows.starts].cpu().numpy()
    _, from_end = np.unique(series[::-1], return_index=True)
    positions = torch.from_numpy(len(series) - 1 - from_end).to(windows.starts.device)
    forecasts, truths, origins = [], [], []
    for index in positions.split(data.evaluation_batch_size):
        batch = windows.batch(index)
        forecast = network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
        clipped = limits_of(limits, batch).clip(forecast)
        forecasts.append(data.original(clipped.double().cpu().numpy(), batch))
        truth = batch.future if batch.future_observed is None else batch.future.where(batch.future_observed, torch.nan)
        truths.append(data.original(truth.double().cpu().numpy(), batch))
        origins.append(batch.origin.cpu().numpy())
    forecast_values, truth_values, rows = (np.concatenate(parts) for parts in (forecasts, truths, origins))
    places = data.ids.of_rows[rows]
    index = data.index[(rows[:, None] + np.arange(windows.horizon)).ravel()]
    values = forecast_values.reshape(-1, len(targets))
    check_forecast(values, index, targets)
    decimals, whole = data.series_scaler.decimals(targets), data.source.whole
    frame = rounded(pd.DataFrame(values, columns=targets), decimals, whole)
    ids = data.ids.frame(np.repeat(places, windows.horizon))
    with replacing(run.path / FORECAST) as file:
        write_frame(file, pd.concat([ids, pd.Series(index, name=data.index.name), frame], axis=1), index=False)
    scale = data.target_scale[places, 0]
    errors = mean_errors(forecast_values[..., 0], truth_values[..., 0]) / scale
    panels = []
    for place in best_median_worst(errors):
        origin, own = int(rows[place]), places[place]
        dates = data.index[origin : origin + windows.horizon]
        shown = slice(max(int(data.ids.first_rows[own]), origin - 3 * windows.horizon), origin)
        past = data.source.series.measured_in(shown)[targets[0]]
        label = ", ".join(data.ids.names[own])
        forecast_line, truth_line = (
            pd.Series(part[place, :, 0], index=dates) for part in (forecast_values, truth_values)
        )
        panels.append(Lines(label, past, forecast_line, truth_line))
    split, count = data.split.scored, len(places)
    title = f"{name}, {targets[0]}: the last {split} window; best, median and worst three of {count:,} series"
    draw_sheet(run.path / PICTURE, panels, title)


def _write_input(path: Path, data: ForecastData, last: int) -> None:
    """Write a look-back as an input of `predict`, and the known covariates of the horizon if there are some.

    It ends with the series, but where forecasts begin at certain rows only, or what comes next must be known: there it
    ends at the `last` origin.
    """
    series, known = data.source.series, data.source.roles.known
    end = last if known or data.source.origins is not None else len(data.index)
    stop = end + data.sizes["horizon"] if known else end
    frame = decode_labels(series.frame.iloc[end - data.sizes["context_length"] : stop], series.labels)
    frame.loc[data.index[end:stop], [name for name in frame.columns if name not in known]] = None
    with replacing(path) as file:
        write_frame(file, frame)


MAX_RESIDUALS = 2**18
"""Maximum number of residuals in the histogram, evenly spaced over all windows and series."""


def log_figures(
    loggers: Sequence[Logger], fit: Fit, network: Informer, data: ForecastData, rows: Mapping[str, Row | None]
) -> Fit:
    """Draw errors and attention of the best weights, and the last probe, for TensorBoard at the last step.

    Return `fit` with the time of the drawing added to the `logging_share` of its speed. `network` has the best weights
    and is in evaluation mode. `rows` are the rows that `forecast.runs.results.assemble` takes.
    """
    if (board := board_of(loggers)) is None:
        return fit
    before = board.clock.seconds
    with board.clock:
        _draw(board, fit, network, data, rows)
    seconds = fit.speed["fit_seconds"]
    share = (board.clock.seconds - before) / seconds if seconds > 0 else float("nan")
    return replace(fit, speed={**fit.speed, "logging_share": fit.speed["logging_share"] + share})


def _draw_intervals(board: Board, step: int, rows: Mapping[str, Row | None], data: ForecastData) -> None:
    """Draw the reliability of the quantiles, and the coverage of the intervals by horizon step."""
    model, ridge = rows["model"], rows["linear"]
    assert model is not None
    split = data.split.scored
    sums = {split: model.test.intervals, f"ridge, {split}": None if ridge is None else ridge.test.intervals}
    if split == "test":
        sums["validation"] = model.validation.intervals
    curves = {label: part.reliability() for label, part in sums.items() if part is not None and part.levels}
    if curves:
        board.add_image("3_intervals/reliability", draw_reliability(curves), step)
    by_step = model.test.by_step(data.target_scale)
    coverage = {percent: [row.get(f"coverage_{percent}") for row in by_step] for percent in LEVELS}
    known = {
        percent: [float("nan") if share is None else share for share in shares]
        for percent, shares in coverage.items()
        if any(share is not None for share in shares)
    }
    if known:
        board.add_image("3_intervals/coverage_by_horizon_step", draw_step_coverage(known, split), step)


def _draw(board: Board, fit: Fit, network: Informer, data: ForecastData, rows: Mapping[str, Row | None]) -> None:
    steps = {name: row.test.sums.by_step() for name, row in rows.items() if row is not None}
    split = data.split.scored
    board.add_image(f"2_errors/{split}_by_horizon_step", draw_step_errors(steps, split), fit.steps)
    _draw_intervals(board, fit.steps, rows, data)
    model = rows["model"]
    assert model is not None
    if (errors := errors_by_part(model.validation, data)) is not None:
        tag = f"2_errors/validation_by_{errors.part.name.replace(' ', '_')}"
        board.add_image(tag, draw_calendar_errors(errors), fit.steps)
    assert model.validation.residuals is not None
    residuals = model.validation.residuals[..., model.validation.residuals.shape[-1] // 2].reshape(-1)
    residuals = residuals[evenly_spaced(len(residuals), MAX_RESIDUALS).numpy()]
    board.add_histogram("validation/residuals", residuals[np.isfinite(residuals)], fit.steps)
    windows = data.parts["validation"]
    batch = windows.batch(evenly_spaced(len(windows), 1).to(windows.starts.device))
    for place, attention_map in attention_maps(network, batch).items():
        board.add_image(f"attention/{place}", draw_map(place, attention_map, *token_names(network, place)), fit.steps)
    if fit.probe is not None:
        board.add_image("probe/heads", draw_heads(fit.probe), fit.steps)
