"""Holidays of a place as inputs that are known ahead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Holidays:
    place: str
    before: int = 0
    after: int = 0

    @classmethod
    def parse(cls, place: str, before: int, after: int) -> "Holidays":
        raise NotImplementedError

    def check_frequency(self, frequency: str) -> None:
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        raise NotImplementedError

    def features(self, index: pd.DatetimeIndex) -> np.ndarray:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Holidays":
        raise NotImplementedError
