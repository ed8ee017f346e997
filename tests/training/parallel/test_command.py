"""`python train.py trainer=ddp …` from the command line: two CPU processes with one run folder and one output."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.runs.run import MANIFEST, RESULT, Run
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import QUICK, ROOT, SIMULATED, SMALL, quick

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc"),
]

TWO = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]
ENDLESS = ["training.max_epochs=null", "training.max_steps=1000000", "~callbacks.early_stopping"]


def typed(*words: str) -> list[str]:
    return [sys.executable, str(ROOT / "train.py"), *words]


def environment(path: str = "") -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def ended(folder: Path, *words: str, path: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command in `folder` and return the finished process."""
    return subprocess.run(
        typed(*words), cwd=folder, env=environment(path), capture_output=True, text=True, timeout=300, check=False
    )


@contextmanager
def running(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield a training of two processes after its first checkpoint."""
    words = [*SIMULATED, *SMALL["patch_informer"], *QUICK, *ENDLESS, *TWO, f"output_dir={folder}"]
    process = subprocess.Popen(
        typed(*words), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: bool(list(folder.rglob("*.ckpt"))), 120)
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.1)


def children_of(process: int) -> list[int]:
    """Return the running trainings that `process` has started."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == process and state != "Z" and b"forecast.training.child" in command:
            children.append(int(stat.parent.name))
    return children


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, Any]]:
    """Return a run of one process."""
    return train(quick(tmp_path_factory.mktemp("one") / "outputs", "model.linear_path=zero", "optimizer.lr=0.01"))


@pytest.fixture(scope="module")
def again(one: tuple[Run, dict[str, Any]]) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """Return a copy of that run without its results, and the process that scored it with two processes."""
    return scored_again(one[0].path, one[0].path.parents[2] / "again")


def scored_again(run: Path, folder: Path, *words: str) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    shutil.copytree(run, folder)
    for name in (MANIFEST, RESULT, "errors.parquet", "calibration.safetensors", "forecast.csv", "model.safetensors"):
        (folder / name).unlink()
    return folder, ended(folder.parent, f"resume={folder}", *words, *TWO, "training.data_placement=mapped")


def assert_equal_scores(there: dict[str, Any], here: dict[str, Any]) -> None:
    for part in ("validation", "test"):
        for unit in ("scaled", "original"):
            assert there[part][unit] == pytest.approx(here[part][unit], rel=1e-6)
    for name in ("last_value", "seasonal_naive", "linear"):
        two, one = (result["baselines"][name]["test"]["scaled"] for result in (there, here))
        assert two == pytest.approx(one, rel=1e-6)
    two, one = (result["linear_path"]["test"]["scaled"] for result in (there, here))
    assert two == pytest.approx(one, rel=1e-6)
    for step, other in zip(there["test"]["by_step"], here["test"]["by_step"], strict=True):
        numbers = {name: value for name, value in other.items() if value is not None}  # a skill may lie near 0
        assert {name: step[name] for name in numbers} == pytest.approx(numbers, rel=1e-6, abs=1e-5)


@pytest.mark.exhaustive
def test_two_processes_give_the_scores_of_one_on_a_panel(panel_run: TinyRun, tmp_path: Path) -> None:
    folder, end = scored_again(panel_run.path, tmp_path / "again", f"data.path={panel_run.source}")
    assert (end.returncode, end.stderr) == (0, "")
    result = json.loads((folder / RESULT).read_text())
    assert (result["processes"], result["data"]["windows"]) == (2, panel_run.result["data"]["windows"])
    assert_equal_scores(result, panel_run.result)
    for name, scores in panel_run.result["test"]["worst_series"].items():
        assert result["test"]["worst_series"][name] == pytest.approx(scores, rel=1e-6)


def test_two_processes_give_the_scores_of_one_from_the_same_checkpoint(
    one: tuple[Run, dict[str, Any]], again: tuple[Path, Any]
) -> None:
    folder, end = again
    assert (end.returncode, end.stderr) == (0, "")
    result = json.loads((folder / RESULT).read_text())
    assert (result["processes"], one[1]["processes"]) == (2, 1)
    assert result["model"] == one[1]["model"]
    assert_equal_scores(result, one[1])


def test_the_errors_of_two_processes_are_in_the_order_of_the_windows(
    one: tuple[Run, dict[str, Any]], again: tuple[Path, Any]
) -> None:
    there, here = (pd.read_parquet(folder / "errors.parquet") for folder in (again[0], one[0].path))
    pd.testing.assert_frame_equal(there, here, rtol=1e-4, atol=1e-6)


def test_only_the_leading_process_prints_and_writes(one: tuple[Run, dict[str, Any]], again: tuple[Path, Any]) -> None:
    folder, end = again
    assert end.stdout.count("training: 12 steps on 2 processes, resuming after step 12, in ") == 1
    assert end.stdout.count("all 129 test windows") == 1
    names = {path.name for path in folder.iterdir() if not path.name.startswith("events")}
    assert names == {path.name for path in one[0].path.iterdir() if not path.name.startswith("events")}
    assert {path.name for path in folder.parent.iterdir()} == {"again", "outputs"}


