"""Failed and stopped trainings: message, exit code and saved state."""

import errno
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forecast.common.cli import explain, finish, ran_out_of_memory
from forecast.common.errors import InputError, Interrupted, NotEnoughMemory, NotFiniteError
from forecast.common.processes import ENDING, StopRequest, environment
from forecast.predict.__main__ import main as predict
from forecast.runs.checkpoint import checkpoints, read_checkpoint
from forecast.runs.run import CONFIG, Run
from forecast.runs.settings import Settings
from forecast.training import start as starting
from forecast.training import train as training
from forecast.training.checkpoint_content import tensors_of
from forecast.training.sweep.isolated import Failure
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.conftest import LIGHTNING, TinyRun
from tests.support.small import QUICK, SIMULATED, SMALL, changed, quick

pytestmark = [
    pytest.mark.usefixtures("signals_and_threads"),
    *map(pytest.mark.filterwarnings, LIGHTNING),
]


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Return a run of six steps that is saved after each step and validates at the end only."""
    return quick(tmp_path, "training.max_steps=6", "training.checkpoint_minutes=1e-9")


def at_step(patch: pytest.MonkeyPatch, step: int, act: Callable[[ForecastTask], object]) -> None:
    """Call `act` once, at the beginning of a training step."""
    original, done = ForecastTask.training_step, []

    def acting(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if self.global_step == step and not done:
            done.append(step)
            act(self)
        return original(self, batch, batch_idx)

    patch.setattr(ForecastTask, "training_step", acting)


def only_folder(config: dict[str, Any]) -> Path:
    (config_file,) = Path(config["output_dir"]).rglob(CONFIG)
    return config_file.parent


# --- not finite


def spoil_optimizer(task: ForecastTask) -> None:
    for state in task.trainer.optimizers[0].state.values():
        state["exp_avg"].fill_(math.nan)


def test_a_damaged_optimizer_is_not_saved_and_the_run_resumes_from_the_step_before(
    config: dict[str, Any], tmp_path: Path
) -> None:
    _, whole = train(changed(config, output_dir=str(tmp_path / "whole")))
    stopped = changed(config, output_dir=str(tmp_path / "stopped"))
    with pytest.MonkeyPatch.context() as patch:
        at_step(patch, 3, spoil_optimizer)
        message = r"^step 4: not finite after its update \(.*the previous checkpoint is kept"
        with pytest.raises(NotFiniteError, match=message):
            train(stopped)
    folder = only_folder(stopped)
    newest = read_checkpoint(checkpoints(folder / "checkpoints")[0])
    assert newest["step"] == 3
    assert all(tensor.isfinite().all() for tensor in tensors_of((newest["network"], newest["optimizer"])))
    _, result = train({**stopped, "resume": str(folder)}, overrides=[f"resume={folder}"])
    assert result["test"] == whole["test"]


def test_the_error_of_a_huge_learning_rate_warns_about_the_weights(tmp_path: Path) -> None:
    config = quick(tmp_path, "optimizer.lr=1e30", "training.checkpoint_minutes=1e-9")
    with pytest.raises(NotFiniteError) as refused:
        train(config)
    assert "nothing of it reached" not in str(refused.value)
    assert "earlier steps may have damaged the weights" in str(refused.value)
    for path in checkpoints(only_folder(config) / "checkpoints"):
        assert all(tensor.isfinite().all() for tensor in tensors_of(read_checkpoint(path)["network"]))


# --- memory


def too_much() -> None:
    torch.empty(2**50)


def too_much_for_numpy() -> None:
    np.empty(2**52)


@pytest.mark.parametrize("take", [too_much, too_much_for_numpy])
def test_out_of_memory_names_the_options_to_lower(take: Callable[[], None], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at_step(patch, 1, lambda _: take())
        with pytest.raises(NotEnoughMemory) as refused:
            train(quick(tmp_path))
    assert refused.value.exit_code == 6
    line = str(refused.value)
    assert "\n" not in line
    for words in ("training.batch_size=16", "context_length=48", "model.d_model=8", "increase model.patch_length=12"):
        assert words in line


@pytest.mark.parametrize("take", [too_much, too_much_for_numpy])
def test_out_of_memory_is_one_line_with_exit_code_6(
    take: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(take) == 6
    error = capsys.readouterr().err
    assert error.startswith("error: not enough memory (")
    assert error.count("\n") == 1


def test_a_sweep_job_out_of_memory_has_no_traceback() -> None:
    for error in (NotEnoughMemory("not enough memory: make it smaller"), MemoryError("bad alloc")):
        failure = Failure.of(error)
        assert (failure.exit_code, failure.traceback) == (6, None)
        assert failure.error.startswith("not enough memory")


def test_other_errors_are_not_out_of_memory() -> None:
    for error in (RuntimeError("shapes differ"), OSError(2, "no such file"), ValueError("out of memory")):
        assert not ran_out_of_memory(error)
        assert explain(error) is None
    assert ran_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP])
def test_an_unusable_file_name_is_one_line(number: int) -> None:
    known = explain(OSError(number, os.strerror(number), "a" * 1000))
    assert known == (f"{'a' * 200}: {os.strerror(number)}: rename or remove it", 2)
    moved = explain(OSError(number, os.strerror(number), "of_the_program.tmp", None, "model.safetensors"))
    assert moved is not None
    assert moved[0].startswith("model.safetensors: ")


@pytest.mark.exhaustive
def test_a_run_larger_than_memory_is_not_called_damaged(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forecast.runs.run.load_file", lambda *_: too_much())
    given = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(tmp_path / "next.csv")]
    assert predict(given) == 6
    assert capsys.readouterr().err.startswith("error: not enough memory (")
    assert not list(tmp_path.iterdir())


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
sys.argv = ["train.py", *sys.argv[1:]]
from forecast.training.command_line import main
main()
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(torch.version.cuda is not None, reason="the libraries of CUDA alone exceed the limit")
def test_a_model_too_large_for_the_process_is_one_line(tmp_path: Path) -> None:
    words = [*SIMULATED, *SMALL["patch_informer"], *QUICK, "model.d_model=2048", "model.d_ff=1000000"]
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, *words, f"output_dir={tmp_path}"],
        capture_output=True, text=True, check=False, env=environment(1),
    )  # fmt: skip
    assert ended.returncode == 6, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: not enough memory (")
    assert "model.d_ff=1000000" in line
    assert not list(tmp_path.iterdir())


# --- signals


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP])
def test_a_scheduler_signal_or_hangup_saves_the_step(
    number: signal.Signals, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "1")  # Lightning would handle SIGUSR1 and requeue the job
    monkeypatch.setenv("SLURM_JOB_NAME", "training")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    at_step(monkeypatch, 3, lambda _: signal.raise_signal(number))
    with pytest.raises(Interrupted, match=r"interrupted at step 4 of 6, which is saved: .*resume=") as stopped:
        train(config)
    assert stopped.value.exit_code == 128 + number
    assert read_checkpoint(checkpoints(only_folder(config) / "checkpoints")[0])["step"] == 4


def test_a_batch_script_without_srun_trains_as_one_process(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    for name, value in {"NTASKS": "8", "JOB_NAME": "training", "JOB_ID": "7", "PROCID": "0", "LOCALID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)  # Lightning would refuse --ntasks
    _, result = train(config)
    assert (result["status"], result["model"]["steps"], result["processes"]) == ("finished", 6, 1)


@pytest.mark.parametrize("number", ENDING)
def test_outside_of_training_a_signal_ends_a_tool_with_its_exit_code(number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as end:
        finish(lambda: signal.raise_signal(number))
    assert end.value.code == 128 + number


def test_an_ignored_hangup_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    request = StopRequest()
    request.listen()
    signal.raise_signal(signal.SIGHUP)
    request.forget()
    assert request.number is None
    assert finish(lambda: signal.raise_signal(signal.SIGHUP)) == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


# --- folders


def test_a_removed_run_folder_is_reported_in_one_line(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    at_step(monkeypatch, 3, lambda _: shutil.rmtree(only_folder(config)))
    with pytest.raises(InputError, match=r"no longer exists: it was removed or renamed while the program wrote"):
        train(config)


def test_only_one_of_several_processes_starts_the_same_run(config: dict[str, Any]) -> None:
    """All look for a run of this configuration before any of them has made a folder."""
    config = {**config, "resume": "auto"}
    config["training"] = {**config["training"], "precision": "32-true"}
    made: list[Run] = []
    refused: list[str] = []
    ready, done = threading.Barrier(6), threading.Barrier(6)

    def begin() -> None:
        ready.wait()
        with ExitStack() as stack:
            try:
                made.append(starting._new_folder(Settings.parse(config), "auto", stack))
            except InputError as error:
                refused.append(str(error))
            done.wait()

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (run,) = made
    assert refused == [f"{run.path}: another process has just started this run: wait for it, or use resume=false"] * 5
    assert only_folder(config) == run.path


def test_a_run_that_another_process_started_meanwhile_is_refused(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, original = {**config, "resume": "auto"}, training.prepare

    def slowly(*arguments: Any, **options: Any) -> Any:
        made = original(*arguments, **options)
        with ExitStack() as stack:
            starting._new_folder(made.settings, "auto", stack)
        return made

    monkeypatch.setattr(training, "prepare", slowly)
    with pytest.raises(InputError, match="another process has just started this run"):
        train(config)
    assert only_folder(config).is_dir()
