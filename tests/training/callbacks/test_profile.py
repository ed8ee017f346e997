import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from forecast.runs.run import TRACE
from forecast.training.callbacks.profile import RECORDED, WAIT, WARM_UP
from forecast.training.train import train
from tests.support.boards import texts
from tests.support.kept import kept_run
from tests.support.small import changed, quick

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    words = [f"training.max_steps={WAIT + WARM_UP + RECORDED}", "model.encoder_layers=1", "training.profile=true"]
    return quick(tmp_path_factory.mktemp("profile"), *words)


@pytest.fixture(scope="module")
def profiled(config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return kept_run("profiled", lambda folder: train({**config, "output_dir": str(folder / "outputs")}))


def recorded_steps(folder: Path) -> set[str]:
    events = json.loads(gzip.decompress((folder / TRACE).read_bytes()))["traceEvents"]
    return {event["name"] for event in events if str(event.get("name")).startswith("ProfilerStep")}


def test_the_trace_has_the_recorded_steps_and_their_matrix_products(profiled: Any) -> None:
    run, _ = profiled
    assert len(recorded_steps(run.path)) == RECORDED
    events = json.loads(gzip.decompress((run.path / TRACE).read_bytes()))["traceEvents"]
    assert any(event.get("name") == "aten::addmm" for event in events)


def test_the_table_has_the_slowest_operations_and_their_shares_add_up(profiled: Any) -> None:
    run, _ = profiled
    (table,) = texts(run.path, "profile/top_operations").values()
    rows = [line.split("|")[1:5] for line in table.splitlines()[2:]]
    times = [float(row[2]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert 50 < sum(float(row[3].rstrip("% ")) for row in rows) <= 100.5


@pytest.mark.slow
def test_a_short_run_is_recorded(config: dict[str, Any], tmp_path: Path) -> None:
    run, _ = train(changed(config, training__max_steps=3, output_dir=str(tmp_path)))
    assert 1 <= len(recorded_steps(run.path)) <= 3


@pytest.mark.exhaustive
def test_a_run_resumed_for_a_few_steps_is_recorded(config: dict[str, Any], tmp_path: Path) -> None:
    plain = changed(config, training__profile=False, output_dir=str(tmp_path))
    run, _ = train({**plain, "training": {**plain["training"], "max_steps": 14}})
    (run.path / "manifest.json").unlink()  # as if killed at the very end
    words = [f"resume={run.path}", "training.max_steps=20", "training.profile=true"]
    train({**changed(config, resume=str(run.path)), "output_dir": str(tmp_path)}, overrides=words)
    assert len(recorded_steps(run.path)) == RECORDED


@pytest.mark.exhaustive
def test_weights_are_the_same_without_the_profiler(profiled: Any, config: dict[str, Any], tmp_path: Path) -> None:
    run, _ = profiled
    plain, _ = train(changed(config, training__profile=False, output_dir=str(tmp_path)))
    assert not (plain.path / TRACE).exists()
    assert (plain.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
