"""Pictures of diagnostic series: the map of tasks and mechanisms, and curves of skill against a size of the task."""

import io
import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.report.diagnosis import Cell, Diagnosis, Task
from forecast.report.pictures import (
    BAR,
    DPI,
    FONT_SIZE,
    MARKER,
    mark_look_backs,
    name_axes,
    new_panel,
    plain_numbers,
    png,
    styles_of,
)
from forecast.report.sections import CONTROL, REFERENCE

ACROSS = {"types": "number of types", "distance": "distance of the answer, units", "look_back": "look-back, steps"}
"""Labels of the horizontal axes."""

SHARE = "share of the achievable skill"

COLOURS = "viridis"
"""Colour map of the shares, for all forms of colour vision."""

ROW, COLUMN, LEFT, AROUND = 0.42, 0.85, 2.2, 1.1
"""Inches: a row and a column of the map, the names of the tasks, and the title with the names of the mechanisms."""


def draw_diagnosis(diagnosis: Diagnosis) -> Iterator[tuple[str, str, bytes]]:
    """Yield each picture's name, caption and PNG, the map first."""
    yield "skill-map", "Share of the achievable skill by task and mechanism", _map(diagnosis)
    for place, (size, tasks) in enumerate(diagnosis.curves(), 1):
        kind = tasks[0].kind
        yield f"skill-{size}-{place}", f"Skill on {kind} against the {ACROSS[size]}", _curve(diagnosis, size, tasks)
        if size == "look_back":
            yield f"time-{size}-{place}", f"Training time on {kind} against look-back", _times(diagnosis, tasks)


def _map(diagnosis: Diagnosis) -> bytes:
    tasks, arms = diagnosis.tasks, diagnosis.arms
    width, height = LEFT + COLUMN * len(arms) + 0.2, AROUND + ROW * len(tasks)
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    figure.subplots_adjust(left=LEFT / width, right=1 - 0.2 / width, bottom=0.15 / height, top=1 - 0.75 / height)
    shares = np.array([[_shade(diagnosis.at(task, arm)) for arm in arms] for task in tasks])
    shades = np.ma.masked_invalid(shares)
    panel.imshow(shades, cmap=COLOURS, vmin=0, vmax=1, aspect="auto")
    panel.set_facecolor("0.92")  # controls, and cells without a run
    for row, task in enumerate(tasks):
        for column, arm in enumerate(arms):
            dark = not math.isnan(shares[row, column]) and shares[row, column] < 0.6
            text = _cell_text(diagnosis.at(task, arm))
            panel.text(
                column, row, text, ha="center", va="center", fontsize=FONT_SIZE, color="white" if dark else "black"
            )
    panel.set_xticks(range(len(arms)), arms)
    panel.set_yticks(range(len(tasks)), [diagnosis.name(task) for task in tasks])
    panel.tick_params(labelsize=FONT_SIZE, length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    panel.set_xticks(np.arange(len(arms) - 1) + 0.5, minor=True)
    panel.set_yticks(np.arange(len(tasks) - 1) + 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=2)
    panel.tick_params(which="minor", length=0)
    panel.spines[:].set_visible(False)
    figure.suptitle(
        "Share of the achievable skill (1: the best possible forecast); of controls the error above the best possible",
        x=0.02, y=1 - 0.08 / height, ha="left", va="top", fontsize=FONT_SIZE, wrap=True,
    )  # fmt: skip
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _shade(cell: Cell | None) -> float:
    """Return the share that colours a cell; NaN for a control, which has none."""
    return math.nan if cell is None or cell.task.is_control else min(1.0, max(0.0, cell.mean))


def _cell_text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return f"{100 * cell.mean:+.1f} %" if cell.task.is_control else f"{cell.mean:.2f}"


def _curve(diagnosis: Diagnosis, size: str, tasks: Sequence[Task]) -> bytes:
    panel = new_panel(f"{tasks[0].kind}: {SHARE}{_fixed(size, tasks[0])}")
    styles = styles_of(diagnosis.arms, REFERENCE, CONTROL)
    for arm in diagnosis.arms:
        cells = [(task, cell) for task in tasks if (cell := diagnosis.at(task, arm)) is not None]
        if cells:
            across, up = [getattr(task, size) for task, _ in cells], [cell.mean for _, cell in cells]
            halves = [0.0 if math.isnan(cell.half) else cell.half for _, cell in cells]
            panel.errorbar(across, up, halves, **BAR)
            panel.plot(across, up, label=arm, markersize=MARKER, linewidth=1.4, **styles[arm])
    panel.axhline(1, color="0.7", linewidth=1, linestyle=(0, (6, 2)), zorder=0)
    panel.axhline(0, color="0.7", linewidth=1, linestyle=(0, (6, 2)), zorder=0)
    panel.set_ylim(-0.15, 1.1)
    mark_look_backs(panel, sorted({getattr(task, size) for task in tasks}))
    name_axes(panel, ACROSS[size], SHARE)
    return png(panel, lines=[("best possible", 1.0), ("last value or ridge", 0.0)])


def _fixed(size: str, task: Task) -> str:
    """Return the sizes that are the same along a curve."""
    words = [] if size == "types" else [f"{task.types} types"]
    words += [] if size == "look_back" else [f"{task.tokens:,} tokens"]
    return f" ({', '.join(words)})"


def _times(diagnosis: Diagnosis, tasks: Sequence[Task]) -> bytes:
    panel = new_panel(f"{tasks[0].kind}: training time against look-back")
    styles = styles_of(diagnosis.arms, REFERENCE, CONTROL)
    for arm in diagnosis.arms:
        cells = [(task, cell) for task in tasks if (cell := diagnosis.at(task, arm)) is not None]
        if cells:
            across, up = [task.look_back for task, _ in cells], [cell.milliseconds for _, cell in cells]
            panel.plot(across, up, label=arm, markersize=MARKER, linewidth=1.4, **styles[arm])
    mark_look_backs(panel, sorted({task.look_back for task in tasks}))
    panel.set_yscale("log")
    plain_numbers(panel.yaxis)
    name_axes(panel, ACROSS["look_back"], "training, ms a window")
    return png(panel)
