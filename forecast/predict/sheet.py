"""The table of a run under other mechanisms and look-backs."""

import math
from collections.abc import Sequence

from forecast.common.tables import Sheet
from forecast.common.text import duration
from forecast.evaluation.share import percent
from forecast.predict.score import Scored
from forecast.runs.run import Run

HEADINGS = ("attention", "look-back", "test windows", "MSE", "MAE", "MSE against trained", "a window")


def sheet_of(run: Run, scored: Sequence[Scored]) -> Sheet:
    """Give the table, the run as it was trained first."""
    notes = (
        "MSE, MAE: on z-scores, of all test windows; a window: of a batch of forecasts, measured in this process; no "
        "weight was trained anew",
        *_share_notes(scored[0].share),
    )
    return Sheet(
        f"{run.path}: its weights, transplanted", HEADINGS, [_cells(each, scored[0]) for each in scored], notes
    )


def _share_notes(share: float | None) -> tuple[str, ...]:
    if share is None:
        return ()
    if share == 0:
        return ("validation gave the encoder-decoder no weight in this run: no attention has a part in its forecast",)
    return (
        f"the encoder-decoder is {percent(share)} of the forecast, the rest the linear path's, which has no attention",
    )


def _cells(scored: Scored, trained: Scored) -> list[str]:
    mse = scored.test["mse"]
    seconds = None if math.isnan(scored.seconds_per_window) else scored.seconds_per_window
    return [
        f"{scored.attention} (trained)" if scored.trained else scored.attention,
        f"{scored.context_length:,}",
        f"{scored.windows:,}",
        f"{mse:.4f}",
        f"{scored.test['mae']:.4f}",
        f"{mse / trained.test['mse'] - 1:+.1%}",
        duration(seconds),
    ]
