"""Failed jobs are reported at once, do not stop the others, and are run again by the same command."""

import errno
import math
from pathlib import Path
from typing import Any

import pytest

from forecast.common.errors import InputError, NotFiniteError
from forecast.common.files import look_up
from forecast.training.sweep import job as sweep_job
from forecast.training.task import ForecastTask
from tests.support.small import rewrite
from tests.support.sweeps import Ended, command, read


def test_a_failed_job_is_reported_at_once_and_the_others_continue(tmp_path: Path) -> None:
    ended = command(tmp_path, "context_length=9000,48", "sweep.name=lengths", "training.max_steps=2")
    assert ended.code == 1
    assert ended.started == [f"context_length-{length}" for length in (9000, 48)]
    (line,) = ended.errors
    assert line.startswith("error: context_length-9000: context_length 9000 + horizon 12")
    output = ended.both.getvalue()
    assert output.index(line) < output.index("context_length-48 starts")
    assert "1 of 2 jobs finished" in output
    folder = tmp_path / "sweeps" / "lengths" / "context_length-9000"
    assert {path.name for path in folder.iterdir()} == {"job.json", "failed.json"}
    failed = read(folder / "failed.json")
    assert line.endswith(failed["error"])
    assert (failed["kind"], failed["exit_code"], failed["overrides"]) == ("InputError", 2, ["context_length=9000"])


def test_a_program_error_leaves_a_traceback_and_the_same_command_runs_only_that_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ForecastTask.training_step

    def faulty(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if "LinearAttention" in repr(self.network) and self.global_step == 3:
            raise ZeroDivisionError("a bug")
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", faulty)
    words = ["attention=linear,mean", "sweep.name=faulty", "training.max_steps=4"]
    ended = command(tmp_path, *words)
    folder = tmp_path / "sweeps" / "faulty"
    assert (ended.code, ended.started) == (1, ["attention-linear", "attention-mean"])
    (line,) = ended.errors
    assert line.startswith("error: attention-linear: ZeroDivisionError: a bug, a program error")
    (trace,) = tmp_path.rglob("traceback.txt")
    assert trace == folder / "attention-linear" / "traceback.txt"
    assert "in faulty" in trace.read_text()
    assert "Traceback" not in ended.both.getvalue()

    monkeypatch.setattr(ForecastTask, "training_step", original)
    again = command(tmp_path, *words)
    assert (again.code, again.errors, again.started) == (0, [], ["attention-linear"])
    assert not list(folder.rglob("traceback.txt")) + list(folder.rglob("failed.json"))
    assert "2 of 2 jobs finished" in again.out.getvalue()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("wrong\ninput"), 2, "error: seed-2: wrong input"),
        (NotFiniteError("loss is nan"), 3, "error: seed-2: loss is nan"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 4, "error: seed-2: x: No space left on device"),
    ],
)
def test_an_expected_error_is_one_line_without_a_traceback(
    fake: Any, returned: list[float | None], tmp_path: Path, error: Exception, code: int, said: str
) -> None:
    def fails(config: dict[str, Any]) -> float:
        if config["seed"] == 2:
            raise error
        return 0.5

    called = fake(fails)
    ended = command(tmp_path, "seed=1,2,3", "sweep.name=s")
    assert (ended.code, called, len(ended.errors)) == (1, ["seed-1", "seed-2", "seed-3"], 1)
    assert ended.errors[0].startswith(said)
    assert returned[0] == returned[2] == 0.5
    assert returned[1] is None
    assert read(tmp_path / "sweeps" / "s" / "seed-2" / "failed.json")["exit_code"] == code
    assert not list(tmp_path.rglob("traceback.txt"))


