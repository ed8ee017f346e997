"""The result as a person reads it: one table and the next two commands."""

import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.metrics import skill
from forecast.run import Run

NAMES = {
    "model": "model",
    "linear_path": "its linear path alone",
    "last_value": "last value",
    "seasonal_naive": "seasonal naive",
    "linear": "linear (ridge)",
}


def result_table(result: Mapping[str, Any]) -> Table:
    """Give a row a forecaster: MSE and MAE of the test part on z-scores and in original units."""
    windows = result["data"]["windows"]["test"]
    table = Table(
        title=f"{result['data']['name']}: all {windows:,} test windows, horizon {result['config']['horizon']}"
    )
    table.add_column("forecast", no_wrap=True)
    for heading in ("MSE", "MAE", "MSE (units)", "MAE (units)", "skill"):
        table.add_column(heading, justify="right")
    rows = {"model": result, "linear_path": result["linear_path"], **result["baselines"]}
    naive = result["baselines"]["seasonal_naive"]
    for name, row in rows.items():
        if row is None:
            table.add_row(NAMES[name], *["none"] * 5)
            continue
        scaled, original = row["test"]["scaled"], row["test"]["original"]
        gain = skill(scaled["mse"], naive["test"]["scaled"]["mse"] if naive else 0.0)
        cells = [f"{scaled['mse']:.4f}", f"{scaled['mae']:.4f}"]
        cells += [f"{original['mse']:.5g}", f"{original['mae']:.5g}", f"{gain:+.1%}"]
        table.add_row(NAMES[name], *cells, style="bold" if name == "model" else None)
    table.caption = "MSE, MAE: on z-scores; (units): in original units; skill: against seasonal naive, on MSE"
    return table


def print_table(result: Mapping[str, Any]) -> None:
    """Print the table, wide enough wherever it goes."""
    Console(width=max(Console().width, 92)).print(result_table(result))


def print_next_commands(run: Run, result: Mapping[str, Any]) -> None:
    """Print which weights were kept, where the run is, and the two commands that make use of it."""
    folder = shlex.quote(str(run.path))
    source = shlex.quote(result["data"]["path"] or str(run.path / "input.csv"))
    best, steps = result["model"]["best_step"], result["model"]["steps"]
    start = " (the closed form itself: on validation, training added nothing to it)" if best == 0 else ""
    print(f"best on validation: step {best:,} of {steps:,}{start}; {result['status']}")
    print(f"run folder: {folder}")
    print(f"look at it: tensorboard --logdir {shlex.quote(str(run.path.parent))}")
    print(f"forecast:   python -m forecast.predict --run {folder} --input {source} --output forecast.csv")
