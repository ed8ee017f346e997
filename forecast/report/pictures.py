"""Pictures of a report."""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, NullLocator
from matplotlib.transforms import Bbox, BboxBase

from forecast.report.comparisons import MSE, compared_baselines
from forecast.report.costs import (
    COSTS,
    PROCESSOR,
    TRAINING,
    Cost,
    bar_of,
    comparable,
    costs_by_look_back,
    front,
)
from forecast.report.groups import RunGroup, Setting

WIDTH, DPI, FONT_SIZE = 5.2, 130, 9
"""In inches, pixels per inch, points."""

PANEL, ABOVE, BELOW, LEGEND_ROW = 3.1, 0.4, 0.65, 0.19
"""Heights in inches: the panel, above it, below it, one row of the legend."""

COLUMNS = {16: 3, 28: 2}
"""Columns of a legend by the maximum length of its names; one column for longer names."""

MARKER = 6
"""Size of a marker, in typographic points."""

Named = tuple[str, float, float]
"""A name and the two coordinates of its point."""

NamedLine = tuple[str, float]
"""A name and the height of its line across the panel."""

Place = dict[str, Any]
"""Place of a name beside its point or line: offset in points, and alignment."""


def _spots(left: tuple[float, float], right: tuple[float, float], middle: tuple[float, float]) -> list[Place]:
    """Return the places at three points (across, up) and mirrored below, with alignment, in order of preference."""
    spots = ((left, "left"), (right, "right"), (middle, "center"))
    return [
        {"position": (across, up * sign), "ha": ha, "va": "bottom" if sign > 0 else "top"}
        for sign in (1, -1)
        for (across, up), ha in spots
    ]


BESIDE = _spots((4, 4), (-4, 4), (0, 5))


def new_panel(title: str) -> Axes:
    """Return an empty panel in a new figure."""
    figure = Figure(figsize=(WIDTH, ABOVE + PANEL + BELOW), dpi=DPI)
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    panel.set_title(title, fontsize=FONT_SIZE, loc="left", parse_math=False, wrap=True)
    panel.margins(x=0.09)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=FONT_SIZE - 1, which="both")
    return panel


def png(panel: Axes, named: Sequence[Named] = (), lines: Sequence[NamedLine] = ()) -> bytes:
    """Return the panel's figure as a PNG, with a legend below and names beside points and lines.

    The layout is computed here: a layout engine would draw everything twice.
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
    legend = figure.legend(handles, labels, loc="lower center", fontsize=FONT_SIZE - 1, ncols=columns, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)  # names of columns may have dollar signs
    _write_names(panel, named, lines)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def name_axes(panel: Axes, across: str, up: str) -> None:
    """Label the axes with their units."""
    panel.set_xlabel(across, fontsize=FONT_SIZE)
    panel.set_ylabel(up, fontsize=FONT_SIZE)


def mark_look_backs(panel: Axes, look_backs: Sequence[int]) -> None:
    """Make the look-back the horizontal axis, with a tick at each measured one."""
    panel.set_xscale("log", base=2)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(list(look_backs), [f"{look_back:,}" for look_back in look_backs])


def plain_numbers(axis: Axis) -> None:
    """Label a logarithmic axis with 20, not 2 × 10¹; on a short axis also between the powers of ten."""
    low, high = sorted(axis.get_view_interval())
    digits = "" if high / low > 50 else "25" if high / low > 4 else "123456789"

    def label(value: float, place: int) -> str:
        return f"{value:,g}" if f"{value:e}"[0] in digits else ""

    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter(FuncFormatter(label))


def _write_names(panel: Axes, named: Sequence[Named], lines: Sequence[NamedLine]) -> None:
    """Write each name beside its line or point, where it covers the fewest names and markers, then lines."""
    panel.autoscale_view()  # sets the limits, which the places depend on
    visible = [line for line in panel.lines if line.get_linestyle() != "None"]
    drawn = [line.get_transform().transform_path(line.get_path()) for line in visible]
    drawn += [bars.get_transform().transform_path(bar) for bars in panel.collections for bar in bars.get_paths()]
    taken = list(_markers(panel))
    wide = panel.bbox.width * 72 / DPI
    along = _spots((3, 2), (wide - 3, 2), (wide / 2, 2))
    texts = [(_write(panel, name, (0, up), ("axes fraction", "data")), along) for name, up in lines]
    texts += [(_write(panel, name, (across, up), "data"), BESIDE) for name, across, up in named]
    for text, places in texts:
        penalties = []
        for number, place in enumerate(places):
            text.set(**place)
            box = text.get_window_extent()
            covered = sum(_common(box, other) for other in taken) - _common(box, panel.bbox)
            crossed = sum(path.intersects_bbox(box, filled=False) for path in drawn)
            penalties.append((round(covered), crossed, number))
        text.set(**places[min(penalties)[-1]])
        taken.append(text.get_window_extent())


def _markers(panel: Axes) -> Iterator[Bbox]:
    half = MARKER * DPI / 72 / 2
    for line in panel.lines:
        if line.get_marker() != "None":
            for x, y in panel.transData.transform(line.get_xydata()):
                yield Bbox.from_extents(x - half, y - half, x + half, y + half)


def _common(one: BboxBase, other: BboxBase) -> float:
    """Return the overlap of two boxes in square pixels."""
    shared = Bbox.intersection(one, other)
    return shared.width * shared.height if shared else 0.0


def _write(panel: Axes, text: str, point: tuple[float, float], coordinates: Any) -> Annotation:
    halo = [withStroke(linewidth=2, foreground="white")]  # keeps it legible over lines
    look: dict[str, Any] = {"fontsize": FONT_SIZE - 2, "color": "0.25", "parse_math": False, "path_effects": halo}
    return panel.annotate(text, point, (0, 0), coordinates, "offset points", **look)


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Colours for all forms of colour vision (Okabe and Ito, 2008); the reference is black, the control grey."""

