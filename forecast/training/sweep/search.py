"""Table of the jobs of a search: the validation figures of each configuration, without the test split."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table as TerminalTable

from forecast.common.files import look_up, read_json, replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Table
from forecast.evaluation.significance import FEWEST, block_means, surely_below_zero
from forecast.runs.read import read_jobs
from forecast.runs.run import ERRORS, RESULT
from forecast.training.sweep.cells import with_cells
from forecast.training.sweep.table import cell, print_unfinished

FILE = "search.csv"

OF_LINEAR = "of_linear"

SURELY = "surely_worse"

CONFIDENCE = 0.9
"""Confidence level at which one choice counts as better than another on validation."""

FIGURES = ("validation_mse", "validation_mae", OF_LINEAR, "best_step", "steps", "parameters", "fit_seconds")

CAPTION = (
    "of linear: validation MSE divided by the MSE of the best linear map (ridge) of the cell, mean over cells; least, "
    "most: minimum and maximum over cells; worse: cells in which the first choice is significantly better "
    f"({100 * CONFIDENCE:.0f} % confidence, this pair only), of the cells with at least {FEWEST} blocks of windows; "
    "n: runs. Choose the simplest of the choices that are not worse. The test split is not used. All cells: search.csv"
)


def report_search(sweep: Path) -> None:
    """Print the ranking of the configurations on validation, and write their cells to `search.csv`, best first."""
    jobs = read_jobs(sweep)
    if jobs.empty:
        return
    cells = search_cells(jobs)
    with replacing(sweep / FILE) as file:
        write_frame(file, cells, index=False, float_format="%.6g")
    Console(width=max(Console().width, 120)).print(search_table(ranking(cells), sweep.name))
    print_unfinished(jobs)
    print(f"sweep folder: {shlex.quote(str(sweep))} ({FILE})", flush=True)


def search_cells(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per choice and cell with the means over seeds, the best choice first.

    `jobs` come from `forecast.runs.read.read_jobs`.
    """
    finished = with_cells(jobs[jobs["of"].notna()])
    rows: list[dict[str, Any]] = []
    for (choice, place), group in finished.groupby(["choice", "cell"], sort=False):
        linear = [look_up(each["linear"], "validation.scaled.mse") for each in group["baselines"]]
        numbers = group.assign(**{OF_LINEAR: linear})[list(FIGURES)].astype(float).mean()
        facts = {"choice": choice, "cell": place, "n": len(group), "folders": list(group["folder"])}
        rows.append(facts | dict(numbers) | {"device": "; ".join(sorted(set(group["device"])))})
    cells = pd.DataFrame(rows, columns=["choice", "cell", "n", *FIGURES, "device", "folders"])
    # the same linear map for all choices: some look-backs have a worse one
    least = cells.groupby("cell")[OF_LINEAR].transform("min")
    cells[OF_LINEAR] = cells["validation_mse"] / least
    order = {choice: place for place, choice in enumerate(_in_order(cells)["choice"])}
    cells = cells.sort_values("choice", key=lambda column: column.map(order), kind="stable", ignore_index=True)
    cells[SURELY] = _surely_worse(cells)
    return cells[["choice", "cell", "n", *FIGURES, SURELY, "device"]]


def _surely_worse(cells: pd.DataFrame) -> list[bool | None]:
    """Return whether the best choice, whose rows come first, is significantly better in each cell; None if unknown."""
    best: dict[str, pd.Series] = {}
    verdicts: list[bool | None] = []
    for row in cells.to_dict("records"):
        errors = _validation_errors(row["folders"])
        if row["choice"] == cells["choice"].iloc[0]:
            best[row["cell"]] = errors
        if errors.empty or row["cell"] not in best:
            verdicts.append(None)
            continue
        difference = (best[row["cell"]] - errors).dropna()  # of the windows of both
        means = block_means(torch.tensor(difference.to_numpy()), _overlap(Path(row["folders"][0])))
        verdicts.append(surely_below_zero(means, CONFIDENCE))
    return verdicts


def _validation_errors(folders: Sequence[str]) -> pd.Series:
    """Return the MSE of each validation window by origin, averaged over runs; empty if a run has no errors file."""
    tables = []
    for folder in folders:
        path = Path(folder) / ERRORS
        if not path.is_file():
            return pd.Series(dtype=float)
        table = pd.read_parquet(path, columns=["part", "origin", "mse"])
        tables.append(table[table["part"] == "validation"].set_index("origin")["mse"])
    return pd.concat(tables, axis=1).mean(axis=1).sort_index()


def _overlap(folder: Path) -> int:
    """Return the number of consecutive windows that overlap in their targets, the first included."""
    config = read_json(folder / RESULT)["config"]
    if look_up(config, "data.window_look_back") is not None:  # generated windows share no target
        return 1
    return math.ceil(int(config["horizon"]) / int(config["training"]["evaluation_stride"]))


def ranking(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `_in_order` with the number of significantly worse cells and of comparable cells."""
    groups = cells.groupby("choice")[SURELY]
    ranked = _in_order(cells)
    return ranked.assign(
        worse=ranked["choice"].map(groups.agg(lambda verdicts: verdicts.eq(True).sum())),
        comparable=ranked["choice"].map(groups.agg("count")),
    )


def _in_order(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per choice, best first: cells, runs, and mean, minimum and maximum of the ratio to the linear map.

    Choices with fewer cells come last: means over different cells are not comparable.
    """
    groups = cells.groupby("choice", sort=False)
    ranked = groups.agg(
        cells=("cell", "size"),
        n=("n", "sum"),
        mean=(OF_LINEAR, "mean"),
        least=(OF_LINEAR, "min"),
        most=(OF_LINEAR, "max"),
        fit_seconds=("fit_seconds", "mean"),
    ).reset_index()
    return ranked.sort_values(["cells", "mean"], ascending=[False, True], kind="stable", ignore_index=True)


def search_table(ranked: pd.DataFrame, name: str) -> TerminalTable:
    """Return the ranking as a table for the terminal."""
    cells = [
        [
            *(str(row[key]) for key in ("choice", "cells", "n")),
            *(f"{row[key]:.4f}" for key in ("mean", "least", "most")),
            f"{row['worse']} of {row['comparable']}",
            cell("fit_seconds", row),
        ]
        for row in ranked.to_dict("records")
    ]
    headings = ("choice", "cells", "n", "of linear", "least", "most", "worse", "min")
    return Table(f"{name}: search", headings, cells, (CAPTION,)).to_terminal(compact=True)
