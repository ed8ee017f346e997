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
        forecast, picture = self.found.forecast, output.with_suffix(".png")
        if isinstance(forecast, Forecast):
            self._write_one(forecast, output, layout, picture)
        else:
            write_table(output, self._described(forecast.table(self.found.decimals), output), index=False)
            places = range(min(SHEET, len(forecast.ids)))
            target = forecast.targets[0]
            lines = [panel_lines(forecast, self.found.series, target, place) for place in places]
            draw_sheet(picture, lines, f"{self.source.name}, {target}: the first {len(lines)} of {len(forecast.ids):,}")
            print(f"{output}: {len(forecast.ids):,} series of {self.found.horizon} steps; picture: {picture}")
        print(f"without training: {self.found.words}")

    def _write_one(self, forecast: Forecast, output: Path, layout: str, picture: Path) -> None:
        series, values = self.found.series, forecast.values
        dates, targets = pd.DatetimeIndex(values.index), list(values.columns)
        naive = naive_forecast(series, targets, series.frequency, dates)
        rounded = forecast.rounded(self.found.decimals)
        decimals = {name: self.found.decimals[name] for name in targets}
        table = rounded.long(naive.round(decimals)) if layout == "long" else rounded.wide(naive.round(decimals))
        write_table(output, self._described(table, output))
        title = f"{self.source.name}: {len(values)} steps from {dates[0]}, without training"
        draw_forecast(picture, series.measured, values, title=title, ends=forecast.ends, naive=naive)
        print(f"{output}: {len(values)} steps, {dates[0]} to {dates[-1]}; picture: {picture}")
        if text := not_drawn(picture, targets):
            print(text)

    def _described(self, table: pd.DataFrame, output: Path) -> pd.DataFrame:
        """Write the sidecar of a table, and return the table."""
        found = self.found
        frequency = found.series.frequency
        period = seasonal_period(frequency)
        naive = (
            naive_name(found.series, frequency)
            if isinstance(found.forecast, Forecast)
            else f"seasonal naive ({season_name(period, frequency)})"
        )
        facts: dict[str, Any] = {
            "program": program_version(),
            "models": [{"path": "pretrained", "weights_sha256": found.pretrained.card["sha256"]}],
            "mixture": {
                name: round(share, 4)
                for name, share in zip(("network", *found.mixture.names), found.mixture.shares, strict=True)
            },
            "earlier_forecasts": found.mixture.origins,
            "input": {"file": self.source.name, "sha256": self.hashes.get(self.source)},
            "forecast": {"steps": found.horizon, "frequency": frequency},
            "value": value_name(self.question),
            "levels": list(self.question.levels),
            "naive": naive,
            "columns": [str(name) for name in ([table.index.name] if table.index.name else []) + list(table.columns)],
        }
        write_json(sidecar_of(output), facts)
        return table