MARKERS, LINES = "sD^vP*X<>p", ("-", "--", ":")

PLACES = {name: place for place, name in enumerate(("probsparse", "linear", "taylor", "efficient", "linformer"))}
"""Place of a mechanism in `COLOURS` and `MARKERS`, the same in every report; other arms take the next places."""

LEAST_SPAN = 0.01
"""Least span of an axis of errors, relative to the error: rounding must not look like a difference."""

BAR: dict[str, Any] = {"fmt": "none", "ecolor": "0.6", "elinewidth": 1}
"""Style of the error bars over seeds."""

ERROR, LOOK_BACK = "test MSE of z-scores", "look-back, steps"

Styles = Mapping[str, dict[str, Any]]


def draw_pictures(group: RunGroup) -> Iterator[tuple[str, str, bytes]]:
    """Yield each picture's name, caption and PNG: those with the most points first, none with a single point."""
    styles = styles_of(group.arms, group.reference, group.control)
    costs = _drawn_costs(group)
    for cost in costs:
        yield f"error-{cost.key}", f"Error against {cost.title}", _trade_off(group, cost, styles)
    if len(group.look_backs) > 1:
        yield "look-back-error", "Error against look-back", _error_by_look_back(group, styles)
        for cost in costs:
            caption = f"{cost.title.capitalize()} against look-back"
            yield f"look-back-{cost.key}", caption, _cost_by_look_back(group, cost, styles)


def _drawn_costs(group: RunGroup) -> list[Cost]:
    """Return the costs that several settings have, those of the most settings first.

    If other processes disturbed the time of training, clear differences in its processor time take the place of costs
    that are nearly equal.
    """
    costs = {cost: list(comparable(group, cost).values()) for cost in (*COSTS, PROCESSOR)}
    several = sorted((cost for cost in costs if len(costs[cost]) > 1), key=lambda cost: -len(costs[cost]))
    differing = [cost for cost in several if max(costs[cost]) >= cost.clearly * min(costs[cost])]
    busy = any(TRAINING.is_disturbed(setting) for setting in group.settings)
    return differing if busy and PROCESSOR in differing else [cost for cost in several if cost in COSTS]


def styles_of(arms: Sequence[str], reference: str | None, control: str | None) -> Styles:
    """Return the colour, marker and line of each arm; the reference is black, the control grey."""
    others = [arm for arm in arms if arm not in (reference, control)]
    places = {arm: PLACES[arm] for arm in others if arm in PLACES}
    places |= {arm: place for place, arm in enumerate((arm for arm in others if arm not in PLACES), len(PLACES))}
    styles = {
        arm: {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": LINES[place // len(COLOURS) % len(LINES)],
        }
        for arm, place in places.items()
    }
    styles[control or ""] = {"color": "0.5", "marker": "x", "linestyle": "-."}
    styles[reference or ""] = {"color": "black", "marker": "o", "linestyle": "-"}
    return styles


