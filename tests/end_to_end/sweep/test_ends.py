"""Sweeps that end before their last job, and the report at the end."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forecast.common.errors import InputError, Interrupted
from forecast.training.sweep import job as sweep_job
from forecast.training.sweep import sweep
from forecast.training.sweep.turns import ROUNDS
from forecast.training.task import ForecastTask
from tests.report.made import no_pictures
from tests.support.small import read_rows, seal
from tests.support.sweeps import Ended, command, read

# --- a sweep with a time limit


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of a sweep, in seconds, which a test can move."""
    moved = [1000.0]
    for module in (sweep, sweep_job):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: moved[0]))
    return moved


def test_no_job_starts_after_the_time_limit_and_the_same_command_continues(
    fake: Any, tmp_path: Path, now: list[float]
) -> None:
    def lasts(config: dict[str, Any]) -> float:
        now[0] += 50
        return 0.5

    words = ["seed=1,2,3,4", "sweep.name=s", "sweep.minutes=1.5"]
    called = fake(lasts)
    ended = command(tmp_path, *words)
    assert (ended.code, called) == (5, ["seed-1", "seed-2"])
    assert ended.errors == [
        "stopped: time limit sweep.minutes reached, 2 jobs not started: run the same command again to continue"
    ]
    assert "seed-3: not started, time limit reached" in ended.out.getvalue()
    assert "unfinished: seed-4" in ended.out.getvalue()
    for name in called:
        seal(tmp_path / "sweeps" / "s" / name)  # the fake training does not
    called = fake(lambda config: 0.5)
    ended = command(tmp_path, *words)
    assert (ended.code, called) == (0, ["seed-1", "seed-2", "seed-3", "seed-4"])
    assert not list(tmp_path.rglob("left.json"))


def test_a_failed_job_decides_the_exit_code_over_jobs_not_started(fake: Any, tmp_path: Path, now: list[float]) -> None:
    def fails(config: dict[str, Any]) -> float:
        now[0] += 50
        raise InputError("not so")

    fake(fails)
    ended = command(tmp_path, "seed=1,2,3,4", "sweep.minutes=1")
    assert (ended.code, len(ended.errors)) == (1, 3)


# --- interrupted sweeps


