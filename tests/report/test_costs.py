from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from forecast.report.costs import (
    INFERENCE,
    MEMORY,
    TRAINING,
    clearly_cheaper,
    comparable,
    crossing_of,
    crossing_words,
    front,
    non_dominated,
    times_cheaper,
)
from forecast.report.pictures import draw_pictures
from forecast.report.sections import Section, sections_of
from forecast.report.tables import range_table, result_table
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import result_of, write_run


def section(root: Path, *results: dict[str, Any]) -> Section:
    for place, result in enumerate(results):
        write_run(root / str(place), result)
    (found,) = sections_of(read_runs([root]).runs)
    return found


def test_only_points_that_nothing_betters_in_both_are_not_dominated() -> None:
    points = {"cheap": (1, 9), "good": (9, 1), "middle": (4, 4), "worse": (5, 4), "twin": (4, 4), "bad": (9, 9)}
    assert non_dominated(points) == ["cheap", "middle", "twin", "good"]


def test_rates_become_milliseconds_a_window(tmp_path: Path) -> None:
    (setting,) = section(tmp_path, result_of(train=100, inference=400, memory=700)).settings
    assert [cost.of(setting) for cost in (TRAINING, INFERENCE, MEMORY)] == [10, 2.5, 700]


def test_a_cost_within_a_tenth_or_within_the_seeds_is_no_difference(tmp_path: Path) -> None:
    found = section(
        tmp_path,
        *(result_of("full", seed=seed, train=100 + seed) for seed in (1, 2)),
        *(result_of("linear", seed=seed, train=108 + seed) for seed in (1, 2)),
        *(result_of("taylor", seed=seed, train=150 + seed) for seed in (1, 2)),
        *(result_of("efficient", seed=seed, train=150 * seed - 80) for seed in (1, 2)),
        *(result_of("probsparse", seed=seed, train=300 * seed - 195) for seed in (1, 2)),
    )
    full = found.at("full", 512)
    taylor = found.at("taylor", 512)
    others = [found.at(arm, 512) for arm in ("linear", "taylor", "efficient", "probsparse")]
    assert full
    assert taylor
    assert [clearly_cheaper(TRAINING, each, full) for each in others if each] == [False, True, False, False]
    assert times_cheaper(TRAINING, taylor, full) == pytest.approx(1.49, abs=0.01)


def test_costs_on_another_device_are_not_compared(tmp_path: Path) -> None:
    found = section(
        tmp_path,
        result_of("full"),
        result_of("linear", train=200),
        {**result_of("taylor", train=900), "device": "A GPU"},
        result_of("efficient", train=900, config={"training.batch_size": 64, "training.evaluation_batch_size": 7}),
    )
    assert comparable(found, TRAINING).keys() == {("full", 512), ("linear", 512)}
    assert front(found, TRAINING) == [("linear", 512)]
    full, taylor = found.at("full", 512), found.at("taylor", 512)
    assert full
    assert taylor
    assert times_cheaper(TRAINING, taylor, full) is None
    assert not clearly_cheaper(TRAINING, taylor, full)


def test_of_several_seeds_the_median_counts_and_a_rounded_error_dominates_nothing(tmp_path: Path) -> None:
    found = section(
        tmp_path,
        *(result_of("full", seed=seed, train=train, mse=0.4) for seed, train in ((1, 100), (2, 10), (3, 100))),
        result_of("linear", train=200, mse=0.4 + 1e-16),
    )
    full = found.at("full", 512)
    assert full
    assert TRAINING.of(full) == 10
    assert front(found, TRAINING) == [("linear", 512)]


def test_each_number_of_a_setting_and_of_a_baseline_stands_beneath_its_heading(tmp_path: Path) -> None:
    found = section(tmp_path, result_of(train=100, inference=400, memory=700, mse=0.4, linear=0.38, share=0.25))
    table = result_table(found)
    model, *baselines = [dict(zip(table.headings, row, strict=True)) for row in table.cells]
    scores = {"test MSE": "0.4000", "test MAE": "0.2000", "val. MSE": "0.4000", "skill, %": "+20.0"}
    costs = {"train, ms/window": "10", "infer, ms/window": "2.5", "peak MiB": "700", "not dominated": "T I M"}
    training = {"enc.-dec., %": "25", "fit, min": "1", "best step": "400 of 500"}
    named = {"mechanism": "full", "look-back": "512", "seeds": "1"}
    assert model == named | scores | costs | training
    (ridge,) = (row for row in baselines if row["mechanism"].startswith("linear (ridge)"))
    told = {key: value for key, value in ridge.items() if value and key != "mechanism"}
    assert told == {"test MSE": "0.3800", "test MAE": "0.1900", "val. MSE": "0.3800", "skill, %": "+24.0"}


