"""The page of a backtest: its answer, pictures, and scores by origin, step, hour, month and series."""

import io
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.backtest.importance import PICTURE as BARS
from forecast.backtest.importance import draw_inputs, input_table
from forecast.backtest.scores import Errors
from forecast.common.files import replacing
from forecast.common.pictures import Lines, draw_sheet, plot_line
from forecast.common.tables import Table
from forecast.common.text import three_digits
from forecast.report.content import Chapter, Content, Picture
from forecast.report.html import page

PAGE, ERRORS, EXAMPLES = "backtest.html", "backtest-errors.png", "backtest-origins.png"

MOST_ROWS = 60
"""Largest number of rows of a table of the page; scores.csv has all."""


def answer(errors: Errors, naive: str) -> list[str]:
    """Return how the model did, in sentences."""
    total = errors.total()
    unit = ", in standard deviations of the series" if errors.is_scaled else ""
    sentences = [
        f"MAE {three_digits(total['mae'])}, RMSE {three_digits(math.sqrt(total['mse']))}{unit}, from "
        f"{errors.rows['origin'].nunique():,} origins and {int(total['values']):,} values."
    ]
    if "naive_mae" in total:
        better, count = errors.better_origins()
        sentences.append(
            f"The {naive} has MAE {three_digits(total['naive_mae'])}. The model is better at {better:,} of {count:,} "
            f"origins ({better / count:.0%}).".replace("%", " %")
        )
        sentences.append(_difference(errors, total))
    for level in errors.levels:
        sentences.append(f"{level} % intervals cover {100 * total[f'covered_{level}']:.1f} % of the values.")
    return sentences


def _difference(errors: Errors, total: Mapping[str, float]) -> str:
    """Return the sentence on the difference from the naive forecast."""
    if total["naive_mae"] <= 0:
        return "The naive forecast has no error."
    share = 100 * (total["mae"] / total["naive_mae"] - 1)
    direction = "below" if share < 0 else "above"
    interval = errors.against_naive()
    if interval is None:
        return f"The model's MAE is {abs(share):.1f} % {direction} it; there are too few origins for an interval."
    mean = errors.by(["origin"])["naive_mae"].mean()
    low, high = (100 * end / mean for end in (interval.low, interval.high))
    change = f"95 % interval of the change: {low:+.1f} to {high:+.1f} %"
    return f"The model's MAE is {abs(share):.1f} % {direction} it ({change})."


def write_page(
    folder: Path,
    title: str,
    sentences: list[str],
    errors: Errors,
    tables: Mapping[str, pd.DataFrame],
    past: pd.DataFrame,
    inputs: pd.DataFrame | None = None,
) -> None:
    """Write the page with its pictures; `past` has the columns name, time and value of all measured rows.

    `inputs` is the table of the inputs that matter, if it was asked for.
    """
    content = {ERRORS: _draw_errors(errors, tables["origin"])}
    draw_sheet(folder / EXAMPLES, _examples(errors, past), "best, median and worst forecast, by their MAE")
    pictures = [
        Picture(ERRORS, "Error of the model and of the naive forecast, and coverage, by origin", content[ERRORS]),
        Picture(EXAMPLES, "Best, median and worst forecast", (folder / EXAMPLES).read_bytes()),
    ]
    shown = [_table(name, table) for name, table in tables.items()]
    if inputs is not None:
        pictures.append(Picture(BARS, "Which inputs matter", draw_inputs(inputs)))
        shown.insert(0, input_table(inputs))
    chapter = Chapter(title, sentences, [], pictures[0], [pictures[1:], *shown])
    files = {PAGE: page(Content(f"Backtest: {title}", [chapter], None)).encode(), **content}
    for name, data in files.items():
        with replacing(folder / name) as file:
            file.write(data)


def _table(name: str, table: pd.DataFrame) -> Table:
    rmse = table.assign(mse=np.sqrt(table["mse"]))
    if "naive_mse" in rmse:
        rmse["naive_mse"] = np.sqrt(rmse["naive_mse"])
    rmse = rmse.rename(columns={"mse": "rmse", "naive_mse": "naive_rmse"})
    cells = [
        [_label(key), *map(_cell, row, rmse.columns)] for key, row in zip(rmse.index, rmse.to_numpy(), strict=True)
    ]
    notes = []
    if len(cells) > MOST_ROWS:
        notes.append(f"The first {MOST_ROWS} of {len(cells):,} rows; scores.csv has all.")
    headings = [name, *(str(column).replace("_", " ") for column in rmse.columns)]
    return Table(f"By {name}", headings, cells[:MOST_ROWS], notes)


def _label(key: object) -> str:
    return str(key.isoformat(sep=" ")) if isinstance(key, pd.Timestamp) else str(key)


def _cell(value: float, column: str) -> str:
    if not math.isfinite(value):
        return "-"
    if column == "values":
        return f"{value:,.0f}"
    return f"{100 * value:.1f} %" if column.startswith(("covered", "skill")) else f"{value:.4g}"


def _draw_errors(errors: Errors, by_origin: pd.DataFrame) -> bytes:
    """Return a PNG of the error of each origin, and of the coverage of its intervals."""
    rows = 2 if errors.levels else 1
    figure = Figure(figsize=(9, 2.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    times = pd.DatetimeIndex(by_origin.index)
    for column, colour, label in (("mae", "tab:orange", "model"), ("naive_mae", "tab:green", "naive")):
        if column in by_origin:
            plot_line(panels[0], times, by_origin[column].to_numpy(), color=colour, linewidth=1.2, label=label)
    panels[0].set_ylabel("MAE", fontsize=8)
    panels[0].legend(fontsize=8, frameon=False)
    for level in errors.levels:
        line = plot_line(
            panels[1], times, 100 * by_origin[f"covered_{level}"].to_numpy(), linewidth=1.2, label=f"{level} %"
        )
        panels[1].axhline(float(level), color=line[0].get_color(), linewidth=0.8, linestyle=":")
        panels[1].set_ylabel("coverage, %", fontsize=8)
        panels[1].legend(fontsize=8, frameon=False)
    for panel in panels:
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110, metadata={"Software": None})
    return data.getvalue()


def chosen(errors: Errors) -> list[tuple[pd.Timestamp, str]]:
    """Return the origin and series of the best, the median and the worst forecast."""
    size = (
        errors.rows["error"]
        .abs()
        .groupby([errors.rows["origin"], errors.rows["name"]])
        .mean()
        .sort_values(kind="stable")
    )
    places = dict.fromkeys([0, len(size) // 2, len(size) - 1])
    return [size.index[place] for place in places]


def _examples(errors: Errors, past: pd.DataFrame) -> list[Lines]:
    """Return the lines of the best, the median and the worst forecast."""
    lines = []
    for origin, name in chosen(errors):
        rows = errors.rows[(errors.rows["origin"] == origin) & (errors.rows["name"] == name)]
        times = pd.DatetimeIndex(rows["time"])

        def line(column: str, rows: pd.DataFrame = rows, times: pd.DatetimeIndex = times) -> pd.Series:
            return pd.Series(rows[column].to_numpy(), index=times)

        own = past[past["name"] == name]
        before = own[own["time"] < origin].tail(3 * len(rows))
        ends = {float(level): (line(f"lower_{level}"), line(f"upper_{level}")) for level in errors.levels}
        lines.append(
            Lines(
                f"{name}, from {origin}",
                pd.Series(before["value"].to_numpy(), index=pd.DatetimeIndex(before["time"])),
                line("value"),
                line("truth"),
                line("naive") if "naive" in rows else None,
                ends,
            )
        )
    return lines
