"""The last forecast of a run on a panel, for its folder: a table of all series, and a sheet of nine."""

import numpy as np
import pandas as pd
import torch

from forecast.common.files import replacing
from forecast.common.finite import check_forecast
from forecast.common.pictures import Lines, best_median_worst, draw_sheet, mean_errors
from forecast.common.spreadsheet import write_frame
from forecast.data.panel import PanelData
from forecast.data.scaler import rounded
from forecast.evaluation.evaluate import limits_of
from forecast.evaluation.scoring import scaled_limits
from forecast.model.informer import Informer
from forecast.runs.run import FORECAST, PICTURE, Run


@torch.inference_mode()
def write_panel_forecast(run: Run, name: str, network: Informer, data: PanelData) -> None:
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
