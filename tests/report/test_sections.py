from pathlib import Path
from typing import Any

import pytest

from forecast.report.sections import Section, sections_of
from forecast.runs.read import read_runs
from tests.report.made import result_of, write_run


def section(root: Path, *runs: tuple[str, int, dict[str, Any]]) -> Section:
    """Return the one section of runs of a mechanism and look-back, with what else their configurations have."""
    for place, (mechanism, look_back, config) in enumerate(runs):
        write_run(root / str(place), result_of(mechanism, look_back, config=config))
    (found,) = sections_of(read_runs([root]).runs)
    return found


def test_an_arm_is_its_mechanism_where_nothing_else_differs(tmp_path: Path) -> None:
    found = section(tmp_path, ("linear", 96, {}), ("full", 96, {}), ("mean", 720, {}), ("full", 720, {}))
    assert found.arms == ["full", "linear", "mean"]
    assert [each.key for each in found.settings] == [("full", 96), ("full", 720), ("linear", 96), ("mean", 720)]
    assert (found.reference, found.control, found.look_backs) == ("full", "mean", [96, 720])


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
def test_whatever_else_differs_is_said_in_the_arms_name(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    found = section(tmp_path, ("linear", 96, {}), ("linear", 96, config))
    assert len(found.arms) == 2
    assert any(words in arm.split(", ") for arm in found.arms)


def test_options_that_differ_together_are_told_by_one_of_them(tmp_path: Path) -> None:
    other = {"model.patch_length": 1, "optimizer.lr": 0.1, "training.max_steps": 7}
    found = section(tmp_path, *((name, 96, more) for name in ("full", "linear") for more in ({}, other)))
    words = [f"model.patch_length={length}" for length in (1, 24)]
    assert found.arms == [f"{name}, {word}" for name in ("full", "linear") for word in words]


def test_options_that_the_mechanism_settles_make_no_word(tmp_path: Path) -> None:
    found = section(tmp_path, ("full", 96, {}), ("linformer", 96, {"decoder_attention": {"name": "full"}}))
    assert found.arms == ["full", "linformer"]


def test_look_back_batches_of_evaluation_and_what_is_free_make_no_arm(tmp_path: Path) -> None:
    free = {"training.evaluation_batch_size": 4, "training.progress": False, "output_dir": "elsewhere"}
    found = section(tmp_path, ("full", 96, {}), ("full", 720, free))
    assert found.arms == ["full"]


def test_conditions_are_told_where_an_arm_would_stand_twice(tmp_path: Path) -> None:
    write_run(tmp_path / "1", result_of())
    write_run(tmp_path / "2", {**result_of(seed=2), "device": "A GPU"})
    (found,) = sections_of(read_runs([tmp_path]).runs)
    assert found.arms == ["full, A GPU", "full, A processor, 2 threads"]


def test_runs_of_other_seeds_are_one_setting_with_mean_and_spread(tmp_path: Path) -> None:
    for seed, mse in ((1, 0.3), (2, 0.36), (3, 0.33)):
        write_run(tmp_path / str(seed), result_of(seed=seed, mse=mse))
    (found,) = sections_of(read_runs([tmp_path]).runs)
    (setting,) = found.settings
    assert setting.seeds == [1, 2, 3]
    assert setting.mean("test.scaled.mse") == pytest.approx(0.33)
    assert setting.spread("test.scaled.mse") == pytest.approx(0.03)


def test_the_nearest_of_a_mechanism_ran_under_the_same_conditions_if_any_did(tmp_path: Path) -> None:
    for place, (name, threads) in enumerate((("full", 1), ("full", 2), ("linear", 2))):
        write_run(tmp_path / str(place), {**result_of(name), "device": f"A processor, {threads} threads"})
    (found,) = sections_of(read_runs([tmp_path]).runs)
    linear = next(each for each in found.settings if each.mechanism == "linear")
    nearest = found.nearest("full", linear)
    assert nearest is not None
    assert nearest.conditions == linear.conditions


def test_the_nearest_of_a_mechanism_shares_most_else(tmp_path: Path) -> None:
    ridge = {"model.linear_path": "ridge"}
    found = section(tmp_path, *((name, 96, more) for name in ("full", "linear") for more in ({}, ridge)))
    for setting in found.settings:
        nearest = found.nearest("full", setting)
        assert nearest is not None
        assert nearest.arm.partition(", ")[2] == setting.arm.partition(", ")[2]
        assert found.nearest("mean", setting) is None
