"""Long time-series forecasting with an encoder-decoder whose attention is one word on the command line."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forecast.common.errors import InputError, NotFiniteError
    from forecast.predict.forecaster import Forecaster, load
    from forecast.predict.known import MissingKnown

__all__ = ["Forecaster", "InputError", "MissingKnown", "NotFiniteError", "load"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since importing torch takes seconds."""
    if name in ("Forecaster", "load"):
        from forecast.predict import forecaster

        return getattr(forecaster, name)
    if name == "MissingKnown":
        from forecast.predict.known import MissingKnown

        return MissingKnown
    if name in ("InputError", "NotFiniteError"):
        from forecast.common import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'forecast' has no attribute {name!r}")
