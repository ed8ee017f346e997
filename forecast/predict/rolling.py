"""Forecasts of a backtest: from every origin, each with what was known when it began."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.predict.answer import naive_forecast
from forecast.predict.explanation import Explained
from forecast.predict.forecast import Forecast, Question, joined
from forecast.predict.history import History, before
from forecast.tables.panel import Id
from forecast.tables.series import Series

GROUP = 32
"""Origins that are forecast together."""


@dataclass(frozen=True)
class Block:
    """Forecasts (S, h, C) from S origins or of S series, with the naive forecast and the truth.

    `dates` are the times of each; `ends` are the lower and upper ends of intervals by their level.
    """

    origins: pd.DatetimeIndex
    names: Sequence[Id]
    dates: Sequence[pd.DatetimeIndex]
    values: np.ndarray
    naive: np.ndarray
    truth: np.ndarray
    ends: Mapping[float, tuple[np.ndarray, np.ndarray]]

    def table(self, targets: Sequence[str], decimals: Mapping[str, int]) -> pd.DataFrame:
        """Return a row for each forecast, target and step."""
        parts = [self._of(place, name, decimals) for place, name in enumerate(targets)]
        rows = np.arange(self.values.size).reshape(len(parts), len(self.values), -1)
        return pd.concat(parts, ignore_index=True).iloc[rows.swapaxes(0, 1).ravel()]

    def _of(self, place: int, target: str, decimals: Mapping[str, int]) -> pd.DataFrame:
        count, horizon, _ = self.values.shape

        def column(numbers: np.ndarray) -> np.ndarray:
            flat = numbers[..., place].ravel()
            return np.asarray(flat.round(decimals[target]) if target in decimals else flat)

        named = np.array([",".join(name) or target for name in self.names], dtype=object)
        columns: dict[str, object] = {
            "origin": self.origins.repeat(horizon),
            "time": joined(self.dates),
            "step": np.tile(np.arange(1, horizon + 1), count),
            "series": named.repeat(horizon),
            **({"target": target} if self.names[0] else {}),
            "value": column(self.values),
        }
        for level, (lower, upper) in self.ends.items():
            columns |= {f"lower_{level:g}": column(lower), f"upper_{level:g}": column(upper)}
        return pd.DataFrame({**columns, "naive": column(self.naive), "truth": self.truth[..., place].ravel()})


@dataclass(frozen=True)
class Rolling:
    """The forecasts of a backtest, still to be computed: `blocks` returns those from some places of the grid.

    `explained` returns the series that can be forecast from a place, and their forecasts to be explained; None for
    several models.
    """

    history: History
    blocks: Callable[[Sequence[int]], list[Block]]
    explained: Callable[[int], tuple[Sequence[Id], Explained]] | None = None

    @property
    def places(self) -> list[int]:
        """The origins, as places on the grid."""
        return [int(place) for place in self.history.places]

    def groups(self) -> list[list[int]]:
        """Return the origins in groups that are forecast together."""
        return [self.places[start : start + GROUP] for start in range(0, len(self.places), GROUP)]

    def at(self, places: Sequence[int]) -> pd.DataFrame:
        """Return the forecasts from some origins.

        The columns are origin (the first time that is forecast), time, step, series (of a long table its id, and the
        column target), value, lower_80 and so on, naive and truth.
        """
        model = self.history.model
        tables = [block.table(model.targets, model.decimals) for block in self.blocks(places)]
        return pd.concat(tables, ignore_index=True)

    def table(self) -> pd.DataFrame:
        """Return the forecasts from all origins."""
        return pd.concat([self.at(group) for group in self.groups()], ignore_index=True)


def blocks_of_series(
    answers: Callable[[Sequence[Series], Question], list[Forecast]],
    history: History,
    question: Question,
    places: Sequence[int],
) -> list[Block]:
    """Return the forecasts of one series from several origins, which the model computes together."""
    model = history.model
    several = [before(history, place) for place in places]
    forecasts = answers(several, question)
    dates = [pd.DatetimeIndex(forecast.values.index) for forecast in forecasts]
    naive = [
        naive_forecast(series, model.targets, model.frequency, times).to_numpy()
        for series, times in zip(several, dates, strict=True)
    ]

    def end(level: float, side: int) -> np.ndarray:
        return np.stack([forecast.ends[level][side].to_numpy() for forecast in forecasts])

    return [
        Block(
            origins=history.whole.grid[list(places)],
            names=[()] * len(places),
            dates=dates,
            values=np.stack([forecast.values.to_numpy() for forecast in forecasts]),
            naive=np.stack(naive),
            truth=np.concatenate([history.truth(place, [()]) for place in places]),
            ends={level: (end(level, 0), end(level, 1)) for level in question.levels},
        )
    ]
