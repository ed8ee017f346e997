"""Train the default configuration on a dozen generated series.

`python -m benchmarks.studies.generated --output outputs/generated.csv` trains and scores as a user would, with a row
per series.
"""

import argparse
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.spreadsheet import write_frame
from forecast.runs.summary import baseline_warning
from forecast.training.train import train
from tests.support.small import compose

Maker = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


def walk(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return rng.normal(size=len(t)).cumsum()


def drifting_walk(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return rng.normal(0.05, 1, len(t)).cumsum()


def trend(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return 0.01 * t + rng.normal(size=len(t))


def season(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    phase = 2 * np.pi * t / period + rng.uniform(0, 2 * np.pi)
    return 3 * np.sin(phase) + np.sin(2 * phase + 1) + rng.normal(0, 0.5, len(t))


def drifting_season(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    growing = (1 + 0.0005 * t) * np.sin(2 * np.pi * t / period)
    values: np.ndarray = 3 * growing + rng.normal(0, 0.05, len(t)).cumsum() + rng.normal(0, 0.5, len(t))
    return values


def season_on_a_trend(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return season(rng, t, period) + 0.003 * t


def intermittent(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return (rng.random(len(t)) < 0.1) * rng.gamma(2, 3, len(t))


def shifts_up(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return 4 * (rng.random(len(t)) < 0.002).cumsum() + rng.normal(size=len(t))


def levels(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return np.repeat(rng.normal(0, 4, len(t) // 200 + 1), 200)[: len(t)] + rng.normal(size=len(t))


def white_noise(rng: np.random.Generator, t: np.ndarray, period: int) -> np.ndarray:
    return rng.normal(size=len(t))


@dataclass(frozen=True)
class Generated:
    """A table of series of one kind.

    Parameters
    ----------
    maker
        Draws one series.
    frequency
        "h", with a season of a day, or "D", with a season of a week.
    columns
        Number of series.
    """

    maker: Maker
    frequency: str
    columns: int

    @property
    def name(self) -> str:
        return f"{self.maker.__name__.replace('_', ' ')}, {'hourly' if self.frequency == 'h' else 'daily'}"

    def frame(self, seed: int) -> pd.DataFrame:
        """Return 4,000 hours or 2,000 days."""
        rng, rows, period = np.random.default_rng(seed), *((4000, 24) if self.frequency == "h" else (2000, 7))
        index = pd.date_range("2015-01-05", periods=rows, freq=self.frequency, name="date")
        columns = {f"series_{n}": self.maker(rng, np.arange(rows), period) for n in range(self.columns)}
        return pd.DataFrame(columns, index=index)


DOZEN = (
    Generated(walk, "h", 1),
    Generated(walk, "D", 3),
    Generated(drifting_walk, "D", 1),
    Generated(trend, "h", 2),
    Generated(season, "h", 1),
    Generated(season, "D", 2),
    Generated(drifting_season, "h", 4),
    Generated(season_on_a_trend, "D", 1),
    Generated(intermittent, "D", 4),
    Generated(shifts_up, "h", 2),
    Generated(levels, "h", 3),
    Generated(white_noise, "h", 8),
)


def configuration(series: Generated, seed: int, folder: Path, *words: str) -> dict[str, Any]:
    """Write the series into `folder` and return the configuration of `python train.py data=csv data.path=… <words>`."""
    source = folder / f"{series.name.replace(', ', '_').replace(' ', '_')}_{seed}.csv"
    series.frame(seed).to_csv(source)
    return compose("data=csv", f"data.path={source}", f"output_dir={folder}", "training.progress=false", *words)


def train_on(series: Generated, seed: int, folder: Path, *words: str) -> dict[str, Any]:
    """Train and return the result."""
    with redirect_stdout(StringIO()):
        return train(configuration(series, seed, folder, *words))[1]


def row_of(series: Generated, seed: int, result: dict[str, Any]) -> dict[str, Any]:
    """Return test and validation MSE of the model and of the best baseline, and whether the run printed a warning."""
    baselines = {name: row for name, row in result["baselines"].items() if row}
    best = min(baselines, key=lambda name: baselines[name]["test"]["scaled"]["mse"])
    model, baseline = (row["test"]["scaled"]["mse"] for row in (result, baselines[best]))
    return {
        "series": series.name,
        "columns": series.columns,
        "seed": seed,
        "test_mse": model,
        "best_baseline": best,
        "baseline_test_mse": baseline,
        "ratio": model / baseline,
        "validation_mse": result["validation"]["scaled"]["mse"],
        "baseline_validation_mse": min(row["validation"]["scaled"]["mse"] for row in baselines.values()),
        "warned": baseline_warning(result) is not None,
        "start": result["linear_path_start"],
        "best_step": result["model"]["best_step"],
        "fit_seconds": result["speed"]["fit_seconds"],
    }


def main() -> None:
    """Train on each series and write its row to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="seeds of the series (default: 1)")
    parser.add_argument("words", nargs="*", help="overrides of train.py")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for series in DOZEN:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(row_of(series, seed, train_on(series, seed, Path(folder), *options.words)))
            row = rows[-1]
            ratio = f"{row['ratio']:.3f} of {row['best_baseline']} ({row['baseline_test_mse']:.4g})"
            print(
                f"{row['series']:28} x{row['columns']}  {ratio}, best step {row['best_step']}, start {row['start']}",
                flush=True,
            )
            with options.output.open("wb") as file:
                write_frame(file, pd.DataFrame(rows), index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
