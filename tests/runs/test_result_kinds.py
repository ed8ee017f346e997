"""The content of `result.json`: types of values, and the values that are printed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from forecast.common.errors import InputError
from forecast.runs.read import read_runs
from forecast.runs.results import SHOWN, lacking, wrong_kind
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import compose, rewrite


def plant(run: Path, path: str, value: Any) -> None:
    """Put a value into the result of a run and update its manifest, as an attacker would."""
    content = node = json.loads((run / "result.json").read_text())
    *groups, key = path.split(".")
    for group in groups:
        node = node[group]
    node[key] = value
    rewrite(run / "result.json", content)


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


WRONG = [
    ("speed.peak_memory_mib", "x"),
    ("test.scaled.mse", "0.1"),
    ("test", 1),
    ("speed", []),
    ("model.steps", {"a": "b"}),
    ("model.best_step", []),
    ("model.validation_blocks", {"a": 1}),
    ("seed", {}),
    ("config.training.batch_size", 1.5),
    ("status", {}),
    ("test.scaled.mse", [0.1]),
    ("test.by_step", {"mse": 0.1}),
    ("test.by_step", [{"mse": "x"}]),
    ("data.name", 5),
    ("data.targets", "load"),
    ("data.windows.test", "129"),
    ("baselines.linear.test.scaled.mae", [["x"]]),
    ("test.scaled.mse", 10**400),
    ("test.by_step", [{"mse": 10**400}]),
    ("config.context_length", 10**400),
    ("config.data", 1.5),
    ("config.training", [1]),
    ("config.data", None),
]


def test_a_written_result_is_complete_and_of_the_right_types(tiny_run: TinyRun) -> None:
    result = json.loads((tiny_run.path / "result.json").read_text())
    assert wrong_kind(result) is None
    assert lacking(result) is None
    for path in SHOWN:
        first = path.split(".")[0]
        assert lacking({key: value for key, value in result.items() if key != first}) is not None


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda part: str(part)[:40])
def test_a_run_with_a_value_of_a_wrong_type_is_left_out_by_name(path: str, value: Any, run: Path) -> None:
    plant(run, path, value)
    with pytest.raises(InputError, match=r"no finished run there \(run: ") as caught:
        read_runs([run])
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"is damaged"):
        train(compose(f"resume={run}"), overrides=[f"resume={run}"])


@pytest.mark.parametrize("key", ["speed", "model", "baselines", "linear_path", "command"])
def test_a_finished_run_without_a_printed_value_is_damaged(key: str, run: Path) -> None:
    content = json.loads((run / "result.json").read_text())
    del content[key]
    rewrite(run / "result.json", content)
    with pytest.raises(InputError, match=r"is damaged"):
        train(compose(f"resume={run}"), overrides=[f"resume={run}"])


@pytest.mark.parametrize("name", ["checkpoints", "config.json", "model.safetensors", "input.csv", "checkpoints/a.ckpt"])
def test_a_link_in_a_run_folder_is_refused_and_not_followed(name: str, run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        shutil.move(run / name, elsewhere)
    (run / name).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(InputError, match=r"it is a link|is a link: a run folder must hold the files themselves"):
        train(compose(f"resume={run}"), overrides=[f"resume={run}"])
    assert sorted(elsewhere.rglob("*")) == before
