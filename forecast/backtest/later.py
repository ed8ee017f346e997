"""An earlier forecast beside what came: its table in any layout, its scores, and the rows outside their intervals."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.backtest.scores import LEVEL, Errors, is_inside, levels_of
from forecast.common.errors import InputError
from forecast.common.text import counted, three_digits
from forecast.evaluation.significance import mean_interval
from forecast.tables.files import read_table, tidy_names
from forecast.tables.reading import Reading
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.series import read_known
from forecast.tables.times.forms import holds_times

_ENDS = re.compile(r"(naive|(?:lower|upper)_[0-9.]+)")

SHOWN = 12
"""Largest number of column names in a message."""


@dataclass(frozen=True)
class Earlier:
    """A forecast that was made earlier.

    `rows` have the layout of a backtest: origin, time, step, series, target (of a long table), value, lower_80, …,
    naive. `ids` are the columns that name a series of a long table, and `time` is the time column.
    """

    rows: pd.DataFrame
    ids: list[str]
    time: str


def read_forecast(path: Path) -> Earlier:
    """Return the forecast in a file.

    The file has a row per time with a column per target, or a row per series and time, as `forecast predict` writes
    them; the columns of a long table before its times are ids.
    """
    frame, time = _raw(path)
    columns = list(map(str, frame.columns))
    if {"series", "value"} <= set(columns):
        names = ["value", *(name for name in columns if _ENDS.fullmatch(name))]
        return Earlier(_with_steps(_values(frame, time, names, ["series"], path), path), [], time)
    ids = columns[: columns.index(time)]
    rest = columns[len(ids) + 1 :]
    targets = [name for name in rest if not any(_is_of(name, other) for other in rest)]
    if not targets:
        raise InputError(f"{path}: has no column with a forecast: name a table that forecast predict wrote")
    table = _values(frame, time, rest, ids, path)
    parts = []
    for target in targets:
        own = {name: name.removeprefix(f"{target}_") for name in rest if _is_of(name, target)}
        part = table[["time", "series", target, *own]].rename(columns={target: "value", **own})
        parts.append(part.assign(target=target) if ids else part.assign(series=target))
    return Earlier(_with_steps(pd.concat(parts, ignore_index=True), path), ids, time)


def _raw(path: Path, time: str | None = None) -> tuple[pd.DataFrame, str]:
    """Return the raw table of a file and its time column: `time` if it has it, else the first that holds times."""
    frame, _ = tidy_names(read_table(path), str(path))
    if isinstance(frame.index, pd.DatetimeIndex):
        frame = frame.rename_axis(index=str(frame.index.name or "date")).reset_index()
    if time in frame:
        return frame, str(time)
    times = [str(name) for name in frame if holds_times(frame[name], None)]
    if not times:
        raise InputError(f"{path}: no column holds times: name a table with one, or correct its dates")
    return frame, times[0]


def _is_of(name: str, target: str) -> bool:
    """Return whether a column is an interval end or the naive forecast of a target."""
    return name.startswith(f"{target}_") and _ENDS.fullmatch(name.removeprefix(f"{target}_")) is not None


def _values(
    frame: pd.DataFrame, time: str, names: Sequence[str], ids: Sequence[str], path: Path, duplicates: str = "error"
) -> pd.DataFrame:
    """Return columns of numbers with their time and series, the labels of several id columns joined by a comma."""
    roles = Roles(targets=[], known=list(names), numeric=list(names), ids=list(ids))
    read = read_known(frame, roles, Reading(time_column=time, policies=Policies(duplicates)), str(path))
    series = [",".join(name) for name in read.ids] if ids else [""] * len(read.frame)
    return read.frame.reset_index(names="time").assign(series=np.array(series, dtype=object))


def _with_steps(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the table with the origin of each series, the first time, and the step of each row."""
    if table["value"].isna().all():
        raise InputError(f"{path}: the forecast has no value: name a table that forecast predict wrote")
    keys = _keys(table)
    grouped = table.groupby(keys, sort=False)["time"]
    step = grouped.rank(method="first").astype(np.int64)
    ends = [name for name in table if _ENDS.fullmatch(str(name))]
    return table.assign(origin=grouped.transform("min"), step=step)[["origin", "time", "step", *keys, "value", *ends]]


def came(forecast: Earlier, path: Path) -> pd.DataFrame:
    """Return the rows of a forecast with the truth from a file; raise InputError if the file has none of it."""
    rows, (frame, time) = forecast.rows, _raw(path, forecast.time)
    truth = _truth(frame, time, forecast, path)
    if (truth["time"].dt.tz is None) != (rows["time"].dt.tz is None):
        raise InputError(f"{path}: only its times, or only the times of the forecast, have a zone: write both alike")
    if rows["time"].dt.tz is not None:
        truth = truth.assign(time=truth["time"].dt.tz_convert(rows["time"].dt.tz))
    keys = ["time", *_keys(rows)]
    merged = rows.merge(truth[[*keys, "truth"]], on=keys, how="left")
    if merged["truth"].isna().all():
        first, last = rows["time"].min(), rows["time"].max()
        raise InputError(f"{path}: has no value from {first} to {last}, which were forecast: name a later table")
    return merged


