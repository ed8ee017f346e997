"""The errors of each test window, by its origin: what paired comparisons are made of."""

from dataclasses import dataclass

import pandas as pd

from forecast.data.table import read_table
from forecast.report.settings import Setting
from forecast.runs.reading import FinishedRun
from forecast.runs.run import ERRORS


@dataclass(frozen=True)
class Windows:
    """The test windows of a setting.

    Parameters
    ----------
    errors
        Each window's MSE on z-scores, the mean over the seeds, by origin, rising; None where a run's file
        cannot be used.
    why
        What is wrong with it then.
    """

    errors: "pd.Series[float] | None"
    why: str = ""


def read_windows(setting: Setting) -> Windows:
    """Give the test windows that all runs of a setting have scored."""
    read = []
    for run in setting.runs:
        errors = _read(run)
        if isinstance(errors, str):
            return Windows(None, f"{run.name}: {errors}")
        read.append(errors)
    return Windows(pd.concat(read, axis=1, join="inner").dropna().mean(axis=1).sort_index())


def _read(run: FinishedRun) -> "pd.Series[float] | str":
    """Give a run's errors, or what is wrong with them."""
    path = run.folder / ERRORS
    if not path.is_file():
        return f"has no {ERRORS}"
    try:
        table = read_table(path)[["part", "origin", "mse"]]
    except (OSError, ValueError, KeyError):  # a refusal is a ValueError too
        return f"{ERRORS} is not readable"
    test = table[table["part"] == "test"]
    scored = run.result["data"]["windows"]["test"]
    if len(test) != scored or not test["origin"].is_unique:
        return f"{ERRORS} has {len(test):,} test windows, the result {scored:,}"
    return pd.Series(test["mse"].to_numpy(float), index=pd.DatetimeIndex(test["origin"]))
