"""The encoder-decoder; `build` constructs one from plain values, and `parts` has it and its layers with defaults."""

from forecast.model.linear_path import LinearPath
from forecast.model.parts import encoder_layer
from forecast.model.presets import build

__all__ = ["LinearPath", "build", "encoder_layer"]
