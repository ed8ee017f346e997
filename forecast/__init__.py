"""Long time-series forecasting with an encoder-decoder whose attention is one word on the command line."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forecast.common.errors import InputError, NotFiniteError
    from forecast.predict.ensemble import Ensemble
    from forecast.predict.forecaster import Forecaster
    from forecast.predict.known import MissingKnown
    from forecast.predict.load import load

__all__ = ["Ensemble", "Forecaster", "InputError", "MissingKnown", "NotFiniteError", "load"]


def __dir__() -> list[str]:
    """Return the public names, which a first use imports, and not those of typing."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since importing torch takes seconds."""
    if name == "load":
        from forecast.predict.load import load

        return load
    if name == "Forecaster":
        from forecast.predict.forecaster import Forecaster

        return Forecaster
    if name == "Ensemble":
        from forecast.predict.ensemble import Ensemble

        return Ensemble
    if name == "MissingKnown":
        from forecast.predict.known import MissingKnown

        return MissingKnown
    if name in ("InputError", "NotFiniteError"):
        from forecast.common import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'forecast' has no attribute {name!r}")