def interrupted_at_step_5(training_step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a training step after which a job with linear attention receives SIGTERM at its step 5."""

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if "LinearAttention" in repr(self.network) and self.global_step == 5:
            signal.raise_signal(signal.SIGTERM)
        return training_step(self, batch, batch_idx)

    return interrupted


def test_a_signal_ends_the_sweep_with_its_table_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ForecastTask.training_step
    monkeypatch.setattr(ForecastTask, "training_step", interrupted_at_step_5(original))
    words = ["attention=full,linear,mean", "sweep.name=s"]
    ended = command(tmp_path, *words)
    assert (ended.code, ended.started) == (143, ["attention-full", "attention-linear"])
    assert "1 of 2 jobs finished" in ended.out.getvalue()
    assert "unfinished: attention-linear" in ended.out.getvalue()
    assert ended.errors[-1] == "stopped: run the same command again to continue"
    assert not list(tmp_path.rglob("failed.json"))
    monkeypatch.setattr(ForecastTask, "training_step", original)
    again = command(tmp_path, *words)
    assert (again.code, again.started) == (0, ["attention-linear", "attention-mean"])
    assert "resuming after step 6" in again.out.getvalue()


def test_the_settings_of_a_sweep_are_timed_in_turn_for_its_report(six: tuple[Path, Ended]) -> None:
    """One of two seeds per setting is timed: steps and forecasts in batches of the jobs' sizes."""
    folder, ended = six
    assert "timing 3 settings in turn: 5 to 10 rounds, each setting at least 0.1 s in all" in ended.out.getvalue()
    settings = read(folder / "timing.json")["settings"]
    assert len({setting["key"] for setting in settings}) == 3
    for setting in settings:
        assert setting["why"] is None
        for name, batch in (("train", 16), ("inference", 129)):
            assert ROUNDS <= len(setting[name]) <= 2 * ROUNDS
            assert len(setting[name]) == len(settings[0]["train"])
            for stretch in setting[name]:
                assert stretch["windows"] % batch == 0
                assert stretch["wall_seconds"] > 0
                assert 0 < stretch["cpu_seconds"] < 2 * stretch["wall_seconds"] + 0.1
    rows = {row["mechanism"]: row for row in read_rows(folder / "report.csv")}
    assert float(rows["linear"]["train_rounds"]) <= len(settings[0]["train"])
    assert rows["linear"]["train_against_full"] in ("faster", "slower", "not clearly", "busy machine")
    if rows["linear"]["train_rounds"] == rows["full"]["train_rounds"] == "5":
        assert rows["linear"]["train_against_full_basis"] == "in turn"


def test_a_sweep_ends_with_its_report(six: tuple[Path, Ended]) -> None:
    folder, ended = six
    output = ended.out.getvalue()
    places = [output.index(words) for words in ("sweep folder: ", f"report: {folder / 'report.html'}", "TensorBoard: ")]
    assert places == sorted(places)
    assert output.count("synthetic: 700 rows, ") == 1
    assert "too short to judge errors" in output
    rows = {row["mechanism"]: row for row in read_rows(folder / "report.csv")}
    for name in ("full", "probsparse", "linear"):
        results = [read(folder / f"attention-{name}_seed-{seed}" / "result.json") for seed in (1, 2)]
        mean = sum(result["test"]["scaled"]["mse"] for result in results) / 2
        assert float(rows[name]["test_mse"]) == pytest.approx(mean)
        assert rows[name]["seeds"] == "1 2"
        assert rows[name]["commands"] == "; ".join(result["command"] for result in results)
    assert rows["linear"]["against_full"] == "not tested"  # of so few steps: both are the linear path
    jobs = [
        read(folder / f"attention-{name}_seed-{seed}" / "result.json") for name in ("full", "linear") for seed in (1, 2)
    ]
    assert {job["model"]["mixing_weight"] for job in jobs} == {0}
    assert {"last value", "seasonal naive", "linear (ridge)"} <= rows.keys()


@pytest.mark.exhaustive
def test_a_resumed_sweep_has_the_same_report_as_an_uninterrupted_one(
    six: tuple[Path, Ended], without_report: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ForecastTask.training_step
    words = ["attention=full,linear", "sweep.name=s"]
    monkeypatch.setattr("forecast.report.content.draw_pictures", no_pictures)
    monkeypatch.setattr(ForecastTask, "training_step", interrupted_at_step_5(original))
    assert command(tmp_path, *words).code == 143
    monkeypatch.setattr(ForecastTask, "training_step", original)
    assert command(tmp_path, *words).started == ["attention-linear"]
    for name in ("full", "linear"):
        shutil.copytree(six[0] / f"attention-{name}_seed-1", tmp_path / "whole" / f"attention-{name}")
    for folder in (tmp_path / "whole", tmp_path / "sweeps" / "s"):
        without_report(folder)
    whole, apart = (read_rows(folder / "report.csv") for folder in (tmp_path / "whole", tmp_path / "sweeps" / "s"))
    assert len(whole) == len(apart) == 6  # two models and four baselines
    assert [*map(without_times, whole)] == [*map(without_times, apart)]
    assert without_times(whole[0]).keys() >= {"test_mse", "best_step", "steps", "parameters", "against_full_low"}


def without_times(row: dict[str, str]) -> dict[str, str]:
    """Return a row of report.csv without times and folder paths."""
    timed = ("per_s", "_ms_", "seconds", "share", "peak_memory", "_cost", "not_dominated", "commands", "disturbed")
    timed += ("train_against", "inference_against")
    return {key: value for key, value in row.items() if not any(word in key for word in timed)}


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (Interrupted("stopped", 15), 143),
        pytest.param(KeyboardInterrupt(), 130, marks=pytest.mark.exhaustive),
        pytest.param(SystemExit(143), 143, marks=pytest.mark.exhaustive),
        (BrokenPipeError(), 141),
    ],
)
@pytest.mark.usefixtures("capsys")  # a broken pipe closes its stream, which must not be pytest's
def test_no_job_starts_after_an_interruption(fake: Any, tmp_path: Path, raised: BaseException, code: int) -> None:
    def ends(config: dict[str, Any]) -> float:
        if config["seed"] == 2:
            raise raised
        return 0.5

    called = fake(ends)
    assert command(tmp_path, "seed=1,2,3").code == code
    assert called == ["seed-1", "seed-2"]
