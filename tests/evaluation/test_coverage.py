"""Known coverages: the worst one counts, and one that differs from its level is a warning."""

from typing import Any

import pytest

from forecast.evaluation.coverage import Coverage, coverage_facts, worst


def facts(held_out: float | None, test: float | None, percent: int = 80) -> dict[str, Any]:
    return {"held_out_coverage": {str(percent): held_out}, "test_coverage": {str(percent): test}}


@pytest.mark.parametrize(
    ("held_out", "test", "words"),
    [
        (0.804, 0.672, "80 % covered 67.2 % of the test split"),
        (0.701, 0.79, "80 % covered 70.1 % of held-out validation"),
        (0.79, 0.97, "80 % covered 97.0 % of the test split"),
        (None, 0.81, "80 % covered 81.0 % of the test split"),
        (0.81, None, "80 % covered 81.0 % of held-out validation"),
    ],
)
def test_the_coverage_furthest_from_the_level_is_said(held_out: float | None, test: float | None, words: str) -> None:
    assert [coverage.words for coverage in worst([facts(held_out, test)], [80])] == [words]


def test_several_runs_say_the_worst_of_all() -> None:
    (found,) = worst([facts(0.8, 0.79), facts(0.8, 0.6), facts(0.8, 0.8)], [80])
    assert found.share == 0.6


def test_a_level_is_judged_by_the_nearest_known_one() -> None:
    both = {"test_coverage": {"80": 0.8, "95": 0.9}}
    assert [coverage.percent for coverage in worst([both], [92])] == [95]
    assert [coverage.percent for coverage in worst([both], [50, 80, 99])] == [80, 95]
    assert worst([{"test_coverage": {"80": None}}, {}], [80]) == []


@pytest.mark.parametrize(
    ("percent", "share", "warns"),
    [(80, 0.741, ""), (80, 0.859, ""), (80, 0.739, "narrow"), (80, 0.861, "wide"),
     (95, 0.918, ""), (95, 0.982, ""), (95, 0.916, "narrow"), (95, 0.984, "wide")],
)  # fmt: skip
def test_a_coverage_warns_beyond_six_points_at_80_and_three_at_95_percent(
    percent: int, share: float, warns: str
) -> None:
    text = Coverage(percent, share, "the test split").warning
    assert (text is None) is (warns == "")
    assert text is None or text == (
        f"{percent} % intervals were too {warns} on the test split: they covered {100 * share:.1f} %"
    )


@pytest.mark.parametrize("split", ["test", "validation"])
def test_windows_that_calibrated_the_intervals_are_no_test_of_them(split: str) -> None:
    result = {"data": {"scored_split": split}, "validation": {}, "test": {"intervals": {"coverage_80": 0.97}}}
    found = coverage_facts(result)
    assert found["held_out_coverage"] == {"80": None, "95": None}
    assert found["test_coverage"]["80"] == (0.97 if split == "test" else None)
