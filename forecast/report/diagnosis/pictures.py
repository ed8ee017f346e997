"""Pictures of diagnostic series: the map of tasks and mechanisms, and curves of skill against a size of the task."""

import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecast.report.diagnosis.tasks import Cell, Diagnosis, Task
from forecast.report.phrases import two_decimals
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

ACROSS = {
    "types": "number of types",
    "distance": "distance of the answer, units",
    "events": "events in the horizon",
    "look_back": "look-back, steps",
}
"""Labels of the horizontal axes."""

SHARE = "share of the achievable skill"

COLOURS = "viridis"
"""Colour map of the shares, for all forms of colour vision."""

ROW, COLUMN, AROUND = 0.42, 0.85, 1.1
"""Least inches of a row and a column of the map; the title with the names of the mechanisms."""

LOWEST = -0.15
"""Lower end of the vertical axis of a curve, unless a share is lower."""

ASIDE = 1.015
"""Factor across between the points of two mechanisms, so that equal ones are both visible."""

LETTER = 0.085
"""Inches of a letter of a name."""


def draw_diagnosis(diagnosis: Diagnosis) -> Iterator[tuple[str, str, bytes]]:
    """Yield each picture's name, caption and PNG, the map first."""
    yield "skill-map", "Share of the achievable skill by task and mechanism", _map(diagnosis)
    for place, (size, tasks) in enumerate(diagnosis.curves(), 1):
        title = _title(diagnosis, size, tasks)
        shows = f"Skill against the {ACROSS[size]}, dots for seeds and bars for 95 % intervals: {title}"
        yield f"skill-{place}", shows, _curve(diagnosis, size, tasks)
        if size == "look_back" and (cells := _timed(diagnosis, tasks)):
            yield f"skill-time-{place}", f"Training time against look-back: {title}", _times(diagnosis, tasks, cells)


def _map(diagnosis: Diagnosis) -> bytes:
    tasks, arms = diagnosis.tasks, diagnosis.arms
    names = [diagnosis.name(task) for task in tasks]
    left = 0.3 + LETTER * max(map(len, names))
    column = max(COLUMN, 0.15 + LETTER * max(map(len, arms)))
    width, height = max(5.5, left + column * len(arms) + 0.2), AROUND + ROW * len(tasks)
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    figure.subplots_adjust(left=left / width, right=1 - 0.2 / width, bottom=0.15 / height, top=1 - 0.75 / height)
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
    panel.set_yticks(range(len(tasks)), names)
    for label in (*panel.get_xticklabels(), *panel.get_yticklabels()):
        label.set_parse_math(False)
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
    return f"{100 * cell.mean:+.1f} %" if cell.task.is_control else two_decimals(cell.mean)


def _curve(diagnosis: Diagnosis, size: str, tasks: Sequence[Task]) -> bytes:
    panel = new_panel(f"{_title(diagnosis, size, tasks)}: {SHARE}")
    styles = styles_of(diagnosis.arms, diagnosis.reference, diagnosis.control)
    for place, arm in enumerate(diagnosis.arms):
        cells = [(task, cell) for task in tasks if (cell := diagnosis.at(task, arm)) is not None]
        if cells:
            aside = ASIDE ** (place - (len(diagnosis.arms) - 1) / 2)
            across, up = [aside * getattr(task, size) for task, _ in cells], [cell.mean for _, cell in cells]
            halves = [0.0 if math.isnan(cell.half) else cell.half for _, cell in cells]
            colour = styles[arm]["color"]
            panel.errorbar(across, up, halves, **{**BAR, "ecolor": colour, "alpha": 0.6, "capsize": 2})
            for where, (_, cell) in zip(across, cells, strict=True):
                panel.plot([where] * len(cell.scores), cell.scores, ".", color=colour, markersize=4, alpha=0.6)
            panel.plot(across, up, label=arm, markersize=MARKER, linewidth=1.4, **styles[arm])
    panel.axhline(1, color="0.7", linewidth=1, linestyle=(0, (6, 2)), zorder=0)
    panel.axhline(0, color="0.7", linewidth=1, linestyle=(0, (6, 2)), zorder=0)
    least = min(float(cell.scores.min()) for task in tasks for cell in diagnosis.of(task))
    panel.set_ylim(min(LOWEST, least - 0.05), 1.1)
    mark_look_backs(panel, sorted({getattr(task, size) for task in tasks}))
    name_axes(panel, ACROSS[size], SHARE)
    return png(panel, lines=[("best possible", 1.0), ("last value or ridge", 0.0)])


def _title(diagnosis: Diagnosis, size: str, tasks: Sequence[Task]) -> str:
    """Return the kind and the sizes that are the same along a curve."""
    words = diagnosis.sizes(tasks[0], size)
    if size != "look_back" and not any(word.startswith("look-back") for word in words):
        words.append(f"look-back {tasks[0].look_back:,}")
    return ", ".join([tasks[0].kind, *words])


def _timed(diagnosis: Diagnosis, tasks: Sequence[Task]) -> list[Cell]:
    """Return the cells with an undisturbed time under the most frequent conditions: others are not compared."""
    cells = [cell for task in tasks for cell in diagnosis.of(task) if not cell.is_disturbed]
    frequent = Counter(cell.setting.conditions for cell in cells).most_common(1)
    return [cell for cell in cells if cell.setting.conditions == frequent[0][0]]


def _times(diagnosis: Diagnosis, tasks: Sequence[Task], timed: Sequence[Cell]) -> bytes:
    panel = new_panel(f"{_title(diagnosis, 'look_back', tasks)}: training time against look-back")
    styles = styles_of(diagnosis.arms, diagnosis.reference, diagnosis.control)
    for arm in diagnosis.arms:
        if cells := [cell for cell in timed if cell.arm == arm]:
            across, up = [cell.task.look_back for cell in cells], [cell.milliseconds for cell in cells]
            panel.plot(across, up, label=arm, markersize=MARKER, linewidth=1.4, **styles[arm])
    mark_look_backs(panel, sorted({task.look_back for task in tasks}))
    panel.set_yscale("log")
    plain_numbers(panel.yaxis)
    name_axes(panel, ACROSS["look_back"], "training, ms a window")
    return png(panel)