def _keys(rows: pd.DataFrame) -> list[str]:
    return [name for name in ("series", "target") if name in rows]


def _truth(frame: pd.DataFrame, time: str, forecast: Earlier, path: Path) -> pd.DataFrame:
    """Return the values of a table: the columns time, series, target (of a long table) and truth."""
    rows, ids = forecast.rows, forecast.ids
    targets = list(map(str, rows["target" if ids else "series"].unique()))
    present = [name for name in targets if name in frame]
    if not present and not ids and {"series", "value"} <= set(frame):
        return _values(frame, time, ["value"], ["series"], path, "mean").rename(columns={"value": "truth"})
    if missing := [name for name in (*ids, *targets[: not present]) if name not in frame]:
        raise InputError(
            f"{path}: has no column {missing[0]!r}, which the forecast has, only "
            f"{', '.join(map(str, frame.columns[:SHOWN]))}: name the table of the values that came"
        )
    read = _values(frame, time, present, ids, path, "mean")
    long = read.melt(["time", "series"], present, "target", "truth")
    return long if ids else long.drop(columns="series").rename(columns={"target": "series"})


def lines(errors: Errors, table: pd.DataFrame) -> list[str]:
    """Return how a forecast did, in lines; `table` also has the rows whose truth has not come."""
    rows, total = errors.rows, errors.total()
    unit = ", in standard deviations of each series" if errors.is_scaled else ""
    text = [
        f"{len(rows):,} of {counted(len(table), 'value')} have come, {rows['time'].min()} to {rows['time'].max()}",
        f"MAE {three_digits(total['mae'])}, RMSE {three_digits(math.sqrt(total['mse']))}{unit}{_beside(errors, total)}",
    ]
    for level in errors.levels:
        covered = errors.by(["time"])[f"covered_{level}"].to_numpy()
        limits = _interval(covered, 100, 0, 100)
        text.append(f"{level} % intervals cover {100 * total[f'covered_{level}']:.1f} % of the values{limits}")
    return [*text, _growth(errors)]


def _beside(errors: Errors, total: dict[str, float]) -> str:
    """Return the error of the naive forecast, and how much lower that of the model is."""
    if "naive_mae" not in total:
        return ""
    text = (
        f"; naive forecast: MAE {three_digits(total['naive_mae'])}, RMSE {three_digits(math.sqrt(total['naive_mse']))}"
    )
    if total["naive_mae"] <= 0:
        return text
    steps = errors.by(["time"])
    share = 100 / total["naive_mae"]
    limits = _interval((steps["mae"] - steps["naive_mae"]).to_numpy(), share)
    return f"{text}; the MAE differs by {share * (total['mae'] - total['naive_mae']):+.1f} %{limits}"


def _interval(values: np.ndarray, scale: float, least: float = -math.inf, most: float = math.inf) -> str:
    """Return the confidence interval of the mean of values in order of time, in brackets."""
    found = mean_interval(values, 1, level=LEVEL)
    if found is None:
        return " (too few times for an interval)"
    low, high = (min(max(scale * end, least), most) for end in (found.low, found.high))
    return f" ({LEVEL:.0%} interval {low:.1f} to {high:.1f} %)".replace("95%", "95 %")


def slope(size: np.ndarray, overlap: int = 1, level: float = LEVEL) -> tuple[float, float, float] | None:
    """Return the slope of errors (h,) along the horizon, per step, and its confidence interval; None if too few.

    `overlap` neighbours share data.

    Notes
    -----
    The slope is by least squares. Its interval is the block bootstrap of the mean of (step - mean step) · residual, so
    that neighbouring errors may be correlated.
    """
    step = np.arange(len(size)) - (len(size) - 1) / 2
    spread = float((step**2).sum())
    if spread == 0:
        return None
    value = float((step * size).sum() / spread)
    scores = len(size) * step * (size - size.mean() - value * step) / spread
    found = mean_interval(scores, overlap, level=level)
    return None if found is None else (value, value + found.low, value + found.high)


def _growth(errors: Errors) -> str:
    """Return whether the error grows along the horizon."""
    found = slope(errors.by(["step"])["mae"].to_numpy())
    if found is None:
        return "Along the horizon: too few steps to say whether the error grows"
    value, low, high = found
    word = "grows" if low > 0 else "falls" if high < 0 else "does not change significantly"
    return f"Along the horizon the error {word}: {value:+.3g} a step (95 % interval {low:+.3g} to {high:+.3g})"


def marked(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a column for each level: above or below where the truth is outside, else empty."""
    columns: dict[str, np.ndarray] = {}
    for level in levels_of(table):
        side = np.where(table["truth"] > table[f"upper_{level}"], "above", "below")
        columns[f"outside_{level}"] = np.where(table["truth"].isna() | is_inside(table, level), "", side)
    return table.drop(columns=["origin", "step"]).assign(error=table["value"] - table["truth"], **columns)
