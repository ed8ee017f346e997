"""The encoder-decoder; `build` makes one from plain values."""

from forecast.model.presets import build

__all__ = ["build"]
