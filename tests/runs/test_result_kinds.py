"""What a `result.json` may hold: numbers where numbers belong, texts where texts do, and all that is shown."""

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


def planted(run: Path, way: str, value: Any) -> None:
    """Put a value into the result of a run, and have its manifest agree, as somebody who means it would."""
    content = node = json.loads((run / "result.json").read_text())
    *groups, key = way.split(".")
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
]


def test_a_result_as_it_is_written_has_everything_in_its_kind(tiny_run: TinyRun) -> None:
    result = json.loads((tiny_run.path / "result.json").read_text())
    assert wrong_kind(result) is None
    assert lacking(result) is None
    for path in SHOWN:
        first = path.split(".")[0]
        assert lacking({key: value for key, value in result.items() if key != first}) is not None


@pytest.mark.parametrize(("way", "value"), WRONG)
def test_a_value_of_another_kind_is_named_and_the_run_left_alone(way: str, value: Any, run: Path) -> None:
    planted(run, way, value)
    with pytest.raises(InputError, match=r"no finished run there \(run: ") as caught:
        read_runs([run])
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"is damaged"):
        train(compose(f"resume={run}"), overrides=[f"resume={run}"])


@pytest.mark.parametrize("way", ["speed", "model", "baselines", "linear_path", "command"])
def test_a_finished_run_whose_result_lacks_what_is_shown_is_damaged(way: str, run: Path) -> None:
    content = json.loads((run / "result.json").read_text())
    del content[way]
    rewrite(run / "result.json", content)
    with pytest.raises(InputError, match=r"is damaged"):
        train(compose(f"resume={run}"), overrides=[f"resume={run}"])


@pytest.mark.parametrize("name", ["checkpoints", "config.json", "model.safetensors", "input.csv", "checkpoints/a.ckpt"])
def test_a_link_in_a_run_folder_is_refused_and_followed_nowhere(name: str, run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        shutil.move(run / name, elsewhere)
    (run / name).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(InputError, match=r"it is a link|is a link: a run folder holds files of its own"):
        train(compose(f"resume={run}"), overrides=[f"resume={run}"])
    assert sorted(elsewhere.rglob("*")) == before
