"""The encoder-decoder; `build` constructs one from plain values, `informer` and `encoder_layer` with defaults."""

from forecast.model.linear_path import LinearPath
from forecast.model.parts import encoder_layer, informer
from forecast.model.presets import build

__all__ = ["LinearPath", "build", "encoder_layer", "informer"]
