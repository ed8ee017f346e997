"""Compare the best mixing weight on validation and on test, over segments of a long series that are split like ETTh1.

`python -m benchmarks.studies.stretches --input PJME_hourly.csv --output stretches.csv` trains the ETTh1 configuration
on each segment and scores every mixing weight, with a row per run. The segments end before the test split of
`data=pjme`. Without `--input` it summarises the existing table.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.common.spreadsheet import write_frame
from forecast.data.sources import load_source
from forecast.data.windows import Windows
from forecast.evaluation.mixing import MIXING_WEIGHTS, MixingSums
from forecast.model.informer import Informer
from forecast.runs.settings import Settings
from forecast.training.prepare import prepare
from forecast.training.train import train
from tests.support.small import compose

ROWS, STRETCHES, HORIZONS = 14_400, 8, (96, 336)
LEVELS = {"last_patch": "last_patch", "window": "learned"}
"""Values of `model.level` with their `model.queries`: the current and the former model."""


def stretches(path: Path) -> Iterator[pd.DataFrame]:
    """Yield the segments of an hourly file; average repeated hours and interpolate missing ones."""
    table = pd.read_csv(path)
    time, value = table.columns[:2]
    series = table.groupby(pd.to_datetime(table[time]))[value].mean().asfreq("h").interpolate()
    for number in range(STRETCHES):
        part = series.iloc[number * ROWS : (number + 1) * ROWS]
        yield part.rename("load").rename_axis("date").reset_index()


def configuration(source: Path, horizon: int, level: str, *words: str) -> dict[str, Any]:
    """Return the ETTh1 configuration for the segment in the file `source`."""
    split = "data.split={train: 8640, validation: 2880, test: 2880}"
    model = [f"model.level={level}", f"model.queries={LEVELS[level]}"]
    place = [f"data.path={source}", f"output_dir={source.parent}", "training.progress=false"]
    return compose("experiment=etth1", "data=csv", split, f"horizon={horizon}", *model, *place, *words)


@torch.inference_mode()
def relative(network: Informer, windows: Windows) -> list[float]:
    """Return the MSE of the mixture at each mixing weight, relative to the linear path."""
    sums = MixingSums.zeros(shrinkage=1)
    for batch in windows.batches(256, range(len(windows))):
        sums.update(*network.forward_apart(*batch[:4]), batch.future, batch.future_observed)
    linear, cross, correction = sums.squared.tolist()
    return [(linear + 2 * weight * cross + weight**2 * correction) / linear for weight in MIXING_WEIGHTS]


def row_of(config: dict[str, Any]) -> dict[str, Any]:
    """Train and return a row: the selected mixing weight, and the relative MSE of both splits at every weight."""
    with redirect_stdout(StringIO()):
        run, result = train(config)
        settings = Settings.parse(config)
        data = prepare(settings, load_source(settings.data)).data
    network = run.load_model().eval()
    row = {"best_step": result["model"]["best_step"], "share": result["model"]["mixing_weight"]}
    for part in ("validation", "test"):
        ratios = relative(network, data.parts[part])
        row |= {f"{part}_at_{share:.1f}": round(ratio, 4) for share, ratio in zip(MIXING_WEIGHTS, ratios, strict=True)}
    return row


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over the segments: the best mixing weight of each split, and the relative test MSE at two weights.

    The two are the selected weight (`at_selected`) and the best weight on validation (`at_validation_best`). The MSE is
    relative to the linear path and is a parabola of the weight.
    """
    curves = {part: _parabolas(rows, part) for part in ("validation", "test")}
    best = {part: [float(np.clip(-b / (2 * a), 0, 1)) for a, b, _ in fits] for part, fits in curves.items()}
    at = {"selected": list(rows["share"]), "validation_best": best["validation"]}
    errors = {
        f"at_{name}": [float(np.polyval(curve, weight)) for curve, weight in zip(curves["test"], weights, strict=True)]
        for name, weights in at.items()
    }
    table = rows[["level", "horizon"]].assign(validation_best=best["validation"], test_best=best["test"], **errors)
    return table.groupby(["level", "horizon"]).mean().round(3)


def _parabolas(rows: pd.DataFrame, part: str) -> list[np.ndarray]:
    points = rows[[f"{part}_at_{share:.1f}" for share in MIXING_WEIGHTS]].to_numpy()
    return [np.polyfit(MIXING_WEIGHTS, ratios, 2) for ratios in points]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.stretches", description=__doc__)
    parser.add_argument("--input", type=Path, help="hourly series as CSV; without it, only summarise the output")
    parser.add_argument("--output", type=Path, required=True, help="CSV file with a row per run")
    options = parser.parse_args()
    if options.input is not None:
        _fill(options.input, options.output)
    print(summary(pd.read_csv(options.output)).to_string())


def _fill(source: Path, output: Path) -> None:
    rows = []
    for number, stretch in enumerate(stretches(source)):
        for horizon in HORIZONS:
            for level in LEVELS:
                with tempfile.TemporaryDirectory() as folder:
                    hours = Path(folder) / "hours.csv"
                    stretch.to_csv(hours, index=False)
                    row = row_of(configuration(hours, horizon, level))
                begins = f"{stretch['date'].iloc[0]:%Y-%m-%d}"
                rows.append({"stretch": number, "begins": begins, "horizon": horizon, "level": level, **row})
                with output.open("wb") as file:
                    write_frame(file, pd.DataFrame(rows), index=False)
                print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
