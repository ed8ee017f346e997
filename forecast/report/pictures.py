"""The report's pictures: error against each cost, and error and costs against the look-back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from forecast.report.baselines import baselines_of
from forecast.report.comparisons import MSE
from forecast.report.costs import COSTS, Cost, bar_of, comparable
from forecast.report.crossings import costs_by_look_back
from forecast.report.panels import MARKER, Named, NamedLine, mark_look_backs, name_axes, new_panel, plain_numbers, png
from forecast.report.pareto import front
from forecast.report.sections import Section
from forecast.report.settings import Setting

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Apart for colour-blind eyes too (Okabe and Ito, 2008); the reference is black, the control grey."""

MARKERS, LINES = "sD^vP*X<>p", ("-", "--", ":")
BAR: dict[str, Any] = {"fmt": "none", "ecolor": "0.6", "elinewidth": 1}
"""Of what the seeds make of a point."""

ERROR, LOOK_BACK = "test MSE of z-scores", "look-back, steps"

Styles = Mapping[str, dict[str, Any]]


def draw_pictures(section: Section) -> Iterator[tuple[str, str, bytes]]:
    """Yield the name of each picture, what it shows, and its PNG."""
    styles = _styles(section)
    costs = [cost for cost in COSTS if comparable(section, cost)]
    for cost in costs:
        yield f"error-{cost.key}", f"Error against {cost.title}", _trade_off(section, cost, styles)
    if len(section.look_backs) > 1:
        yield "look-back-error", "Error against look-back", _error_by_look_back(section, styles)
        for cost in costs:
            told = f"{cost.title.capitalize()} against look-back"
            yield f"look-back-{cost.key}", told, _cost_by_look_back(section, cost, styles)


def _styles(section: Section) -> Styles:
    others = [arm for arm in section.arms if arm not in (section.reference, section.control)]
    styles = {
        arm: {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": LINES[place // len(COLOURS) % len(LINES)],
        }
        for place, arm in enumerate(others)
    }
    styles[section.control or ""] = {"color": "0.5", "marker": "x", "linestyle": "-."}
    styles[section.reference or ""] = {"color": "black", "marker": "o", "linestyle": "-"}
    return styles


def _trade_off(section: Section, cost: Cost, styles: Styles) -> bytes:
    panel = new_panel(f"{section.title}: error against {cost.title}")
    costs = comparable(section, cost)
    named: list[Named] = []
    for arm in section.arms:
        points = [setting for setting in section.of(arm) if setting.key in costs]
        if points:
            bars = [bar_of(section, cost, each) for each in points]
            _errors(panel, points, [costs[each.key] for each in points], styles[arm], bars)
            named += [(f"{each.look_back:,}", costs[each.key], each.mean(MSE)) for each in points]
    errors = {setting.key: setting.mean(MSE) for setting in section.settings}
    best = front(section, cost)
    across, up = [costs[key] for key in best], [errors[key] for key in best]
    panel.step(across, up, where="post", color="0.75", linewidth=4, zorder=0, label="not dominated")
    lines = _baselines(panel, section)
    panel.set_xscale("log")
    plain_numbers(panel.xaxis)
    name_axes(panel, cost.heading, ERROR)
    return png(panel, named if len(section.look_backs) > 1 else (), lines)


def _error_by_look_back(section: Section, styles: Styles) -> bytes:
    panel = new_panel(f"{section.title}: error against look-back")
    for arm in section.arms:
        points = section.of(arm)
        _errors(panel, points, [each.look_back for each in points], styles[arm])
    lines = _baselines(panel, section)
    mark_look_backs(panel, section.look_backs)
    name_axes(panel, LOOK_BACK, ERROR)
    return png(panel, lines=lines)


def _cost_by_look_back(section: Section, cost: Cost, styles: Styles) -> bytes:
    panel = new_panel(f"{section.title}: {cost.title} against look-back")
    for arm in section.arms:
        if points := costs_by_look_back(section, arm, cost):
            look_backs, costs = list(points), list(points.values())
            bars = [bar_of(section, cost, each) for each in section.of(arm) if each.look_back in points]
            panel.errorbar(look_backs, costs, np.transpose(bars), **BAR)
            panel.plot(look_backs, costs, label=arm, markersize=MARKER, linewidth=1.3, **styles[arm])
    mark_look_backs(panel, section.look_backs)
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
    """Draw an arm's errors with their standard deviations over the seeds, where there are several; `bars` across."""
    up = [each.mean(MSE) for each in points]
    spreads = [each.spread(MSE) if len(each.runs) > 1 else 0.0 for each in points]
    panel.errorbar(across, up, spreads, np.transpose(bars) if bars else None, **BAR)
    panel.plot(across, up, label=points[0].arm, markersize=MARKER, linewidth=1.2, alpha=0.9, **style)


def _baselines(panel: Axes, section: Section) -> list[NamedLine]:
    """Draw the baselines that lie within or near the models' errors across the panel; the others are in the table."""
    errors = [setting.mean(MSE) for setting in section.settings]
    reach = max(max(errors) - min(errors), 0.05 * max(errors))
    low, high = min(errors) - reach, max(errors) + reach
    near = [(baseline.label, baseline.mse) for baseline in baselines_of(section) if low <= baseline.mse <= high]
    for _, up in near:
        panel.axhline(up, color="0.35", linewidth=1, linestyle=(0, (6, 2)), zorder=0)
    return near
