from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forecast.report.groups import RunGroup, Setting, groups_of
from forecast.report.pictures import draw_pictures
from forecast.runs.read import read_runs
from tests.report.made import result_of, write_run


def group_of(root: Path, *runs: tuple[str, int, dict[str, Any]]) -> RunGroup:
    """Return the only group of runs: mechanism, look-back and other keys of the configuration."""
    for place, (mechanism, look_back, config) in enumerate(runs):
        write_run(root / str(place), result_of(mechanism, look_back, config=config))
    (group,) = groups_of(read_runs([root]).runs)
    return group


def test_an_arm_is_its_mechanism_if_no_option_differs(tmp_path: Path) -> None:
    group = group_of(tmp_path, ("linear", 96, {}), ("full", 96, {}), ("mean", 720, {}), ("full", 720, {}))
    assert group.arms == ["full", "linear", "mean"]
    assert [setting.key for setting in group.settings] == [("full", 96), ("full", 720), ("linear", 96), ("mean", 720)]
    assert (group.reference, group.control, group.look_backs) == ("full", "mean", [96, 720])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"optimizer.lr": 0.1}, "optimizer.lr=0.1"),
        ({"loss": "huber"}, "loss=huber"),
        ({"training.max_steps": 7}, "training.max_steps=7"),
        ({"model.linear_path": "ridge"}, "model.linear_path=ridge"),
        ({"cross_attention": {"name": "mean"}}, "cross_attention=mean"),
        ({"decoder_attention": {"name": "full"}}, "decoder_attention=full"),
        ({"attention.factor": 9}, "factor=9"),
        ({"data.past_covariates": ["OT"]}, "data.past_covariates=['OT']"),
    ],
)
def test_an_option_that_differs_is_in_the_arms_name(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    group = group_of(tmp_path, ("linear", 96, {}), ("linear", 96, config))
    assert len(group.arms) == 2
    assert any(words in arm.split(", ") for arm in group.arms)


def test_options_that_differ_together_are_named_by_one_of_them(tmp_path: Path) -> None:
    other = {"model.patch_length": 1, "optimizer.lr": 0.1, "training.max_steps": 7}
    group = group_of(tmp_path, *((name, 96, more) for name in ("full", "linear") for more in ({}, other)))
    words = [f"model.patch_length={length}" for length in (1, 24)]
    assert group.arms == [f"{name}, {word}" for name in ("full", "linear") for word in words]


def test_options_that_the_mechanism_determines_are_not_in_the_name(tmp_path: Path) -> None:
    group = group_of(tmp_path, ("full", 96, {}), ("linformer", 96, {"decoder_attention": {"name": "full"}}))
    assert group.arms == ["full", "linformer"]


def test_look_back_and_options_without_effect_on_scores_make_no_arm(tmp_path: Path) -> None:
    free = {"training.evaluation_batch_size": 4, "training.progress": False, "output_dir": "elsewhere"}
    group = group_of(tmp_path, ("full", 96, {}), ("full", 720, free))
    assert group.arms == ["full"]


def test_conditions_distinguish_equal_arms(tmp_path: Path) -> None:
    write_run(tmp_path / "1", result_of())
    write_run(tmp_path / "2", {**result_of(seed=2), "device": "A GPU"})
    (group,) = groups_of(read_runs([tmp_path]).runs)
    assert group.arms == ["full, A GPU", "full, A processor, 2 threads"]


def test_runs_of_different_seeds_are_one_setting_with_mean_and_standard_deviation(tmp_path: Path) -> None:
    for seed, mse in ((1, 0.3), (2, 0.36), (3, 0.33)):
        write_run(tmp_path / str(seed), result_of(seed=seed, mse=mse))
    (group,) = groups_of(read_runs([tmp_path]).runs)
    (setting,) = group.settings
    assert setting.seeds == [1, 2, 3]
    assert setting.mean("test.scaled.mse") == pytest.approx(0.33)
    assert setting.deviation("test.scaled.mse") == pytest.approx(0.03)


def test_one_file_at_two_paths_makes_one_setting(tmp_path: Path) -> None:
    for seed, path in enumerate(("ETTh1.csv", "/elsewhere/ETTh1.csv"), 1):
        write_run(tmp_path / str(seed), result_of("full", 96, seed, config={"data.path": path}))
    (group,) = groups_of(read_runs([tmp_path]).runs)
    assert [setting.seeds for setting in group.settings] == [[1, 2]]


def test_the_nearest_setting_has_equal_conditions_if_there_is_one(tmp_path: Path) -> None:
    for place, (name, threads) in enumerate((("full", 1), ("full", 2), ("linear", 2))):
        write_run(tmp_path / str(place), {**result_of(name), "device": f"A processor, {threads} threads"})
    (group,) = groups_of(read_runs([tmp_path]).runs)
    linear = next(setting for setting in group.settings if setting.mechanism == "linear")
    nearest = group.nearest("full", linear)
    assert nearest is not None
    assert nearest.conditions == linear.conditions


def test_the_nearest_setting_shares_the_most_options(tmp_path: Path) -> None:
    ridge = {"model.linear_path": "ridge"}
    group = group_of(tmp_path, *((name, 96, more) for name in ("full", "linear") for more in ({}, ridge)))
    for setting in group.settings:
        nearest = group.nearest("full", setting)
        assert nearest is not None
        assert nearest.arm.partition(", ")[2] == setting.arm.partition(", ")[2]
        assert group.nearest("mean", setting) is None


def test_seeds_that_name_the_same_data_in_other_words_are_one_setting(tmp_path: Path) -> None:
    for seed, targets in ((1, None), (2, ["OT"])):
        result = result_of("full", 96, seed, config={"data.targets": targets, "data.path": f"copy-{seed}.csv"})
        write_run(tmp_path / str(seed), result)
    (group,) = groups_of(read_runs([tmp_path]).runs)
    assert [(setting.key, setting.seeds) for setting in group.settings] == [(("full", 96), [1, 2])]


@pytest.mark.slow
@pytest.mark.parametrize("look_backs", [(96,), (96, 720)])
def test_two_ways_of_reading_the_dates_are_two_settings(look_backs: tuple[int, ...], tmp_path: Path) -> None:
    formats = ({"data.date_format": "%d/%m/%Y"}, {"data.date_format": "%m/%d/%Y"})
    runs = [(name, length, more) for name in ("full", "mean") for length in look_backs for more in formats]
    group = group_of(tmp_path, *runs)
    keys = [setting.key for setting in group.settings]
    assert len(set(keys)) == len(keys) == len(runs)
    assert "full, data.date_format=%d/%m/%Y" in group.arms
    assert len(list(draw_pictures(group))) > 0


def test_a_remark_on_what_was_measured_later_makes_no_setting(tmp_path: Path) -> None:
    for seed, more in ((1, {}), (2, {"data.perfect_foresight": ["temperature"]})):
        write_run(tmp_path / str(seed), result_of(seed=seed, config=more))
    (group,) = groups_of(read_runs([tmp_path]).runs)
    (setting,) = group.settings
    assert setting.seeds == [1, 2]


def test_titles_with_long_values_are_unique(tmp_path: Path) -> None:
    for count in (6, 7):
        result = result_of()
        result["data"]["targets"] = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"][:count]
        write_run(tmp_path / str(count), result)
    titles = [group.title for group in groups_of(read_runs([tmp_path]).runs)]
    assert len(set(titles)) == 2
    assert {title.rpartition(", ")[2] for title in titles} == {"number 1", "number 2"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("first_test_target",), "2018-01-01 00:00:00"),
        (("windows", "test"), 1999),
        (("windows_left_out", "test"), 3),
    ],
)
def test_settings_on_other_test_windows_are_told(tmp_path: Path, path: tuple[str, ...], value: Any) -> None:
    write_run(tmp_path / "full", result_of("full"))
    write_run(tmp_path / "mean", result_of("mean"))
    (group,) = groups_of(read_runs([tmp_path]).runs)
    assert group.same_windows
    result = result_of("linear")
    node = result["data"]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    write_run(tmp_path / "linear", result)
    (group,) = groups_of(read_runs([tmp_path]).runs)
    assert not group.same_windows


