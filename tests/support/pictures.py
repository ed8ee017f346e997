"""Pictures of runs and forecasts, which most tests leave blank: of a small run they take 60 % of the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from forecast.common import pictures
from forecast.training import outcome
from forecast.training import train as training
from forecast.training.callbacks import figures

DRAWN = [
    (module, name, getattr(module, name))
    for module, name in (
        (figures, "ForecastPanels"),
        (training, "log_figures"),
        (outcome, "draw_forecast"),
        (pictures, "draw_forecast"),
    )
]
"""Where a run or a forecast draws: module, name and what draws."""


class _Blank:
    def __init__(self, **_: Any) -> None:
        pass

    def pixels(self, _: Any) -> np.ndarray:
        return np.zeros((2, 2, 3), dtype=np.uint8)


@contextmanager
def blank() -> Iterator[None]:
    """Leave the pictures of runs and forecasts blank."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "ForecastPanels", _Blank)
        patch.setattr(training, "log_figures", lambda _, fit, *__: fit)
        for module in (outcome, pictures):
            patch.setattr(module, "draw_forecast", lambda path, *_, **__: path.write_bytes(b""))
        yield


@contextmanager
def drawing(*names: str) -> Iterator[None]:
    """Draw pictures inside `blank`: all of them, or those that the functions and classes `names` draw."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, original in DRAWN:
            if not names or name in names:
                patch.setattr(module, name, original)
        yield
