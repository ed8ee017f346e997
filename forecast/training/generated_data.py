"""The data of a training on generated series."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from forecast.common.errors import InputError
from forecast.data.datamodule import ForecastData
from forecast.data.generated.windows import HELD, DrawnWindows, training_windows
from forecast.data.settings import DataSettings
from forecast.data.sources import Source
from forecast.data.windows import Windows


class GeneratedData(ForecastData):
    """Windows of generated series, each standardized; see `forecast.data.generated.prior`.

    The table of `source` has the series of validation and test, one after the other; those of training are drawn.
    """

    is_one_series = False

    def __init__(self, source: Source, settings: DataSettings, **options: Any) -> None:
        self.settings = settings
        super().__init__(source, settings.split, **options)

    def _cut_parts(self, table: Windows, targets: Mapping[str, range]) -> None:
        rows, length = self.settings.rows, table.context_length + table.horizon
        if rows < length:
            raise InputError(f"data.rows={rows}: must be at least context_length + horizon, {length}")
        held = DrawnWindows(**{**vars(table), "starts": torch.arange(2 * HELD) * rows + rows - length}, seed=0)
        self.parts = {
            "train": training_windows(
                self.settings.seed, self.settings.series, rows, table.context_length, table.horizon
            ),
            "validation": replace(held, starts=held.starts[:HELD]),
            "test": replace(held, starts=held.starts[HELD:]),
        }
        self.left_out = dict.fromkeys(self.parts, 0)

    def to(self, device: torch.device) -> None:
        """Move the tables of all splits to `device`."""
        self.parts = {part: windows.to(device) for part, windows in self.parts.items()}
