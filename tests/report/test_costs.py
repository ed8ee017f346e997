from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from forecast.evaluation.crossing import crossing
from forecast.report.costs import (
    INFERENCE,
    MEMORY,
    TRAINING,
    clearly_cheaper,
    comparable,
    costs_by_look_back,
    crossing_words,
    front,
    non_dominated,
    times_cheaper,
)
from forecast.report.groups import RunGroup, groups_of
from forecast.report.pictures import draw_pictures
from forecast.report.tables import range_table, result_table
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import result_of, write_run


def group_of(root: Path, *results: dict[str, Any]) -> RunGroup:
    for place, result in enumerate(results):
        write_run(root / str(place), result)
    (group,) = groups_of(read_runs([root]).runs)
    return group


def test_points_that_no_other_betters_are_not_dominated() -> None:
    points = {"cheap": (1, 9), "good": (9, 1), "middle": (4, 4), "worse": (5, 4), "twin": (4, 4), "bad": (9, 9)}
    assert non_dominated(points) == ["cheap", "middle", "twin", "good"]


def test_rates_become_milliseconds_per_window(tmp_path: Path) -> None:
    (setting,) = group_of(tmp_path, result_of(train=100, inference=400, memory=700)).settings
    assert [cost.of(setting) for cost in (TRAINING, INFERENCE, MEMORY)] == [10, 2.5, 700]


def test_a_cost_within_a_tenth_or_within_the_seeds_is_not_clearly_cheaper(tmp_path: Path) -> None:
    group = group_of(
        tmp_path,
        *(result_of("full", seed=seed, train=100 + seed) for seed in (1, 2)),
        *(result_of("linear", seed=seed, train=108 + seed) for seed in (1, 2)),
        *(result_of("taylor", seed=seed, train=150 + seed) for seed in (1, 2)),
        *(result_of("efficient", seed=seed, train=150 * seed - 80) for seed in (1, 2)),
        *(result_of("probsparse", seed=seed, train=300 * seed - 195) for seed in (1, 2)),
    )
    full = group.at("full", 512)
    taylor = group.at("taylor", 512)
    others = [group.at(arm, 512) for arm in ("linear", "taylor", "efficient", "probsparse")]
    assert full
    assert taylor
    assert [clearly_cheaper(TRAINING, setting, full) for setting in others if setting] == [False, True, False, False]
    assert times_cheaper(TRAINING, taylor, full) == pytest.approx(1.49, abs=0.01)


def test_costs_on_another_device_are_not_compared(tmp_path: Path) -> None:
    group = group_of(
        tmp_path,
        result_of("full"),
        result_of("linear", train=200),
        {**result_of("taylor", train=900), "device": "A GPU"},
        result_of("efficient", train=900, config={"training.batch_size": 64, "training.evaluation_batch_size": 7}),
    )
    assert comparable(group, TRAINING).keys() == {("full", 512), ("linear", 512)}
    assert front(group, TRAINING) == [("linear", 512)]
    full, taylor = group.at("full", 512), group.at("taylor", 512)
    assert full
    assert taylor
    assert times_cheaper(TRAINING, taylor, full) is None
    assert not clearly_cheaper(TRAINING, taylor, full)


def test_the_median_of_the_seeds_counts_and_rounding_dominates_nothing(tmp_path: Path) -> None:
    group = group_of(
        tmp_path,
        *(result_of("full", seed=seed, train=train, mse=0.4) for seed, train in ((1, 100), (2, 10), (3, 100))),
        result_of("linear", train=200, mse=0.4 + 1e-16),
    )
    full = group.at("full", 512)
    assert full
    assert TRAINING.of(full) == 10
    assert front(group, TRAINING) == [("linear", 512)]


def test_each_number_is_below_its_heading(tmp_path: Path) -> None:
    group = group_of(
        tmp_path,
        result_of(train=100, inference=400, memory=700, mse=0.4, linear=0.38, mixing_weight=0.25),
        result_of("linear", train=90, inference=300, memory=800, mse=0.5, linear=0.38, mixing_weight=0.25),
    )
    table = result_table(group)
    model, _, *baselines = [dict(zip(table.headings, row, strict=True)) for row in table.cells]
    scores = {"test MSE": "0.4000", "test MAE": "0.2000", "val. MSE": "0.4000", "skill, %": "+20.0"}
    costs = {
        "train, ms/window": "10",
        "infer, ms/window": "2.5",
        "peak MiB": "700",
        "not dominated": "train, infer, peak",
    }
    training = {"enc.-dec., %": "25", "fit, min": "1", "best step": "400 of 500"}
    names = {"mechanism": "full", "look-back": "512", "seeds": "1"}
    assert model == names | scores | costs | training
    (ridge,) = (row for row in baselines if row["mechanism"].startswith("linear (ridge)"))
    filled = {key: value for key, value in ridge.items() if value and key != "mechanism"}
    assert filled == {"test MSE": "0.3800", "test MAE": "0.1900", "val. MSE": "0.3800", "skill, %": "+24.0"}


