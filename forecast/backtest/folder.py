"""The folder of a backtest: its forecasts in parts, so that one that was killed continues."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import read_json, write_json
from forecast.tables.writing import write_table

PLAN, PARTS, FORECASTS = "plan.json", "parts", "forecasts.parquet"


@dataclass(frozen=True)
class Folder:
    """A folder of one backtest; `plan` says which one, and another is refused."""

    path: Path
    plan: dict[str, Any]

    def check(self) -> None:
        """Raise InputError if the folder holds something else than this backtest."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file: choose another --output")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        found = read_json(self.path / PLAN)
        if found is None:
            raise InputError(f"{self.path}: holds other files and no backtest: choose another --output")
        if different := [key for key in self.plan if not isinstance(found, dict) or found.get(key) != self.plan[key]]:
            raise InputError(
                f"{self.path}: holds a backtest with another {different[0]}: choose another --output, or remove it"
            )

    def open(self) -> None:
        """Create the folder with its plan, unless it has it."""
        (self.path / PARTS).mkdir(parents=True, exist_ok=True)
        if not (self.path / PLAN).is_file():
            write_json(self.path / PLAN, self.plan)

    @property
    def is_complete(self) -> bool:
        """Whether all forecasts are written."""
        return (self.path / FORECASTS).is_file()

    def part(self, number: int) -> Path:
        """Return the file of the forecasts of a group of origins."""
        return self.path / PARTS / f"{number:05}.parquet"

    def missing(self, count: int) -> list[int]:
        """Return the numbers of the parts that are not written."""
        return [] if self.is_complete else [number for number in range(count) if not self.part(number).is_file()]

    def fill(self, make: Sequence[Callable[[], pd.DataFrame]]) -> pd.DataFrame:
        """Write the parts that are missing, and all of them as one table; return it."""
        if self.is_complete:
            return pd.read_parquet(self.path / FORECASTS)
        for number in self.missing(len(make)):
            write_table(self.part(number), make[number](), index=False)
        table = pd.concat([pd.read_parquet(self.part(number)) for number in range(len(make))], ignore_index=True)
        write_table(self.path / FORECASTS, table, index=False)
        for number in range(len(make)):
            self.part(number).unlink()
        (self.path / PARTS).rmdir()
        return table
