"""The weights of the package, from a finished `experiment=pretrain`, and a picture of the series it saw.

`python -m benchmarks.pretrained --run outputs/generated/…` writes the weights and their card;
`--picture docs/images/generated-series.png` draws twelve series and three groups.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.data.generated.groups import draw_group
from forecast.data.generated.prior import draw_series
from forecast.pretrained.weights import CARD, FOLDER, NAME, write_pretrained
from forecast.runs.run import RESULT, Architecture, Run

TRAINED_ON = "generated series only: no measured value (docs/explanation/generated-series.md)"

LIMITS = (
    "forecasts each column from its own past: no known covariates, no other columns",
    "reads at most 512 steps; a season longer than about 300 steps it has rarely seen",
    "up to 192 steps at once; longer horizons are made of several",
)

SERIES = 12
"""Series of the picture."""


def write_weights(run: Run, folder: Path) -> None:
    """Write the weights of a run and their card; a run that started from weights adds a stage to their card."""
    result, manifest = read_json(run.path / RESULT), run.manifest()
    if result is None or result["config"]["data"]["source"] != "generated":
        raise InputError(f"{run.path}: is not a finished experiment=pretrain")
    config, speed = result["config"], result["speed"]
    if config["data"].get("drivers", 0) or config["data"].get("channels", 1) > 1:
        raise InputError(f"{run.path}: has drivers or channels: the weights of the package read one column alone")
    stage: dict[str, Any] = {
        "command": command_of(config),
        "commit": result["commit"],
        "seed": config["seed"],
        "data_seed": config["data"]["seed"],
        "steps": result["model"]["steps"],
        "best_step": result["model"]["best_step"],
        "windows": result["model"]["steps"] * config["training"]["batch_size"],
        "machine": result["device"],
        "hours": round(speed["fit_seconds"] / 3600, 2),
        "test_sql_of_generated": round(result["test"]["intervals"]["sql"], 4),
    }
    earlier = (read_json(folder / CARD) or {}).get("stages", []) if config.get("start_from") else []
    architecture = asdict(Architecture.from_dict(manifest["architecture"]))
    facts = {"trained_on": TRAINED_ON, "limits": LIMITS, "stages": [*earlier, stage], "architecture": architecture}
    write_pretrained(folder, run.load_model(), facts)
    print(f"{folder}: {stage['steps']:,} steps, {stage['hours']} hours")


def command_of(config: dict[str, Any]) -> str:
    """Return the command of a stage, with what it changes of the experiment."""
    words = ["python", "train.py", "experiment=pretrain", f"training.max_steps={config['training']['max_steps']}"]
    words += [
        f"data.series={config['data']['series']}",
        f"data.seed={config['data']['seed']}",
        f"seed={config['seed']}",
    ]
    if (start := config.get("start_from")) is not None:
        words += [f"start_from={start if start == NAME else '…'}", f"optimizer.lr={config['optimizer']['lr']:g}"]
    return shlex.join(words)


def draw(path: Path, seed: int = 7, steps: int = 704) -> None:
    """Draw twelve generated series, and a row of groups: two channels in colours above a driver in grey."""
    with mpl.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(5, 3, figsize=(9, 7.5), layout="constrained")
        for number, panel in enumerate(axes.flat):
            random = np.random.default_rng([seed, number])
            if number < SERIES:
                panel.plot(draw_series(random, steps), linewidth=0.7)
            else:
                channels, drivers = draw_group(random, steps // 2, channels=2, drivers=1)
                panel.plot(channels / channels.std(0), linewidth=0.7)
                panel.plot(0.5 * drivers - 6, linewidth=0.7, color="0.5")
            panel.set_yticks([])
            panel.margins(x=0)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pretrained", description=__doc__)
    parser.add_argument("--run", type=Path, help="folder of a finished experiment=pretrain")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the weights")
    parser.add_argument("--picture", type=Path, help="file of a picture of twelve series and three groups")
    options = parser.parse_args(arguments)

    def tool() -> None:
        if options.run is not None:
            write_weights(Run.open(options.run), options.folder)
        if options.picture is not None:
            draw(options.picture)

    return finish(tool)


if __name__ == "__main__":
    sys.exit(main())
