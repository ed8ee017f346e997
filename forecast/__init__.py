"""Long time-series forecasting with an encoder-decoder whose attention is one word on the command line.

Train on a table with dates, then forecast, draw and score::

    frame = pd.read_csv("my.csv", parse_dates=["date"])
    model = forecast.fit(frame, horizon=48)  # the options of the command line: attention="probsparse", …
    model.predict(frame, levels=[80])  # the 48 steps after the table, with 80 % intervals
    model.plot(frame)
    model.score(later)
    forecast.load(model.save("runs/mine"))

`fit` and `load` return a `Forecaster`, an `Ensemble` of several seeds, or the `PanelForecaster` of a long table.
`Estimator` has the manners of scikit-learn. `forecast.attention.build("probsparse", d_model=64, num_heads=4)` is a
layer for a PyTorch model; `forecast.model` has more parts. `InputError` says in one line what to correct.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forecast.common.errors import InputError, NotFiniteError
    from forecast.overview.understanding import read_table
    from forecast.predict.blocks import predict_frame
    from forecast.predict.ensemble import Ensemble, load
    from forecast.predict.forecaster import Forecaster
    from forecast.predict.known import MissingKnown
    from forecast.predict.panel import PanelForecaster
    from forecast.predict.zero_shot import zero_shot
    from forecast.training.estimator import Estimator
    from forecast.training.from_python import fit

_MODULES = {
    "Ensemble": "predict.ensemble",
    "Estimator": "training.estimator",
    "Forecaster": "predict.forecaster",
    "InputError": "common.errors",
    "MissingKnown": "predict.known",
    "NotFiniteError": "common.errors",
    "PanelForecaster": "predict.panel",
    "fit": "training.from_python",
    "load": "predict.ensemble",
    "predict_frame": "predict.blocks",
    "read_table": "overview.understanding",
    "zero_shot": "predict.zero_shot",
}
"""The public names, and the module of each."""

_PACKAGES = ("attention", "model")
"""Packages with the parts of a model, which a first use imports."""

__all__ = [
    "Ensemble",
    "Estimator",
    "Forecaster",
    "InputError",
    "MissingKnown",
    "NotFiniteError",
    "PanelForecaster",
    "fit",
    "load",
    "predict_frame",
    "read_table",
    "zero_shot",
]


def __dir__() -> list[str]:
    """Return the public names, which a first use imports, and not those of typing."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since importing torch takes seconds."""
    if name in _PACKAGES:
        return import_module(f"forecast.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'forecast' has no attribute {name!r}")
    return getattr(import_module(f"forecast.{_MODULES[name]}"), name)
