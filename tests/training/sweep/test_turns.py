"""Timing the settings of a sweep in turn: small programs replace the process that measures."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forecast.common import processes
from forecast.common.errors import InputError
from forecast.runs.turns import TIMING, cost_key, read_turns
from forecast.training.sweep import turns
from forecast.training.sweep.turns import LONGEST, ROUNDS, Passes, time_in_turn, time_sweep
from tests.report.made import result_of, write_run

READ = "import json, sys\nwork = json.loads(sys.stdin.readline())['request']\n"
TELL = """
def stretches(taken, disturbed):
    one = {"wall_seconds": taken, "cpu_seconds": taken, "waited_seconds": 0.0, "other_cpu_seconds": 0.0}
    return [{**one, "windows": 10, "disturbed": number < disturbed} for number in range(5)]
def setting(number, disturbed=0):
    return {"why": None, "train": stretches(1.0 + number, disturbed), "inference": stretches(2.0, 0)}
"""
ANSWER = "print(json.dumps({'settings': [setting(number) for number in range(len(work['folders']))]}))"

Timer = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    for mechanism, seed in (("full", 1), ("full", 2), ("linear", 1), ("linear", 2)):
        write_run(tmp_path / f"attention-{mechanism}_seed-{seed}", result_of(mechanism, seed=seed))
    return tmp_path


@pytest.fixture
def timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Timer:
    """Return a function that times a sweep with a small program and returns the requests to that program."""
    asked = tmp_path / "asked.jsonl"
    monkeypatch.setattr(turns, "device_name", lambda device: "A processor, 64 threads")

    def run(sweep: Path, program: str = ANSWER, seconds: float = 4.0) -> list[dict[str, Any]]:
        note = f"open({str(asked)!r}, 'a').write(json.dumps(work) + '\\n')\n"
        monkeypatch.setattr(processes, "command", lambda _: [sys.executable, "-S", "-c", READ + note + TELL + program])
        time_sweep(sweep, seconds)
        return [json.loads(line) for line in asked.read_text().splitlines()] if asked.is_file() else []

    return run


def test_one_seed_per_setting_is_timed_for_all_its_seeds(sweep: Path, timer: Timer) -> None:
    (asked,) = timer(sweep)
    names = ["attention-full_seed-1", "attention-linear_seed-1"]
    assert asked == {"folders": [str(sweep / name) for name in names], "seconds": 4.0, "files": []}
    found = read_turns(sweep)
    linear = found[cost_key(result_of("linear", seed=2))]
    assert [stretch.wall_seconds for stretch in linear["train"]] == [2.0] * 5
    assert len(found) == 2
    assert not list(sweep.glob(".*"))


def test_settings_are_timed_again_only_if_one_was_added(sweep: Path, timer: Timer) -> None:
    assert len(timer(sweep)) == len(timer(sweep)) == 1
    write_run(sweep / "attention-mean_seed-1", result_of("mean"))
    assert [len(asked["folders"]) for asked in timer(sweep)] == [2, 3]
    assert len(timer(sweep, seconds=8.0)) == 3


def test_times_of_a_job_that_was_trained_again_do_not_count(sweep: Path, timer: Timer) -> None:
    timer(sweep)
    for seed, count in ((2, 2), (1, 1)):  # the first was timed for both
        shutil.rmtree(sweep / f"attention-linear_seed-{seed}")
        write_run(sweep / f"attention-linear_seed-{seed}", result_of("linear", seed=seed, mse=0.7))
        assert len(read_turns(sweep)) == count
    assert list(read_turns(sweep)) == [cost_key(result_of("full"))]


def test_settings_are_timed_again_if_the_program_changed(
    sweep: Path, timer: Timer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commit, times in (("one", 1), ("one", 1), ("other", 2)):
        monkeypatch.setattr(turns, "commit", lambda name=commit: name)
        assert len(timer(sweep)) == times


def test_settings_are_timed_again_if_a_job_was_trained_again(sweep: Path, timer: Timer) -> None:
    assert len(timer(sweep)) == 1
    folder = sweep / "attention-linear_seed-1"
    shutil.rmtree(folder)
    write_run(folder, result_of("linear", mse=0.39))
    assert len(timer(sweep)) == 2
    write_run(sweep / "attention-linear_seed-3", result_of("linear", seed=3))  # the first seed is timed
    assert len(timer(sweep)) == 2


def test_a_disturbed_timing_is_repeated(sweep: Path, timer: Timer) -> None:
    disturbed = ANSWER.replace("setting(number)", "setting(number, 1)")
    assert len(timer(sweep, disturbed)) == 1
    assert len(timer(sweep)) == 2
    assert len(timer(sweep)) == 2


@pytest.mark.parametrize(
    ("other", "timed"),
    [
        ({"seed": 9}, False),
        ({"config": {"optimizer.lr": 0.5, "training.max_steps": 9}}, False),
        ({"look_back": 96}, True),
        ({"config": {"training.batch_size": 8}}, True),
        ({"config": {"model.d_model": 8}}, True),
        ({"config": {"quantiles": [0.1, 0.5, 0.9]}}, True),
        ({"config": {"training.linear_path_rate": 0}}, True),
        ({"config": {"training.linear_path_rate": 0.5}}, False),
    ],
)
def test_settings_with_the_same_cost_count_once_and_a_single_setting_is_not_timed(
    tmp_path: Path, timer: Timer, other: dict[str, Any], timed: bool
) -> None:
    write_run(tmp_path / "one", result_of("full"))
    write_run(tmp_path / "other", result_of("full", **other))
    assert bool(timer(tmp_path)) is timed


def test_zero_seconds_turn_the_timing_off(sweep: Path, timer: Timer) -> None:
    assert timer(sweep, seconds=0) == []
    assert not (sweep / TIMING).exists()


def test_jobs_of_another_machine_are_not_timed(
    sweep: Path, timer: Timer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(turns, "device_name", lambda device: "Another processor, 2 threads")
    assert timer(sweep) == []
    assert capsys.readouterr().err == "not timed in turn: the jobs ran on another device: A processor, 2 threads\n"


def test_the_timing_uses_the_threads_of_the_jobs(sweep: Path, timer: Timer) -> None:
    program = "print(json.dumps({'settings': [setting(0), setting(1)]}))"
    timer(sweep, f"assert __import__('os').environ['OMP_NUM_THREADS'] == '2'\n{program}")
    assert len(read_turns(sweep)) == 2


ONE_ROUND = f"print({turns.ROUND_DONE!r}, file=sys.stderr, flush=True); "


def test_a_long_timing_prints_its_progress(
    sweep: Path, timer: Timer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process prints its rounds on standard error, as `answer` redirects it."""
    monkeypatch.setattr(turns, "PROGRESS", 0.05)
    rounds = (
        f"import time\nfor _ in range(2): print({turns.ROUND_DONE!r}, file=sys.stderr, flush=True)\ntime.sleep(0.5)\n"
    )
    timer(sweep, rounds + ANSWER)
    assert "timing: 2 rounds finished\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("sys.exit('no room here')", "no room here"),
        ("import os; os._exit(7)", "its process ended with exit code 7"),
        (f"{ONE_ROUND}import os; os._exit(7)", "its process ended with exit code 7"),
        (f"{ONE_ROUND}import os; os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"),
    ],
)
def test_a_failed_timing_prints_one_line_and_writes_no_file(
    sweep: Path, timer: Timer, capsys: pytest.CaptureFixture[str], program: str, said: str
) -> None:
    timer(sweep, program)
    assert capsys.readouterr().err == f"not timed in turn: {said}\n"
    assert not (sweep / TIMING).exists()


