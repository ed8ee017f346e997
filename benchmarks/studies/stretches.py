"""Stretches of a long series, each split as ETTh1 is: what validation likes against what the time after it likes.

`python -m benchmarks.studies.stretches --input PJME_hourly.csv --output stretches.csv` trains the recipe of
ETTh1 on each and scores every share of the weighted mean, a row a run. The stretches end before the test part of
`data=pjme` begins. Without `--input` it sums up the table that is there.
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
from forecast.data.windows import Windows
from forecast.evaluation.mixing import MIXING_WEIGHTS, MixingSums
from forecast.model.informer import Informer
from forecast.runs.settings import Settings
from forecast.training.prepare import prepare
from forecast.training.train import train
from tests.support.small import compose

ROWS, STRETCHES, HORIZONS = 14_400, 8, (96, 336)
LEVELS = {"last_patch": "last_patch", "window": "learned"}
"""What windows are counted from, with the queries that go with it: the model as it is, and as it was."""


def stretches(path: Path) -> Iterator[pd.DataFrame]:
    """Yield the stretches of a file of hours; doubled hours become their mean, absent ones a straight line."""
    table = pd.read_csv(path)
    time, value = table.columns[:2]
    series = table.groupby(pd.to_datetime(table[time]))[value].mean().asfreq("h").interpolate()
    for number in range(STRETCHES):
        part = series.iloc[number * ROWS : (number + 1) * ROWS]
        yield part.rename("load").rename_axis("date").reset_index()


def configuration(source: Path, horizon: int, level: str, *words: str) -> dict[str, Any]:
    """Return the configuration of ETTh1's recipe on the stretch in the file `source`."""
    split = "data.split={train: 8640, validation: 2880, test: 2880}"
    model = [f"model.level={level}", f"model.queries={LEVELS[level]}"]
    place = [f"data.path={source}", f"output_dir={source.parent}", "training.progress=false"]
    return compose("experiment=etth1", "data=csv", split, f"horizon={horizon}", *model, *place, *words)


@torch.inference_mode()
def relative(network: Informer, windows: Windows) -> list[float]:
    """Return the MSE of the mean at each share over that of the linear path."""
    sums = MixingSums.zeros(shrinkage=1)
    for batch in windows.batches(256, range(len(windows))):
        sums.update(*network.forward_apart(*batch[:4]), batch.future, batch.future_observed)
    own, both, other = sums.squared.tolist()
    return [(own + 2 * share * both + share**2 * other) / own for share in MIXING_WEIGHTS]


def row_of(config: dict[str, Any]) -> dict[str, Any]:
    """Train and give a row: the share that was taken, and on both parts the relative MSE at every share."""
    with redirect_stdout(StringIO()):
        run, result = train(config)
        data = prepare(Settings.parse(config)).data
    network = run.load_model().eval()
    row = {"best_step": result["model"]["best_step"], "share": result["model"]["share"]}
    for part in ("validation", "test"):
        found = relative(network, data.parts[part])
        row |= {f"{part}_at_{share:.1f}": round(ratio, 4) for share, ratio in zip(MIXING_WEIGHTS, found, strict=True)}
    return row


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over the stretches: the share that each part likes, and what two shares make of the test MSE.

    These are the share that was taken and the whole of what validation likes; the MSE is over the linear path's, and
    a parabola of the share.
    """
    curves = {part: _parabolas(rows, part) for part in ("validation", "test")}
    liked = {part: [float(np.clip(-b / (2 * a), 0, 1)) for a, b, _ in each] for part, each in curves.items()}
    told = rows[["level", "horizon"]].assign(
        validation_likes=liked["validation"],
        test_likes=liked["test"],
        taken=[float(np.polyval(curve, share)) for curve, share in zip(curves["test"], rows["share"], strict=True)],
        whole=[
            float(np.polyval(curve, share)) for curve, share in zip(curves["test"], liked["validation"], strict=True)
        ],
    )
    return told.groupby(["level", "horizon"]).mean().round(3)


def _parabolas(rows: pd.DataFrame, part: str) -> list[np.ndarray]:
    points = rows[[f"{part}_at_{share:.1f}" for share in MIXING_WEIGHTS]].to_numpy()
    return [np.polyfit(MIXING_WEIGHTS, each, 2) for each in points]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.stretches", description=__doc__)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--output", type=Path, required=True)
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
                    found = row_of(configuration(hours, horizon, level))
                begins = f"{stretch['date'].iloc[0]:%Y-%m-%d}"
                rows.append({"stretch": number, "begins": begins, "horizon": horizon, "level": level, **found})
                with output.open("wb") as file:
                    write_frame(file, pd.DataFrame(rows), index=False)
                print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
