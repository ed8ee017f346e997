"""The encoder-decoder; `build` constructs one from plain values."""

from forecast.model.presets import build

__all__ = ["build"]
