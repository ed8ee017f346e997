"""The files of a forecast without training: table, sidecar and picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.files import write_json
from forecast.common.pictures import SHEET, draw_forecast, draw_sheet, not_drawn
from forecast.data.calendar import season_name, seasonal_period
from forecast.predict.answer import naive_forecast, naive_name
from forecast.predict.forecast import Forecast, Question
from forecast.predict.output import program_version, sidecar_of, value_name
from forecast.predict.plot import panel_lines
from forecast.predict.zero_shot import ZeroShot
from forecast.tables.writing import write_table


@dataclass(frozen=True)
class ZeroShotOutcome:
    """A forecast without training, and what its files say about it.

    `question` is what was asked, `source` the file of the table, `hashes` has its SHA-256 before it was read.
    """

    found: ZeroShot
    source: Path
    question: Question
    hashes: Mapping[Path, str]

    def write(self, output: Path, layout: str) -> None:
        """Write table, sidecar and picture, and print what was written."""
        forecast, picture, table = self.found.forecast, output.with_suffix(".png"), self.table(layout)
        write_json(sidecar_of(output), self._sidecar(table))
        write_table(output, table, index=self.has_one_series)
        if isinstance(forecast, Forecast):
            self._draw_one(forecast, output, picture)
        else:
            places = range(min(SHEET, len(forecast.ids)))
            target = forecast.targets[0]
            lines = [panel_lines(forecast, self.found.series, target, place) for place in places]
            draw_sheet(picture, lines, f"{self.source.name}, {target}: the first {len(lines)} of {len(forecast.ids):,}")
            print(f"{output}: {len(forecast.ids):,} series of {self.found.horizon} steps; picture: {picture}")
        print(f"without training: {self.found.words}")

    @property
    def has_one_series(self) -> bool:
        """Whether the table is that of one series, with the dates as its index."""
        return isinstance(self.found.forecast, Forecast)

    @property
    def naive_name(self) -> str:
        """The name of the naive forecast, with its season."""
        series = self.found.series
        if self.has_one_series:
            return naive_name(series, series.frequency)
        return f"seasonal naive ({season_name(seasonal_period(series.frequency), series.frequency)})"

    def table(self, layout: str = "wide") -> pd.DataFrame:
        """Return the table, rounded, with the naive forecast."""
        forecast = self.found.forecast
        if not isinstance(forecast, Forecast):
            return forecast.table(self.found.decimals)
        naive = self._naive(forecast).round({name: self.found.decimals[name] for name in forecast.values.columns})
        rounded = forecast.rounded(self.found.decimals)
        return rounded.long(naive) if layout == "long" else rounded.wide(naive)

    def _naive(self, forecast: Forecast) -> pd.DataFrame:
        series, values = self.found.series, forecast.values
        return naive_forecast(series, list(values.columns), series.frequency, pd.DatetimeIndex(values.index))

    def _draw_one(self, forecast: Forecast, output: Path, picture: Path) -> None:
        values, naive = forecast.values, self._naive(forecast)
        dates = values.index
        title = f"{self.source.name}: {len(values)} steps from {dates[0]}, without training"
        draw_forecast(picture, self.found.series.measured, values, title=title, ends=forecast.ends, naive=naive)
        print(f"{output}: {len(values)} steps, {dates[0]} to {dates[-1]}; picture: {picture}")
        if text := not_drawn(picture, list(values.columns)):
            print(text)

    def _sidecar(self, table: pd.DataFrame) -> dict[str, Any]:
        found = self.found
        frequency = found.series.frequency
        return {
            "program": program_version(),
            "models": [{"path": "pretrained", "weights_sha256": found.pretrained.card["sha256"]}],
            "mixture": {
                name: round(share, 4) for name, share in zip(found.mixture.names, found.mixture.shares, strict=True)
            },
            "earlier_forecasts": found.mixture.origins,
            "input": {"file": self.source.name, "sha256": self.hashes.get(self.source)},
            "forecast": {"steps": found.horizon, "frequency": frequency},
            "value": value_name(self.question),
            "levels": list(self.question.levels),
            "naive": self.naive_name,
            "columns": [str(name) for name in ([table.index.name] if table.index.name else []) + list(table.columns)],
        }
