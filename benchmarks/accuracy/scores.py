"""The rows of the record by what they are of, and their means over the seeds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from benchmarks.accuracy.plan import MAIN
from benchmarks.accuracy.rows import Record

NONE = ""
"""The cell of a run that is not there."""


@dataclass(frozen=True)
class Mean:
    """A score's mean over seeds, its standard deviation (n - 1) where there are several, and their number."""

    value: float
    spread: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean | None":
        """Return the mean of some values, None of none."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else math.nan, len(values)) if values else None


class Scores:
    """The rows of the record, to be asked for.

    Parameters
    ----------
    rows
        As they are read.
    """

    def __init__(self, rows: Iterable[Record]) -> None:
        self.rows = list(rows)

    def values(self, column: str) -> list[str]:
        """Return what stands in a column, each text once."""
        return list(dict.fromkeys(row[column] for row in self.rows))

    def where(self, **wanted: str | int) -> "Scores":
        """Return the rows that have these values in these columns."""
        return Scores(row for row in self.rows if all(row[key] == str(value) for key, value in wanted.items()))

    def mean(self, column: str) -> Mean | None:
        """Return a column's mean over the rows."""
        return Mean.of([float(row[column]) for row in self.rows])

    @property
    def ridge(self) -> "Scores":
        """Return the row whose run's own ridge stands for all: that of `full`, else of the first there is."""
        main = self.where(recipe=MAIN)
        return Scores([*main.where(attention="full").rows, *main.rows][:1])

    def cell(self, whose: str = "test") -> str:
        """Return MSE / MAE with their spread and, of several seeds, how many; nothing where there is no row."""
        mse, mae = self.mean(f"{whose}_mse"), self.mean(f"{whose}_mae")
        if mse is None or mae is None:
            return NONE
        return f"{shown(mse)} / {shown(mae)}" + (f" ({mse.count})" if mse.count > 1 else "")


def shown(mean: Mean | None) -> str:
    """Return a mean with three decimals and its spread, if any, with four."""
    if mean is None:
        return NONE
    return f"{mean.value:.3f}" + ("" if math.isnan(mean.spread) else f" ± {mean.spread:.4f}")
