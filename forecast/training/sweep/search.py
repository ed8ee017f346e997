"""The table over the jobs of a search: each configuration's validation figures, and nothing of the test part."""

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
from forecast.training.sweep.table import print_unfinished

FILE = "search.csv"

OF_LINEAR = "of_linear"

SURELY = "surely_worse"

CONFIDENCE = 0.9
"""Confidence that validation must give before one choice counts as better than another."""

FIGURES = ("validation_mse", "validation_mae", OF_LINEAR, "best_step", "steps", "parameters", "fit_seconds")

CAPTION = (
    "of linear: validation MSE over that of the best linear map (ridge) of a cell's runs, the mean over the cells; "
    f"least, most: of a single cell; worse: cells in which the first choice is surely better, at {CONFIDENCE:.0%} for "
    f"that pair alone, of those with {FEWEST} blocks of windows, in which it can be said: of choices that are not, the "
    "simplest will do; n: runs. The test part is not looked at. Each cell: search.csv"
)


def report_search(sweep: Path) -> None:
    """Print how the configurations rank on validation, and write each of their cells to `search.csv`, best first."""
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
    """Return a row per configuration and cell (horizon, data): means over its seeds, those of the best choice first.

    `jobs` are those of `forecast.runs.read.read_jobs`.
    """
    finished = with_cells(jobs[jobs["of"].notna()])
    rows: list[dict[str, Any]] = []
    for (choice, cell), group in finished.groupby(["choice", "cell"], sort=False):
        linear = [look_up(each["linear"], "validation.scaled.mse") for each in group["baselines"]]
        numbers = group.assign(**{OF_LINEAR: linear})[list(FIGURES)].astype(float).mean()
        facts = {"choice": choice, "cell": cell, "n": len(group), "folders": list(group["folder"])}
        rows.append(facts | dict(numbers) | {"device": "; ".join(sorted(set(group["device"])))})
    cells = pd.DataFrame(rows, columns=["choice", "cell", "n", *FIGURES, "device", "folders"])
    # one map for all: a look-back may have a worse one of its own
    least = cells.groupby("cell")[OF_LINEAR].transform("min")
    cells[OF_LINEAR] = cells["validation_mse"] / least
    order = {choice: place for place, choice in enumerate(_in_order(cells)["choice"])}
    cells = cells.sort_values("choice", key=lambda column: column.map(order), kind="stable", ignore_index=True)
    cells[SURELY] = _surely_worse(cells)
    return cells[["choice", "cell", "n", *FIGURES, SURELY, "device"]]


def _surely_worse(cells: pd.DataFrame) -> list[bool | None]:
    """Return for each cell whether the best choice, whose cells come first, is surely better; None: not known."""
    best: dict[str, pd.Series] = {}
    said: list[bool | None] = []
    for row in cells.to_dict("records"):
        errors = _validation_errors(row["folders"])
        if row["choice"] == cells["choice"].iloc[0]:
            best[row["cell"]] = errors
        if errors.empty or row["cell"] not in best:
            said.append(None)
            continue
        difference = (best[row["cell"]] - errors).dropna()  # of the windows that both have
        means = block_means(torch.tensor(difference.to_numpy()), _overlap(Path(row["folders"][0])))
        said.append(surely_below_zero(means, CONFIDENCE))
    return said


def _validation_errors(folders: Sequence[str]) -> pd.Series:
    """Return the MSE of each validation window by its origin, the mean over runs; empty if a run has none."""
    tables = []
    for folder in folders:
        path = Path(folder) / ERRORS
        if not path.is_file():
            return pd.Series(dtype=float)
        table = pd.read_parquet(path, columns=["part", "origin", "mse"])
        tables.append(table[table["part"] == "validation"].set_index("origin")["mse"])
    return pd.concat(tables, axis=1).mean(axis=1).sort_index()


def _overlap(folder: Path) -> int:
    """Return how many consecutive windows share targets with the first of them."""
    config = read_json(folder / RESULT)["config"]
    return math.ceil(int(config["horizon"]) / int(config["training"]["evaluation_stride"]))


def ranking(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `_in_order` with the numbers of cells that are surely worse and that are comparable."""
    groups = cells.groupby("choice")[SURELY]
    ranked = _in_order(cells)
    return ranked.assign(
        worse=ranked["choice"].map(groups.agg(lambda said: said.eq(True).sum())),
        told=ranked["choice"].map(groups.agg("count")),
    )


def _in_order(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per choice, best first: cells and runs, mean, minimum and maximum of the ratio to the linear map.

    A choice without a cell that others have comes last: means over other cells do not compare.
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
            f"{row['worse']} of {row['told']}",
            f"{row['fit_seconds'] / 60:.2g}",
        ]
        for row in ranked.to_dict("records")
    ]
    headings = ("choice", "cells", "n", "of linear", "least", "most", "worse", "min")
    return Table(f"{name}: a search", headings, cells, (CAPTION,)).to_terminal(compact=True)
