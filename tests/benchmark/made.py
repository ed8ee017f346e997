"""Example cases and rows with simple numbers."""

from typing import Any

import torch
from torch import Tensor, nn

from forecast.attention._parsing import parse
from forecast.benchmark.case import Case, Shape
from forecast.benchmark.machine import Limits
from forecast.benchmark.measure import Measured
from forecast.benchmark.report import rows_of
from forecast.common.tables import Row
from forecast.common.timing import Spread

CPU = torch.device("cpu")
LIMITS = Limits(operations=1e9, bytes=1e9)
FACTS = {"machine": "a machine", "threads": 1, "dtype": "fp32"}


def shape(length: int = 16, **changed: Any) -> Shape:
    return Shape(**({"length": length, "batch": 1, "num_heads": 2, "head_dim": 8} | changed))


def case(word: str = "full", length: int = 16, **changed: Any) -> Case:
    return Case(parse(word), shape(length, **changed))


def sweep_rows(
    milliseconds: dict[str, dict[int, float]], peaks: dict[int, int] | None = None, **changed: Any
) -> list[Row]:
    """Return the rows of a sweep with the given times of the passes."""
    rows = []
    for length in next(iter(milliseconds.values())):
        group = []
        for word, times in milliseconds.items():
            made = case(word, length, **changed)
            if length not in times:
                group.append(Measured(made, skipped="memory: none left"))
                continue
            spread = Spread.of([times[length] / 1e3] * 3)
            group.append(Measured(made, spread, (peaks or {}).get(length, 2**20)))
        rows += rows_of(group, LIMITS, torch.float32, FACTS)
    return rows


class Failing(nn.Module):
    """Module that raises the given error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, *inputs: Tensor) -> Tensor:
        raise self.error