def test_table_and_pictures_show_the_range_of_the_seeds_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(
        tmp_path,
        *(result_of(seed=seed, train=train, memory=700) for seed, train in ((1, 100), (2, 50), (3, 80))),
        result_of(look_back=96, train=500),
    )
    table = range_table(group)
    assert table
    assert table.cells == [["full", "512", "12.5 (10 to 20)", "2.5", "700"]]
    assert range_table(group_of(tmp_path / "alone", result_of())) is None
    panels: list[Axes] = []
    monkeypatch.setattr("forecast.report.pictures.png", lambda panel, *_, **__: panels.append(panel) or b"")
    keys = [key for key, *_ in draw_pictures(group)]
    for key, axis in (("error-train", 0), ("look-back-train", 1)):
        bars = [bar.vertices[:, axis] for lines in panels[keys.index(key)].collections for bar in lines.get_paths()]
        assert [sorted(bar.tolist()) for bar in bars if bar[0] != bar[1]] == [pytest.approx([10, 20])]


def test_settings_without_times_are_left_out(tmp_path: Path) -> None:
    untimed = result_of("linear")
    untimed["speed"]["train_windows_per_s"] = None
    group = group_of(tmp_path, result_of("full"), untimed)
    assert comparable(group, TRAINING).keys() == {("full", 512)}
    assert comparable(group, INFERENCE).keys() == {("full", 512), ("linear", 512)}


def test_the_crossing_of_known_costs(made: Made) -> None:
    """Costs of l² and 2.2 l, in units of look-back 96, cross at 2.2 units: 211 steps."""
    group = made.chapter.group
    assert crossing_words(group, "linear", TRAINING) == "211"
    assert float(crossing_words(group, "probsparse", INFERENCE).replace(",", "")) == pytest.approx(1200, rel=0.01)


def _between(group: RunGroup, arm: str) -> str:
    """Return the interpolated look-back at which training costs as much as with `full`."""
    found = crossing(*(costs_by_look_back(group, each, TRAINING) for each in (arm, "full")))
    assert found is not None
    return f"{found:,.0f}"


def test_a_crossing_needs_a_clearly_lower_cost_at_the_longest_look_back(tmp_path: Path) -> None:
    """At 720 `linear` costs 5 % less, which may be noise; `taylor` costs half."""
    group = group_of(
        tmp_path,
        *(result_of("full", look_back, train=100, inference=400) for look_back in (96, 720)),
        *(result_of("linear", look_back, train=train) for look_back, train in ((96, 90), (720, 105))),
        *(result_of("taylor", look_back, train=train) for look_back, train in ((96, 90), (720, 200))),
    )
    assert crossing_words(group, "linear", TRAINING) == "not clearly up to 720"
    assert crossing_words(group, "taylor", TRAINING) == _between(group, "taylor")
    assert crossing_words(group, "taylor", INFERENCE) == "not up to 720"


def test_conditions_are_facts_that_change_a_cost_but_no_score(tmp_path: Path) -> None:
    mapped = result_of("efficient")
    mapped["data"]["placement"] = {"where": "mapped"}
    group = group_of(
        tmp_path,
        *(result_of("full", seed=seed) for seed in (1, 2)),
        result_of("linear", config={"training.activation_checkpointing": True}),
        {**result_of("taylor"), "processes": 2},
        mapped,
        *({**result_of("mean", seed=seed), "processes": seed} for seed in (1, 2)),
    )
    conditions = {setting.arm: setting.conditions for setting in group.settings}
    plain = conditions["full"]
    assert conditions["linear"] == f"{plain}, activation checkpointing"
    assert conditions["efficient"] == f"{plain}, table mapped"
    assert conditions["taylor"] == plain.replace("threads", "threads, 2 processes")
    assert conditions["mean"] == f"{plain} / {conditions['taylor']}"
    assert comparable(group, TRAINING).keys() == {("full", 512)}
