"""Two processes that share a batch learn the same as one: real processes, gloo, a few small trainings."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from forecast.common.group import ALONE
from tests.support.small import ROOT
from tests.training.parallel.ranks import cases, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated"),
]

NAMES = ("gaps", "unused", "informer", "hidden", "compiled", "adam")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the outcomes of one process and of two by case."""
    folder = tmp_path_factory.mktemp("ranks")
    configs = cases(folder)
    path = folder / "cases.json"
    path.write_text(json.dumps(configs))
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.parallel.ranks"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    two = [
        subprocess.Popen([*command, str(rank), f"file://{folder / 'meeting'}", str(path)], cwd=ROOT, env=environment)
        for rank in range(2)
    ]
    one = {name: run(config, folder / "one" / name, ALONE) for name, config in configs.items()}
    assert [process.wait(300) for process in two] == [0, 0]
    return {name: (one[name], torch.load(folder / f"{name}.pt", weights_only=True)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES[:5])
def test_two_processes_take_the_same_step_as_one(name: str, outcomes: Any) -> None:
    one, two = outcomes[name]
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


@pytest.mark.parametrize("row", ["last_value", "seasonal_naive", "linear"])
def test_baselines_score_the_same(row: str, outcomes: Any) -> None:
    for one, two in outcomes.values():
        assert two["scores"][row] == pytest.approx(one["scores"][row], rel=1e-6)