def test_table_and_pictures_tell_the_least_and_the_greatest_cost_of_the_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = section(
        tmp_path,
        *(result_of(seed=seed, train=train, memory=700) for seed, train in ((1, 100), (2, 50), (3, 80))),
        result_of(look_back=96, train=500),
    )
    table = range_table(found)
    assert table
    assert table.cells == [["full", "512", "12.5 (10 to 20)", "2.5", "700"]]
    assert range_table(section(tmp_path / "alone", result_of())) is None
    panels: list[Axes] = []
    monkeypatch.setattr("forecast.report.pictures.png", lambda panel, *_, **__: panels.append(panel) or b"")
    keys = [key for key, *_ in draw_pictures(found)]
    for key, axis in (("error-train", 0), ("look-back-train", 1)):
        bars = [bar.vertices[:, axis] for each in panels[keys.index(key)].collections for bar in each.get_paths()]
        assert [sorted(bar.tolist()) for bar in bars if bar[0] != bar[1]] == [pytest.approx([10, 20])]


def test_what_was_not_timed_is_left_out(tmp_path: Path) -> None:
    untimed = result_of("linear")
    untimed["speed"]["train_windows_per_s"] = None
    found = section(tmp_path, result_of("full"), untimed)
    assert comparable(found, TRAINING).keys() == {("full", 512)}
    assert comparable(found, INFERENCE).keys() == {("full", 512), ("linear", 512)}


def test_the_crossing_of_known_costs_is_found(made: Made) -> None:
    """Of costs l² and 2.2 l, in units of look-back 96, the crossing is at 2.2 of them: 211 steps."""
    section = made.chapter.section
    assert crossing_of(section, "linear", TRAINING) == pytest.approx(2.2 * 96, rel=0.01)
    assert crossing_of(section, "probsparse", INFERENCE) == pytest.approx(12.5 * 96, rel=0.01)
    assert crossing_words(section, "linear", TRAINING) == "211"


def test_a_crossing_is_told_only_where_the_cost_is_clearly_less_at_the_longest(tmp_path: Path) -> None:
    """Of `linear` it is a twentieth less at 720, which the next run may turn round; of `taylor` half."""
    found = section(
        tmp_path,
        *(result_of("full", look_back, train=100, inference=400) for look_back in (96, 720)),
        *(result_of("linear", look_back, train=train) for look_back, train in ((96, 90), (720, 105))),
        *(result_of("taylor", look_back, train=train) for look_back, train in ((96, 90), (720, 200))),
    )
    assert crossing_words(found, "linear", TRAINING) == "not clearly up to 720"
    assert crossing_words(found, "taylor", TRAINING) == f"{crossing_of(found, 'taylor', TRAINING):,.0f}"
    assert crossing_words(found, "taylor", INFERENCE) == "not up to 720"


def test_what_changes_a_cost_and_no_score_is_among_the_conditions(tmp_path: Path) -> None:
    mapped = result_of("efficient")
    mapped["data"]["placement"] = {"where": "mapped"}
    found = section(
        tmp_path,
        *(result_of("full", seed=seed) for seed in (1, 2)),
        result_of("linear", config={"training.activation_checkpointing": True}),
        {**result_of("taylor"), "processes": 2},
        mapped,
        *({**result_of("mean", seed=seed), "processes": seed} for seed in (1, 2)),
    )
    told = {each.arm: each.conditions for each in found.settings}
    plain = told["full"]
    assert told["linear"] == f"{plain}, activation checkpointing"
    assert told["efficient"] == f"{plain}, table mapped"
    assert told["taylor"] == plain.replace("threads", "threads, 2 processes")
    assert told["mean"] == f"{plain} / {told['taylor']}"
    assert comparable(found, TRAINING).keys() == {("full", 512)}