@pytest.mark.exhaustive
def test_a_signal_stops_all_processes_at_one_step_and_one_process_can_resume(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        others = children_of(process.pid)
        assert len(others) == 1
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors.startswith("stopped: interrupted at step ")
    assert errors.count("\n") == 1
    assert output.count("training: ") == 1
    assert not any(map(alive, others))
    (folder,) = (tmp_path / "synthetic").iterdir()
    step = int(errors.split()[4].replace(",", ""))
    one = ["trainer=default", "trainer.accelerator=cpu", f"training.max_steps={step + 3}"]
    end = ended(tmp_path, f"resume={folder}", *one)
    assert (end.returncode, end.stderr) == (0, "")
    assert f"resuming after step {step:,}" in end.stdout
    assert json.loads((folder / RESULT).read_text())["model"]["steps"] == step + 3


@pytest.mark.exhaustive
def test_a_killed_worker_ends_the_run_with_one_line(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        (other,) = children_of(process.pid)
        os.kill(other, signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    (line,) = errors.splitlines()
    assert line.startswith("error: process 1 of 2: was ended by SIGKILL")
    assert not list(tmp_path.rglob(MANIFEST))


@pytest.mark.exhaustive
def test_an_error_in_a_worker_is_shown_and_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(
        "from lightning.pytorch.callbacks import Callback\n"
        "class Faulty(Callback):\n"
        "    def on_train_batch_end(self, trainer, *_):\n"
        "        assert trainer.global_rank == 0 or trainer.global_step < 3, 'broken'\n"
    )
    words = [*SIMULATED, *SMALL["patch_informer"], *QUICK, *TWO, "+callbacks.faulty._target_=faulty.Faulty"]
    end = ended(tmp_path, *words, path=str(tmp_path))
    assert end.returncode == 1
    assert "Traceback" in end.stderr
    last = end.stderr.splitlines()[-1]
    assert last == "error: process 1 of 2: AssertionError: broken: a program error, see above"
    assert not list(tmp_path.rglob(MANIFEST))


@pytest.mark.exhaustive
def test_no_worker_outlives_the_leading_process(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        others = children_of(process.pid)
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(alive, others)), 10)


@pytest.mark.exhaustive
def test_processes_that_torchrun_started_make_one_run(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    mapped = "training.data_placement=mapped"
    words = [*SIMULATED, *SMALL["patch_informer"], *QUICK, *TWO, f"output_dir={tmp_path}", mapped]
    end = subprocess.run(
        [*torchrun, *typed(*words)[1:]], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert end.returncode == 0, end.stderr
    assert end.stdout.count("all 129 test windows") == 1
    (folder,) = (tmp_path / "synthetic").iterdir()
    result = json.loads((folder / RESULT).read_text())
    assert (result["processes"], result["data"]["placement"]["where"]) == (2, "mapped")


def nodes(folder: Path, port: int, *words: str) -> list["subprocess.Popen[str]"]:
    """Start a training on two nodes of the loopback address, with one process each."""
    here = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *here]
    two = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.num_nodes=2"]
    small = [*SIMULATED, *SMALL["patch_informer"], *QUICK, "training.max_steps=120", "optimizer.lr=0.001"]
    return [
        subprocess.Popen(
            [*torchrun, f"--node-rank={rank}", *typed(*small, *two, f"output_dir={folder}", *words)[1:]],
            cwd=folder,
            env={**environment(), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        for rank in range(2)
    ]


def trainings_of(process: int) -> list[int]:
    """Return the trainings that a torchrun has started."""
    pairs = [
        (path.parent, path.read_text().rpartition(")")[2].split()[1]) for path in Path("/proc").glob("[0-9]*/stat")
    ]
    return [int(folder.name) for folder, parent in pairs if int(parent) == process]


@pytest.mark.exhaustive
def test_two_nodes_resume_after_a_killed_rank_with_the_same_digits(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert [node.wait(600) for node in nodes(tmp_path / "whole", port)] == [0, 0]
    started = nodes(tmp_path / "killed", port)
    wait_for(lambda: bool(list((tmp_path / "killed").rglob("*.ckpt"))), 300)
    os.kill(trainings_of(started[1].pid)[0], signal.SIGKILL)
    assert all(node.wait(300) for node in started)
    (killed,) = (tmp_path / "killed" / "synthetic").iterdir()
    assert not (killed / MANIFEST).is_file()
    assert [node.wait(600) for node in nodes(tmp_path / "killed", port, "resume=auto")] == [0, 0]
    (whole,) = (tmp_path / "whole" / "synthetic").iterdir()
    one, two = (json.loads((folder / RESULT).read_text()) for folder in (whole, killed))
    assert one["processes"] == two["processes"] == 2
    for key in ("validation", "test", "baselines"):
        assert one[key] == two[key]