def test_a_setting_that_cannot_be_timed_is_named_and_the_others_are_timed(
    sweep: Path, timer: Timer, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "print(json.dumps({'settings': [setting(0), {'why': 'too large', 'train': [], 'inference': []}]}))"
    timer(sweep, program)
    assert "attention-linear_seed-1: not timed in turn: too large\n" in capsys.readouterr().out
    assert list(read_turns(sweep)) == [cost_key(result_of("full"))]
    assert len(timer(sweep)) == 1  # it would fail again


class Clock:
    """Replaces the machine's clocks: each pass takes a fixed time, and other processes disturb the `busy` rounds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, took: dict[str, float], busy: set[int]) -> None:
        self.now, self.order, self.busy = 0.0, [], busy  # type: tuple[float, list[str], set[int]]
        self.took = took
        monkeypatch.setattr(turns, "perf_counter", lambda: self.now)
        monkeypatch.setattr(turns, "_configuration", lambda folder, _: folder.name)
        monkeypatch.setattr(turns, "_passes", self.passes)
        monkeypatch.setattr(turns, "read_load", self.read)
        monkeypatch.setattr(turns, "load_since", self.since)

    def passes(self, setting: str) -> dict[str, Passes]:
        def begin(name: str) -> Callable[[], None]:
            def run() -> None:
                self.now += self.took[setting]
                self.order.append(f"{name} {setting}")

            return run

        return {name: Passes(lambda name=name: begin(name), 4) for name in ("train", "inference")}

    def read(self) -> Any:
        from forecast.common.timing import Reading

        return Reading(self.now, self.now, {"1": 0.0}, 0.0, None)

    def since(self, before: Any) -> Any:
        from forecast.common.timing import Load

        rounds = self.order.count("train a") - 2  # after the warm-up
        wall = self.now - before.wall
        return Load(wall, wall, wall if rounds in self.busy else 0.0, wall)


def test_rounds_alternate_their_order_and_fill_their_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {"a": 1.0, "b": 0.25}, set())
    reply = time_in_turn(["a", "b"], 5.0)  # half a second per stretch
    warm, rounds = clock.order[:8], clock.order[8:]
    assert warm == [
        "train a",
        "train a",
        "inference a",
        "inference a",
        "train b",
        "train b",
        "inference b",
        "inference b",
    ]
    forth = ["train a", "inference a", *["train b"] * 2, *["inference b"] * 2]
    back = [*["train b"] * 2, *["inference b"] * 2, "train a", "inference a"]
    assert rounds == [*forth, *back, *forth, *back, *forth]
    a, b = reply["settings"]
    assert [(each["windows"], each["wall_seconds"]) for each in a["train"]] == [(4, 1.0)] * ROUNDS
    assert [(each["windows"], each["wall_seconds"]) for each in b["inference"]] == [(8, 0.5)] * ROUNDS


@pytest.mark.parametrize(
    ("busy", "rounds"), [(set(), ROUNDS), ({2}, ROUNDS + 1), ({2, 3, 6}, ROUNDS + 3), (set(range(99)), ROUNDS)]
)
def test_a_disturbed_round_is_repeated_unless_all_are_disturbed(
    monkeypatch: pytest.MonkeyPatch, busy: set[int], rounds: int
) -> None:
    Clock(monkeypatch, {"a": 1.0}, busy)
    (a,) = time_in_turn(["a"], 1.0)["settings"]
    assert len(a["train"]) == len(a["inference"]) == rounds
    assert {number for number, each in enumerate(a["train"], 1) if each["disturbed"]} == busy & set(
        range(1, rounds + 1)
    )


def test_a_setting_with_a_long_pass_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {"a": 1.0, "b": LONGEST + 1}, set())
    a, b = time_in_turn(["a", "b"], 1.0)["settings"]
    assert a["why"] is None
    assert b == {"why": "a pass takes more than 30 s", "train": [], "inference": []}
    assert clock.order.count("train b") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data.path": "elsewhere/load.csv"}, "names the data file 'elsewhere/load.csv'"),
        ({"optimizer._target_": "payload.Optimizer"}, "optimizer._target_=payload.Optimizer: a folder may name"),
        ({"model.d_model": "${oc.env:SECRET}"}, "interpolations of a run folder are not resolved"),
        ({"training.compile": True}, "its training steps are compiled"),
    ],
)
def test_a_folder_with_a_forbidden_configuration_is_skipped(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    for name in ("other", "own"):
        write_run(tmp_path / name, result_of("full", config={"data.path": None, **change} if name == "other" else {}))
    other, _ = time_in_turn([str(tmp_path / "other"), str(tmp_path / "own")], 0.1)["settings"]
    assert said in other["why"]


def test_a_data_file_on_the_command_line_may_be_read_for_a_folder(tmp_path: Path) -> None:
    write_run(tmp_path / "run", result_of("full", config={"data.path": str(tmp_path / "elsewhere.csv")}))
    (elsewhere,) = time_in_turn([str(tmp_path / "run")], 0.1)["settings"]
    (named,) = time_in_turn([str(tmp_path / "run")], 0.1, [str(tmp_path / "elsewhere.csv")])["settings"]
    assert "give data.path=" in elsewhere["why"]
    assert "give data.path=" not in named["why"]
    assert "elsewhere.csv" in named["why"]  # the file does not exist


def test_a_setting_is_timed_with_the_memory_setting_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(device: torch.device) -> None:
        raise InputError(f"kept on {device}")

    monkeypatch.setattr(turns, "_configuration", lambda *_: {"training": {}, "horizon": 1})
    monkeypatch.setattr(turns.Settings, "parse", lambda config: SimpleNamespace(data=None))
    monkeypatch.setattr(turns, "load_source", lambda data: None)
    monkeypatch.setattr(turns, "prepare", lambda *_, **__: SimpleNamespace(device=torch.device("cpu")))
    monkeypatch.setattr(turns, "keep_freed_memory", keep)
    (setting,) = time_in_turn(["run"], 0.1)["settings"]
    assert setting["why"] == "kept on cpu"
