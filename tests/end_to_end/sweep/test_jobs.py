"""Successful sweeps: real multiruns from the command line, on 700 simulated hours."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast.common.errors import InputError
from forecast.common.files import folder_lock, write_json
from forecast.runs.settings import Settings
from forecast.training.sweep.job import job_folder
from forecast.training.sweep.overrides import (
    count_jobs,
)
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.small import changed, quick, snapshot
from tests.support.sweeps import NAMES, SIX, Ended, command, read, typed

REPORT = {"report.html", "report.md", "report.csv"}


OF_COSTS = {f"report-error-{cost}.png" for cost in ("memory", "train", "inference", "processor")}
"""Pictures, of which a busy machine decides which exist: at least one does."""


FILES = {"multirun.yaml", "sweep.csv", "jobs.csv", "timing.json"} | REPORT


# --- a successful sweep


def test_six_jobs_have_six_readable_run_folders(six: tuple[Path, Ended]) -> None:
    folder, ended = six
    assert (ended.code, ended.errors) == (0, [])
    names = {path.name for path in folder.iterdir()}
    assert names - OF_COSTS == NAMES | FILES
    assert names & OF_COSTS
    for name in NAMES:
        config = read(folder / name / "manifest.json") and read(folder / name / "config.json")
        assert name == f"attention-{config['attention']['name']}_seed-{config['seed']}"
    assert set(ended.started) == NAMES
    assert "6 of 6 jobs finished" in ended.out.getvalue()
    for name in NAMES:
        assert re.search(
            rf"^{name}: finished, test MSE 0\.\d{{4}}, skill .*, min 0\.", ended.out.getvalue(), re.MULTILINE
        )


def test_a_job_of_a_sweep_has_the_scores_of_a_single_run(six: tuple[Path, Ended], tmp_path: Path) -> None:
    folder, _ = six
    _, alone = train(quick(tmp_path, "attention=linear", "seed=2"))
    result = read(folder / "attention-linear_seed-2" / "result.json")
    for key in ("validation", "test", "linear_path", "baselines"):
        assert result[key] == alone[key]


def test_the_result_of_a_job_has_the_command_of_that_job_only(six: tuple[Path, Ended]) -> None:
    words = read(six[0] / "attention-probsparse_seed-2" / "result.json")["command"].split()
    assert words[:2] == ["python", "train.py"]
    assert {"attention=probsparse", "seed=2", "horizon=12"} <= set(words)
    assert not {"-m", *SIX} & set(words)
    assert not any(word.startswith("sweep.") for word in words)


def test_the_same_overrides_in_another_order_run_nothing(
    six: tuple[Path, Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = six
    runs = snapshot(*(folder / name for name in NAMES))
    monkeypatch.setattr(ForecastTask, "training_step", None)
    ended = command(folder.parents[1], *reversed(SIX))
    assert (ended.code, ended.started, ended.errors) == (0, [], [])
    assert ended.out.getvalue().count("already finished") == 6
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert snapshot(*(folder / name for name in NAMES)) == runs


@pytest.mark.parametrize("objective", ["validation.scaled.mse", "speed.train_windows_per_s"])
def test_a_job_returns_its_objective_to_hydra(
    fake: Any, returned: list[float | None], tmp_path: Path, objective: str
) -> None:
    fake(lambda config: float(config["seed"]))
    assert command(tmp_path, "seed=1,2", f"sweep.objective={objective}").code == 0
    assert returned == ([1.0, 2.0] if objective.startswith("validation") else [10.0, 20.0])


# --- the study


def test_the_study_varies_only_attention_and_look_back(fake: Any, tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = []
    called = fake(lambda config: configs.append(config) or 0.5)
    study = ["-m", "experiment=tradeoff", "data=etth1", f"output_dir={tmp_path}", "sweep.isolate=false"]
    assert typed(*study).code == 0
    assert len(called) == len(set(called)) == 10
    assert called[0] == "attention-full_context_length-720_seed-1"
    assert called[-1] == "attention-mean_context_length-2880_seed-1"
    same = [{**config, "attention": None, "context_length": None} for config in configs]
    assert all(config == same[0] for config in same)
    assert {config["attention"]["name"] for config in configs} > {"full", "probsparse", "linear", "mean"}
    longest = max(config["context_length"] for config in configs)
    assert {config["model"]["patch_length"] for config in configs} == {4}
    assert all(config["model"]["linear_path"] for config in configs)
    assert {config["training"]["first_origin"] for config in configs} == {longest} == {2880}


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ([], 6),
        (["seed=1,2,3"], 18),
        (["attention=full", "data=etth1"], 3),
        (["horizon=range(1,4)"], 18),
        (["data=glob(ett*)"], None),
    ],
)
def test_the_jobs_of_a_sweep_are_counted_before_the_first(words: list[str], jobs: int | None) -> None:
    params = {"seed": "1", "context_length": "1,2,3", "attention": "full,mean"}
    sweeper = {"_target_": "hydra._internal.core_plugins.basic_sweeper.BasicSweeper", "params": params}
    assert count_jobs(OmegaConf.create({"hydra": {"sweeper": sweeper}}), words) == jobs
    assert count_jobs(OmegaConf.create({"hydra": {"sweeper": {"_target_": "some.Search"}}}), words) is None


# --- sweeps with the same folder


def test_a_sweep_overwrites_neither_another_sweep_nor_a_running_job(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps" / "s" / "job"  # nothing is swept: there is one job
    assert command(tmp_path, "sweep.name=s").code == 0
    before = snapshot(folder)
    other = command(tmp_path, "sweep.name=s", "optimizer.lr=0.004")
    longer = command(tmp_path, "sweep.name=s", "training.max_steps=13")
    with folder_lock(folder):
        meanwhile = command(tmp_path, "sweep.name=s")
    for ended, said in (
        (other, "optimizer.lr is 0.003 there and 0.004 here: choose another sweep.name, or remove the folder"),
        (longer, "training.max_steps is 12 there and 13 here: choose another sweep.name, or remove the folder"),
        (meanwhile, "another process"),
    ):
        assert (ended.code, ended.started, len(ended.errors)) == (1, [], 1)
        assert said in ended.errors[0]
        assert "1 of 2 jobs finished" in ended.out.getvalue()
        assert said in ended.out.getvalue()
    after = snapshot(folder)
    assert {path: after[path] for path in before} == before
    assert {Path(path).name for path in set(after) - set(before)} == {"failed.json"}
    with folder_lock(folder, shared=True):  # of another sweep that reads it
        assert command(tmp_path, "sweep.name=s").code == 0
    assert snapshot(folder) == before


@pytest.mark.exhaustive
def test_a_sweep_that_grows_trains_nothing_twice(tmp_path: Path) -> None:
    short = ["sweep.name=grow", "training.max_steps=2"]
    assert command(tmp_path, *short).started == ["job"]
    for words, started, jobs in (
        (["seed=1,2"], ["seed-2"], 2),
        (["attention=full", "seed=1,2", "trainer.log_every_n_steps=2", "training.progress=true"], [], 2),
        (
            ["attention=full,mean", "seed=1,3"],
            [f"attention-{name}" for name in ("full_seed-3", "mean_seed-1", "mean_seed-3")],
            5,
        ),
        (["training.precision=auto,32-true"], [], 5),
        (["training.max_steps=2,3"], ["max_steps-3"], 6),
    ):
        ended = command(tmp_path, *short, *words)
        assert (ended.code, ended.errors, ended.started) == (0, [], started)
        assert f"{jobs} of {jobs} jobs finished" in ended.out.getvalue()
    table = pd.read_csv(tmp_path / "sweeps" / "grow" / "sweep.csv")
    models = table[table["row"] == "model"]
    assert sorted(models["n"]) == [1, 2, 3]
    (words,) = models.loc[models["n"] == 3, "configuration"]
    assert "attention=full" in words


def test_automatic_precision_finds_no_job_of_another_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("forecast.common.devices.has_bfloat16_units", lambda _: False)
    config = quick(tmp_path, "training.precision=bf16-mixed")
    (tmp_path / "other").mkdir()
    write_json(tmp_path / "other" / "config.json", config)
    for precision, found in (("bf16-mixed", "other"), ("32-true", "job"), ("auto", "job")):
        wanted = Settings.parse(changed(config, training__precision=precision))
        assert job_folder(tmp_path / "job", wanted) == tmp_path / found


def test_a_missing_group_is_refused_by_the_settings_of_a_job(tmp_path: Path) -> None:
    for absent in ({"model": None}, {"model": "informer"}, {"training": None}):
        with pytest.raises(InputError, match="must be a group of options"):
            Settings.parse({**quick(tmp_path), **absent})


# --- other launchers


@pytest.fixture
def joblib() -> Iterator[None]:
    """Skip if the launcher is not installed, and end its workers afterwards."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="it needs the extra: pip install -e '.[joblib]'")
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.usefixtures("joblib")
def test_parallel_jobs_have_identical_scores_and_independent_failures(six: tuple[Path, Ended], tmp_path: Path) -> None:
    words = ["attention=full,linear", "context_length=48,9000", "seed=1,2"]
    ended = command(tmp_path, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", *words, "sweep.name=s")
    assert ended.code == 1
    for seed in (1, 2):
        for name in ("full", "linear"):
            there = tmp_path / "sweeps" / "s" / f"attention-{name}_context_length-48_seed-{seed}" / "result.json"
            result, serial = (read(path) for path in (there, six[0] / f"attention-{name}_seed-{seed}" / "result.json"))
            assert result["test"] == serial["test"]
            assert f"attention={name}" in result["command"]
    assert len(list(tmp_path.rglob("failed.json"))) == 4
    assert "4 of 8 jobs finished" in ended.out.getvalue()


@pytest.fixture
def ray() -> Iterator[Any]:
    """Skip if the launcher is not installed, and end its cluster afterwards."""
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="it needs the extra: pip install -e '.[ray]'")
    import ray

    yield ray
    ray.shutdown()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_sweep_on_ray_with_a_killed_worker_has_the_table_of_one_without(
    six: tuple[Path, Ended], ray: Any, tmp_path: Path
) -> None:
    def kill_one() -> None:
        while not stopped.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    if path.read_bytes().startswith(b"ray::_run_job") and list(tmp_path.rglob("*.ckpt")):
                        os.kill(int(path.parent.name), signal.SIGKILL)
                        killed.append(path.parent.name)
                        return

    stopped, killed = threading.Event(), list[str]()
    thread = threading.Thread(target=kill_one)
    thread.start()
    try:
        ended = command(tmp_path, "hydra/launcher=ray", *SIX, "sweep.name=s")
    finally:
        stopped.set()
        thread.join()
    assert (ended.code, len(killed)) == (0, 1)
    folder = tmp_path / "sweeps" / "s"
    for name in NAMES:
        assert read(folder / name / "result.json")["test"] == read(six[0] / name / "result.json")["test"]
    tables = [pd.read_csv(place / "sweep.csv").filter(regex="test|seed|attention") for place in (folder, six[0])]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
