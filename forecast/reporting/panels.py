"""Panels that pictures are drawn on: readable at the width of a telephone, the same bytes each time."""

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

WIDTH, DPI, FONT_SIZE = 5.2, 130, 9
"""Inches, pixels an inch, points."""

PANEL, ABOVE, BELOW, LEGEND_ROW = 3.1, 0.4, 0.65, 0.19
"""Heights in inches: of the panel, of what stands above it and below it, of a row of the legend."""

COLUMNS = {16: 3, 28: 2}
"""Columns of a legend whose longest name has at most so many letters; longer ones stand one below the other."""


def new_panel(title: str) -> Axes:
    """Give an empty panel in a figure of its own."""
    figure = Figure(figsize=(WIDTH, ABOVE + PANEL + BELOW), dpi=DPI)
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    panel.set_title(title, fontsize=FONT_SIZE, loc="left", parse_math=False, wrap=True)
    panel.margins(x=0.09)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=FONT_SIZE - 1, which="both")
    return panel


def png(panel: Axes) -> bytes:
    """Give the panel's figure as a PNG, its legend beneath.

    The places are worked out here: a layout engine would draw everything twice to find the same ones.
    """
    figure = panel.get_figure(root=True)
    assert figure is not None
    handles, labels = panel.get_legend_handles_labels()
    longest = max(map(len, labels))
    columns = next((number for letters, number in COLUMNS.items() if longest <= letters), 1)
    below = BELOW + LEGEND_ROW * -(-len(labels) // columns)
    height = ABOVE + PANEL + below
    figure.set_size_inches(WIDTH, height)
    figure.subplots_adjust(left=0.15, right=0.95, bottom=below / height, top=1 - ABOVE / height)
    figure.legend(handles, labels, loc="lower center", fontsize=FONT_SIZE - 1, ncols=columns, frameon=False)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def name_axes(panel: Axes, across: str, up: str) -> None:
    """Say what stands on the axes, in which unit."""
    panel.set_xlabel(across, fontsize=FONT_SIZE)
    panel.set_ylabel(up, fontsize=FONT_SIZE)


def note(panel: Axes, text: str, place: tuple[float, float], *, across_panel: bool = False) -> None:
    """Write a small text beside a point; `across_panel` has its first coordinate a share of the panel's width."""
    panel.annotate(
        text,
        place,
        xycoords=("axes fraction" if across_panel else "data", "data"),
        xytext=(0, 2) if across_panel else (4, 4),
        textcoords="offset points",
        fontsize=FONT_SIZE - 2,
        color="0.25",
        parse_math=False,
    )


def mark_look_backs(panel: Axes, look_backs: Sequence[int]) -> None:
    """Have the panel's width be the look-back, with those that were run as its ticks."""
    panel.set_xscale("log", base=2)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(list(look_backs), [f"{each:,}" for each in look_backs])


def plain_numbers(axis: Axis) -> None:
    """Have a logarithmic axis say 20 rather than 2 × 10¹, between powers of ten too where those are few."""
    low, high = sorted(axis.get_view_interval())
    told = "" if high / low > 50 else "25" if high / low > 4 else "123456789"

    def between(value: float, place: int) -> str:
        return f"{value:,g}" if f"{value:e}"[0] in told else ""

    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter(FuncFormatter(between))
