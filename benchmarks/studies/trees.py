"""Gradient-boosted trees beside finished runs, on validation rows: `python -m benchmarks.studies.trees --runs outputs`.

Each run is of one public command with `evaluation.baselines=[trees]`, which its row names.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.published.record import add_row
from forecast.common.cli import finish
from forecast.common.files import look_up, read_json
from forecast.runs.run import RESULT

RECORD = Path("benchmarks/records/published/trees.csv")

FACTS = {
    "data": "data.name",
    "windows": "data.windows.validation",
    **{
        f"{name}_{score}": f"{path}validation.{row}scaled.{score}"
        for score in ("mse", "mae")
        for name, path, row in (
            ("model", "", ""),
            ("trees", "baselines.trees.", ""),
            ("mean", "baselines.trees.", "mean_with_model."),
            ("ridge", "baselines.linear.", ""),
            ("naive", "baselines.seasonal_naive.", ""),
        )
    },
    "model_seconds": "speed.fit_seconds",
    "trees_seconds": "baselines.trees.fit.seconds",
    "trees_count": "baselines.trees.fit.trees",
    "command": "command",
    "commit": "commit",
    "machine": "device",
}
"""Columns of the record, and their paths in a result; errors are on z-scores of validation windows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.trees", description=__doc__)
    parser.add_argument("--runs", nargs="+", type=Path, required=True, help="folders that hold finished runs")
    parser.add_argument("--output", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _add(options.runs, options.output))


def _add(folders: Sequence[Path], record: Path) -> None:
    """Add a row for each finished run with trees."""
    for path in sorted(path for folder in folders for path in folder.rglob(RESULT)):
        result = read_json(path)
        if look_up(result, "baselines.trees") is not None:
            row = {name: look_up(result, key) for name, key in FACTS.items()}
            row["command"] = " ".join(word for word in row["command"].split() if not word.startswith("output_dir="))
            add_row(record, row)


if __name__ == "__main__":
    sys.exit(main())
