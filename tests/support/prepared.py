"""The components of a training of a configuration, with its table."""

from typing import Any

from forecast.data.sources import load_source
from forecast.runs.settings import Settings
from forecast.training import prepare as module
from forecast.training.prepare import Preparation


def prepare(settings: Settings, *arguments: Any, **options: Any) -> Preparation:
    """Read the table of the settings and build the components of their training."""
    return module.prepare(settings, load_source(settings.data), *arguments, **options)
