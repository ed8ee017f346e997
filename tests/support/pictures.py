"""Pictures of runs, which most tests leave blank: they take 60 % of the time of a small run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from forecast.training import outcome
from forecast.training import train as training
from forecast.training.callbacks import figures

DRAWN = [
    (module, name, getattr(module, name))
    for module, name in ((figures, "ForecastPanels"), (training, "log_figures"), (outcome, "draw_forecast"))
]
"""Where a run draws: module, name and what draws."""


class _Blank:
    def __init__(self, **_: Any) -> None:
        pass

    def pixels(self, _: Any) -> np.ndarray:
        return np.zeros((2, 2, 3), dtype=np.uint8)


@contextmanager
def blank() -> Iterator[None]:
    """Leave the pictures of runs blank."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "ForecastPanels", _Blank)
        patch.setattr(training, "log_figures", lambda _, fit, *__: fit)
        patch.setattr(outcome, "draw_forecast", lambda path, *_: path.write_bytes(b""))
        yield


@contextmanager
def drawing(*names: str) -> Iterator[None]:
    """Draw the pictures of runs inside `blank`: all of them, or those that the functions and classes `names` draw."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, original in DRAWN:
            if not names or name in names:
                patch.setattr(module, name, original)
        yield
