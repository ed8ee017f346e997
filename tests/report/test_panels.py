"""Pictures: readable names where points crowd, fixed colours, and no difference where there is none."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from forecast.report.groups import groups_of
from forecast.report.pictures import draw_pictures, new_panel, png, styles_of
from forecast.runs.read import read_runs
from tests.report.made import BUSY, result_of, write_run

CROWDED = [("96", 1.0, 1.0), ("97", 1.02, 1.0), ("720", 1.0, 1.01), ("2,880", 2.0, 1.5), ("2,881", 2.0, 1.5)]
"""Points whose names overlap if all are written above and to the right."""


def panel_of(points: list[tuple[str, float, float]]) -> Axes:
    panel = new_panel("made up")
    for name, across, up in points:
        panel.plot([across], [up], "o", markersize=6, label=name)
    png(panel, points)
    return panel


def boxes(panel: Axes) -> dict[str, Bbox]:
    return {text.get_text(): text.get_window_extent() for text in panel.texts}


def at(box: Bbox, across: float, up: float) -> bool:
    return bool(box.x0 < across < box.x1 and box.y0 < up < box.y1)


def test_names_of_crowded_points_overlap_neither_each_other_nor_a_point():
    panel = panel_of(CROWDED)
    by_name = boxes(panel)
    assert set(by_name) == {name for name, *_ in CROWDED}
    assert not [pair for pair in combinations(by_name, 2) if by_name[pair[0]].overlaps(by_name[pair[1]])]
    points = [panel.transData.transform(point) for _, *point in CROWDED]
    assert not [name for name, box in by_name.items() for point in points if at(box, *point)]


def test_names_of_crowded_points_would_overlap_above_and_to_the_right():
    panel = panel_of(CROWDED)
    for text in panel.texts:
        text.set(position=(4, 4), ha="left", va="bottom")
    by_name = boxes(panel)
    assert [pair for pair in combinations(by_name, 2) if by_name[pair[0]].overlaps(by_name[pair[1]])]


@pytest.mark.parametrize("corner", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_a_name_stays_within_the_panel(corner: tuple[float, float]):
    panel = new_panel("made up")
    panel.plot([0.0, 1.0], [0.0, 1.0], label="points")
    panel.margins(0)
    png(panel, [("12,345", *corner)])
    (box,) = boxes(panel).values()
    inside = panel.bbox
    assert inside.x0 <= box.x0 < box.x1 <= inside.x1
    assert inside.y0 <= box.y0 < box.y1 <= inside.y1


def test_the_name_of_a_single_point_is_above_and_to_the_right():
    panel = panel_of([("96", 1.0, 1.0)])
    across, up = panel.transData.transform((1.0, 1.0))
    (box,) = boxes(panel).values()
    assert box.x0 > across
    assert box.y0 > up


def test_a_point_name_does_not_overlap_a_line_name():
    panel = new_panel("made up")
    panel.plot([0.0, 1.0], [0.0, 1.0], "o", label="points")
    panel.axhline(0.02)
    png(panel, [("96", 0.0, 0.0)], [("linear (ridge)", 0.02)])
    line, point = boxes(panel).values()
    assert not line.overlaps(point)


@pytest.mark.parametrize(
    ("across", "side"), [([0.5], "left"), ([0.1], "right"), ([0.1, 0.9], "middle"), ([0.1, 0.5, 0.9], "below")]
)
def test_the_name_of_a_line_hides_no_marker(across: list[float], side: str):
    panel = new_panel("made up")
    panel.plot(across, [0.02] * len(across), "o", markersize=6, label="points")
    panel.axhline(0.0)
    panel.set(xlim=(0, 1), ylim=(-0.4, 0.4))
    png(panel, lines=[("linear (ridge)", 0.0)])
    (box,) = boxes(panel).values()
    assert not [each for each in across if at(box, *panel.transData.transform((each, 0.02)))]
    where, (_, line) = panel.transAxes.inverted().transform(box), panel.transData.transform((0.0, 0.0))
    (left, _), (right, _) = where
    assert 0 <= left < right <= 1
    if side == "below":
        assert box.y1 < line
    else:
        assert box.y0 > line
        assert side == ("left" if left < 0.1 else "right" if right > 0.9 else "middle")


@pytest.mark.parametrize("across", [0.0, 0.18, 0.5, 0.84])
def test_a_name_avoids_lines(across: float):
    """At any place: a rounding error of an overlap counts as zero."""
    panel = new_panel("made up")
    panel.plot([across, across + 1.0], [0.37, 1.37], "-o", label="points")
    panel.set(xlim=(-0.2, 1.2), ylim=(-0.013, 1.02))
    png(panel, [("2,880", across, 0.37)])
    (box,) = boxes(panel).values()
    drawn = panel.lines[0].get_transform().transform_path(panel.lines[0].get_path())
    assert not drawn.intersects_bbox(box, filled=False)


def test_a_name_avoids_error_bars():
    panel = new_panel("made up")
    panel.plot([0.0, 0.5, 1.0], [0.0, 0.5, 0.0], "o", label="points")
    panel.errorbar([0.53], [0.5], [0.5], fmt="none")
    png(panel, [("2,880", 0.5, 0.5)])
    (box,) = boxes(panel).values()
    (bar,) = panel.collections[0].get_paths()
    assert not panel.transData.transform_path(bar).intersects_bbox(box, filled=False)


def test_a_mechanism_has_the_same_colour_and_marker_in_every_report(tmp_path: Path):
    def style(folder: str, *names: str) -> dict[str, Any]:
        for name in names:
            write_run(tmp_path / folder / name, result_of(name))
        (group,) = groups_of(read_runs([tmp_path / folder]).runs)
        styles = styles_of(group.arms, group.reference, group.control)
        marks = [(each["color"], each["marker"]) for arm, each in styles.items() if arm]
        assert len(set(marks)) == len(marks)
        return styles["probsparse"]

    assert style("two", "full", "probsparse") == style("four", "full", "linear", "mine", "probsparse", "mean")


def test_equal_errors_do_not_look_different(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    shown = panels(monkeypatch, tmp_path, result_of("full", mse=0.4), result_of("linear", mse=0.4000001, train=200))
    assert len(shown) == 3
    for panel in shown:
        low, high = panel.get_ylim()
        assert high - low >= 0.004
        assert panel.yaxis.get_major_formatter().get_offset() == ""


def test_a_cost_with_a_single_point_has_no_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The picture with the most settings comes first and says how many are missing."""
    results = [result_of("full", load={"inference": BUSY}), result_of("linear", train=200.0), result_of("mean")]
    titles = [panel.get_title("left") for panel in panels(monkeypatch, tmp_path / "first", *results)]
    assert titles[-1] == "etth1, horizon 96: error against inference time (1 of 3 settings have no comparable cost)"
    busy = {"train": BUSY, "inference": BUSY}
    results = [result_of("full", load=busy), result_of("linear", load={"train": BUSY}), result_of("mean")]
    titles = [panel.get_title("left") for panel in panels(monkeypatch, tmp_path / "second", *results)]
    assert titles == ["etth1, horizon 96: error against processor time of training"]  # the other costs are equal


def panels(monkeypatch: pytest.MonkeyPatch, root: Path, *results: dict[str, Any]) -> list[Axes]:
    """Return the panels of the pictures of a report on the results."""
    shown: list[Axes] = []

    def keep(panel: Axes, *_: object) -> bytes:
        shown.append(panel)
        return b""

    monkeypatch.setattr("forecast.report.pictures.png", keep)
    for number, result in enumerate(results):
        write_run(root / str(number), result)
    (group,) = groups_of(read_runs([root]).runs)
    list(draw_pictures(group))
    return shown