@pytest.mark.exhaustive
def test_a_failure_of_an_earlier_command_is_shown_but_does_not_fail_this_one(fake: Any, tmp_path: Path) -> None:
    def fails(config: dict[str, Any]) -> float:
        raise InputError("not so")

    fake(fails)
    assert command(tmp_path, "seed=1,2", "sweep.name=s").code == 1
    fake(lambda config: 0.5)
    ended = command(tmp_path, "seed=2,3", "sweep.name=s")
    assert ended.code == 0
    assert "failed: seed-1: not so" in ended.out.getvalue()
    assert [path.parent.name for path in tmp_path.rglob("failed.json")] == ["seed-1"]


@pytest.mark.parametrize("value", [math.nan, None])
def test_an_objective_that_is_not_a_number_is_reported_and_is_not_a_failure(
    monkeypatch: pytest.MonkeyPatch, returned: list[float | None], tmp_path: Path, value: float | None
) -> None:
    monkeypatch.setattr(sweep_job, "train", lambda *given, **named: (None, {"speed": {"step_ms_p50": value}}))
    ended = command(tmp_path, "seed=1,2", "sweep.name=s", "sweep.objective=speed.step_ms_p50")
    message = "sweep.objective=speed.step_ms_p50: is not a number here"
    assert (ended.code, ended.errors) == (0, [f"seed-1: {message}", f"seed-2: {message}"])
    assert returned == [None, None]
    assert not list(tmp_path.rglob("failed.json"))


@pytest.mark.exhaustive
def test_a_finished_run_without_the_objective_stays_unchanged(tmp_path: Path, returned: list[float | None]) -> None:
    words = ["sweep.name=s", "training.max_steps=2", "sweep.objective=validation.skill"]
    assert command(tmp_path, *words).code == 0
    folder = tmp_path / "sweeps" / "s" / "job"
    result = read(folder / "result.json")
    del result["validation"]["skill"]  # as for a series without a season
    rewrite(folder / "result.json", result)
    ended = command(tmp_path, *words)
    assert (ended.code, len(ended.errors)) == (0, 1)
    assert [value is None for value in returned] == [False, True]
    assert "1 of 1 jobs finished" in ended.out.getvalue()
    assert not (folder / "failed.json").exists()


@pytest.mark.exhaustive
def test_a_damaged_job_is_trained_again_and_says_why(tmp_path: Path) -> None:
    words = ["sweep.name=s", "training.max_steps=2"]
    assert command(tmp_path, *words).code == 0
    folder = tmp_path / "sweeps" / "s" / "job"
    whole = (folder / "errors.parquet").read_bytes()
    for name in ("errors.parquet", "config.json"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-1])
        ended = command(tmp_path, *words)
        assert (ended.code, ended.started) == (0, ["job"])
        (line,) = ended.errors
        assert line.startswith(f"job: trained again: {folder / name}: not the file that was saved")
        assert (folder / "errors.parquet").read_bytes() == whole
        assert "1 of 1 jobs finished" in ended.out.getvalue()


def test_every_allowed_objective_is_in_a_result(six: tuple[Path, Ended], tmp_path: Path) -> None:
    line = command(tmp_path, "seed=1,2", "sweep.objective=model.nonsense").errors[0]
    choices = line.partition("choose ")[2].split(", ")
    assert len(choices) > 15
    result = read(six[0] / "attention-full_seed-1" / "result.json")
    for path in choices:
        assert path.rpartition(".")[2] in look_up(result, path.rpartition(".")[0])


def test_a_job_that_failed_before_its_run_is_found_by_other_overrides(fake: Any, tmp_path: Path) -> None:
    def fails(config: dict[str, Any]) -> float:
        raise InputError("the file is missing")

    fake(fails)
    assert command(tmp_path, "sweep.name=s").code == 1
    called = fake(lambda config: 0.5)
    ended = command(tmp_path, "attention=full,mean", "seed=1", "sweep.name=s")
    assert (ended.code, called) == (0, ["job", "attention-mean"])
    assert not list(tmp_path.rglob("failed.json"))
    assert read(tmp_path / "sweeps" / "s" / "job" / "job.json")["overrides"] == ["attention=full"]
