"""What a finished training puts on the board: errors, residuals, attention maps."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from lightning.pytorch.loggers import Logger

from forecast.data.datamodule import ForecastData
from forecast.data.windows import spread
from forecast.evaluation.evaluate import Row, errors_by_part
from forecast.model.informer import Informer
from forecast.training.fitting import Fit
from forecast.training.probe.maps import attention_maps, token_names
from forecast.training.tensorboard.figures import by_part, errors_by_step
from forecast.training.tensorboard.logger import Board
from forecast.training.tensorboard.maps import draw_map, heads

MOST_RESIDUALS = 2**18
"""Of the residuals of all windows and series as many, evenly spread, make the histogram."""


def log_figures(logger: Logger, fit: Fit, network: Informer, data: ForecastData, rows: Mapping[str, Row | None]) -> Fit:
    """Draw, on a board, the best weights' errors and attention and the last probe, all at the last step.

    Gives `fit` with the time of this counted in the `logging_share` of its speed.

    Parameters
    ----------
    network
        With the best weights, in evaluation mode.
    rows
        As in `forecast.runs.results.assemble`.
    """
    if not isinstance(logger, Board):
        return fit
    before = logger.clock.seconds
    with logger.clock:
        _draw(logger, fit, network, data, rows)
    seconds = fit.speed["fit_seconds"]
    share = (logger.clock.seconds - before) / seconds if seconds > 0 else float("nan")
    return replace(fit, speed={**fit.speed, "logging_share": fit.speed["logging_share"] + share})


def _draw(board: Board, fit: Fit, network: Informer, data: ForecastData, rows: Mapping[str, Row | None]) -> None:
    steps = {name: row.test.sums.by_step() for name, row in rows.items() if row is not None}
    board.add_image("2_errors/test_by_horizon_step", errors_by_step(steps), fit.steps)
    model = rows["model"]
    assert model is not None
    if (errors := errors_by_part(model.validation, data)) is not None:
        board.add_image(f"2_errors/validation_by_{errors.part.name.replace(' ', '_')}", by_part(errors), fit.steps)
    assert model.validation.residuals is not None
    residuals = model.validation.residuals.reshape(-1)
    residuals = residuals[spread(len(residuals), MOST_RESIDUALS).numpy()]
    board.add_histogram("validation/residuals", residuals[np.isfinite(residuals)], fit.steps)
    windows = data.parts["validation"]
    batch = windows.batch(spread(len(windows), 1).to(windows.starts.device))
    for place, shown in attention_maps(network, batch).items():
        board.add_image(f"attention/{place}", draw_map(place, shown, *token_names(network, place)), fit.steps)
    if fit.probe is not None:
        board.add_image("probe/heads", heads(fit.probe), fit.steps)