@pytest.mark.parametrize(("start", "is_ridge"), [(None, True), ({"run": "outputs/a"}, False)])
def test_a_sum_whose_best_step_is_the_start_is_the_ridge_unless_weights_of_a_run_began_it(
    start: dict[str, str] | None, is_ridge: bool
) -> None:
    result = {"config": {"model": {"linear_path": "ridge"}}, "start_from": start}
    run: Any = SimpleNamespace(result=result, number=lambda name: 0.0 if "best_step" in name else float("nan"))
    assert Setting("full", 96, (run,)).is_linear_path is is_ridge


def test_other_weights_at_the_place_of_a_start_are_another_setting(tmp_path: Path) -> None:
    for seed, digest in enumerate(("ab" * 32, "ab" * 32, "cd" * 32), 1):
        start = {"kind": "run", "run": "outputs/a", "weights": digest, "pretrained_on": None}
        result = {**result_of(seed=seed, config={"start_from": "outputs/a"}), "start_from": start}
        write_run(tmp_path / str(seed), result)
    (group,) = groups_of(read_runs([tmp_path]).runs)
    arms = [f"full, start_from=outputs/a, start_from.weights={digest}" for digest in ("abababab", "cdcdcdcd")]
    assert [(setting.arm, setting.seeds) for setting in group.settings] == [(arms[0], [1, 2]), (arms[1], [3])]