def _trade_off(group: RunGroup, cost: Cost, styles: Styles) -> bytes:
    costs = comparable(group, cost)
    missing = len(group.settings) - len(costs)
    aside = f" ({missing} of {len(group.settings)} settings have no comparable cost)" if missing else ""
    panel = new_panel(f"{group.title}: error against {cost.title}{aside}")
    named: list[Named] = []
    for arm in group.arms:
        points = [setting for setting in group.of(arm) if setting.key in costs]
        if points:
            bars = [bar_of(group, cost, setting) for setting in points]
            _errors(panel, points, [costs[setting.key] for setting in points], styles[arm], bars)
            named += [(f"{setting.look_back:,}", costs[setting.key], setting.mean(MSE)) for setting in points]
    errors = {setting.key: setting.mean(MSE) for setting in group.settings}
    best = front(group, cost)
    if best:
        across, up = [costs[key] for key in best], [errors[key] for key in best]
        panel.step(across, up, where="post", color="0.75", linewidth=4, zorder=0, label="not dominated")
    lines = _baselines(panel, group)
    _widen(panel, errors[best[0]] if best else min(errors.values()))
    panel.set_xscale("log")
    plain_numbers(panel.xaxis)
    name_axes(panel, cost.heading, ERROR)
    return png(panel, named if len(group.look_backs) > 1 else (), lines)


def _error_by_look_back(group: RunGroup, styles: Styles) -> bytes:
    panel = new_panel(f"{group.title}: error against look-back")
    for arm in group.arms:
        points = group.of(arm)
        _errors(panel, points, [setting.look_back for setting in points], styles[arm])
    lines = _baselines(panel, group)
    _widen(panel, group.settings[0].mean(MSE))
    mark_look_backs(panel, group.look_backs)
    name_axes(panel, LOOK_BACK, ERROR)
    return png(panel, lines=lines)


def _cost_by_look_back(group: RunGroup, cost: Cost, styles: Styles) -> bytes:
    panel = new_panel(f"{group.title}: {cost.title} against look-back")
    for arm in group.arms:
        if points := costs_by_look_back(group, arm, cost):
            look_backs, costs = list(points), list(points.values())
            bars = [bar_of(group, cost, setting) for setting in group.of(arm) if setting.look_back in points]
            panel.errorbar(look_backs, costs, np.transpose(bars), **BAR)
            panel.plot(look_backs, costs, label=arm, markersize=MARKER, linewidth=1.3, **styles[arm])
    mark_look_backs(panel, group.look_backs)
    panel.set_yscale("log")
    plain_numbers(panel.yaxis)
    name_axes(panel, LOOK_BACK, cost.heading)
    return png(panel)


def _errors(
    panel: Axes,
    points: Sequence[Setting],
    across: Sequence[float],
    style: dict[str, Any],
    bars: Sequence[tuple[float, float]] | None = None,
) -> None:
    """Draw an arm's errors with their standard deviations over the seeds; `bars` are horizontal."""
    up = [setting.mean(MSE) for setting in points]
    deviations = [setting.deviation(MSE) if len(setting.runs) > 1 else 0.0 for setting in points]
    panel.errorbar(across, up, deviations, np.transpose(bars) if bars else None, **BAR)
    panel.plot(across, up, label=points[0].arm, markersize=MARKER, linewidth=1.2, alpha=0.9, **style)


def _widen(panel: Axes, error: float) -> None:
    """Widen a vertical axis that shows only rounding, and label it without an offset."""
    panel.autoscale_view()
    low, high = panel.get_ylim()
    if high - low < LEAST_SPAN * error:
        middle, half = (low + high) / 2, LEAST_SPAN * error / 2
        panel.set_ylim(middle - half, middle + half)
    panel.ticklabel_format(axis="y", useOffset=False)


def _baselines(panel: Axes, group: RunGroup) -> list[NamedLine]:
    """Draw the baselines near the models' errors as horizontal lines; the table has the others."""
    errors = [setting.mean(MSE) for setting in group.settings]
    reach = max(max(errors) - min(errors), 0.05 * max(errors))
    low, high = min(errors) - reach, max(errors) + reach
    near = [(baseline.label, baseline.mse) for baseline in compared_baselines(group) if low <= baseline.mse <= high]
    for _, up in near:
        panel.axhline(up, color="0.35", linewidth=1, linestyle=(0, (6, 2)), zorder=0)
    return near
