"""Two processes that share a batch learn the same as one: real processes, gloo, a few small trainings."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.common.group import ALONE
from tests.support.small import ROOT
from tests.training.parallel.ranks import cases, run

pytestmark = [
    pytest.mark.exhaustive,  # test_command.py trains in two processes in each run
    pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated"),
]

STEPS = ("hidden",)
"""Cases of a few steps: the informer with gaps."""


def outcomes_of(folder: Path, *names: str) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the outcomes of one process and of two by case."""
    made = cases(folder)
    configs = {name: made[name] for name in names}
    path = folder / "cases.json"
    path.write_text(json.dumps(configs))
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.parallel.ranks", f"file://{folder / 'meeting'}"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    two = subprocess.Popen([*command, str(path)], cwd=ROOT, env=environment)
    one = {name: run(config, folder / "one" / name, ALONE) for name, config in configs.items()}
    assert two.wait(300) == 0
    return {name: (one[name], torch.load(folder / f"{name}.pt", weights_only=True)) for name in names}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the outcomes of the cases that are not compiled."""
    return outcomes_of(tmp_path_factory.mktemp("ranks"), *STEPS, "adam")


@pytest.mark.parametrize("name", STEPS)
def test_two_processes_take_the_same_step_as_one(name: str, outcomes: Any) -> None:
    assert_same_step(*outcomes[name])


@pytest.mark.exhaustive
def test_two_processes_take_the_same_step_as_one_in_other_cases_too(tmp_path: Path) -> None:
    outcomes = outcomes_of(tmp_path, "unused", "gaps", "informer", "compiled")
    for one, two in outcomes.values():
        assert_same_step(one, two)
        assert_same_baselines(one, two)


def assert_same_step(one: dict[str, Any], two: dict[str, Any]) -> None:
    moved = []
    for key, start in one["start"].items():
        torch.testing.assert_close(two["end"][key], one["end"][key], rtol=0, atol=1e-5, msg=key)
        moved.append(float((one["end"][key] - start).abs().max()))
    assert max(moved) > 1e-2


def test_many_steps_end_at_the_same_weights_and_scores(outcomes: Any) -> None:
    one, two = outcomes["adam"]
    for key, tensor in one["end"].items():
        torch.testing.assert_close(two["end"][key], tensor, rtol=0, atol=1e-4, msg=key)
    assert two["best"]["step"] == one["best"]["step"]
    assert two["fit"]["status"] == one["fit"]["status"] == "finished"
    for row, scores in one["scores"].items():
        assert two["scores"][row] == pytest.approx(scores, rel=1e-4)


def test_baselines_score_the_same(outcomes: Any) -> None:
    for one, two in outcomes.values():
        assert_same_baselines(one, two)


def assert_same_baselines(one: dict[str, Any], two: dict[str, Any]) -> None:
    for row in ("last_value", "seasonal_naive", "linear"):
        assert two["scores"][row] == pytest.approx(one["scores"][row], rel=1e-6)
