"""Sweeps: real multiruns through the command line, in this process, on 700 simulated hours."""

import errno
import io
import json
import math
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast.common.errors import InputError, Interrupted, NotFiniteError
from forecast.common.files import folder_lock, look_up, write_json
from forecast.common.processes import SIGNALS
from forecast.runs.settings import Settings
from forecast.training import command_line
from forecast.training.sweep import job as sweep_job
from forecast.training.sweep import sweep
from forecast.training.sweep.folder import job_folder
from forecast.training.sweep.overrides import (
    LONGEST,
    NAME,
    canonical,
    count_jobs,
    job_name,
    parse,
    sweep_name,
    swept_words,
)
from forecast.training.sweep.turns import ROUNDS
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.conftest import leave_blank
from tests.support.small import QUICK, SIMULATED, SMALL, changed, quick, read_rows, rewrite, seal, snapshot

pytestmark = pytest.mark.usefixtures("undrawn")

SHARED = [*SIMULATED, *SMALL["patch_informer"], *QUICK]
SIX = ["attention=full,probsparse,linear", "seed=1,2"]
NAMES = {f"attention-{name}_seed-{seed}" for name in ("full", "probsparse", "linear") for seed in (1, 2)}
REPORT = {"report.html", "report.md", "report.csv", "report-error-memory.png"}
OF_TIMES = {f"report-error-{cost}.png" for cost in ("train", "inference")}
"""Pictures of what can be compared unless the machine was busy throughout."""

FILES = {"multirun.yaml", "sweep.csv", "jobs.csv", "timing.json"} | REPORT


class Ended:
    """How `python train.py -m …` ended: exit code, both streams apart, and as a person sees them."""

    def __init__(self) -> None:
        self.code: Any = None
        self.out, self.err, self.both = io.StringIO(), io.StringIO(), io.StringIO()

    @property
    def errors(self) -> list[str]:
        return self.err.getvalue().splitlines()

    @property
    def started(self) -> list[str]:
        lines = (line.split() for line in self.out.getvalue().splitlines())
        return [words[2] for words in lines if words[:1] == ["job"]]


class Tee(io.StringIO):
    def __init__(self, *streams: io.StringIO) -> None:
        super().__init__()
        self.streams = streams

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)


def command(folder: Path, *words: str, multirun: bool = True) -> Ended:
    """Run `python train.py -m <words>` into `folder`."""
    untimed = [] if any(word.startswith("sweep.repeat_timing") for word in words) else ["sweep.repeat_timing=0"]
    return typed(*(["-m", *untimed] if multirun else []), *SHARED, f"output_dir={folder}", *words)


def typed(*words: str) -> Ended:
    """Run `python train.py <words>`."""
    ended, handlers = Ended(), {number: signal.getsignal(number) for number in SIGNALS}
    argv = ["train.py", *words]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(Tee(ended.out, ended.both)),
        redirect_stderr(Tee(ended.err, ended.both)),
    ):
        patch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as end:
            command_line.main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    ended.code = end.value.code
    return ended


@pytest.fixture(scope="session")  # the slow test that uses it comes long before the others
def six(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """Return the folder and the end of a sweep over three mechanisms and two seeds."""
    root = tmp_path_factory.mktemp("six")
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        ended = command(root, *SIX, "sweep.repeat_timing=0.1")
    (folder,) = (root / "sweeps").iterdir()
    return folder, ended


@pytest.fixture(autouse=True)
def without_report(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Write no report after the sweeps of single tests: it takes as long as their jobs; that of `six` is there."""
    original = sweep.report_sweep
    monkeypatch.setattr(sweep, "report_sweep", lambda folder: None)
    return original


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], list[str]]:
    """Return what puts a function in the place of the training; what it gives lists the jobs' folders."""

    def replace(training: Callable[[dict[str, Any]], Any]) -> list[str]:
        called: list[str] = []

        def instead(settings: Settings, *, folder: Path) -> Any:
            called.append(folder.name)
            mse = training(settings.plain)
            return None, {"validation": {"scaled": {"mse": mse}}, "speed": {"train_windows_per_s": 10 * mse}}

        monkeypatch.setattr(sweep_job, "train", instead)
        return called

    return replace


@pytest.fixture
def returned(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of what the jobs give to Hydra."""
    values: list[float] = []
    monkeypatch.setattr(sweep, "run_job", lambda *job: values.append(sweep_job.run_job(*job)))
    return values


def read(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


# --- a sweep that goes well


def test_six_jobs_have_six_readable_folders_with_a_run_each(six: tuple[Path, Ended]) -> None:
    folder, ended = six
    assert (ended.code, ended.errors) == (0, [])
    assert {path.name for path in folder.iterdir()} - OF_TIMES == NAMES | FILES
    for name in NAMES:
        config = read(folder / name / "manifest.json") and read(folder / name / "config.json")
        assert name == f"attention-{config['attention']['name']}_seed-{config['seed']}"
    assert set(ended.started) == NAMES
    assert "6 of 6 jobs finished" in ended.out.getvalue()
    for name in NAMES:
        assert re.search(
            rf"^{name}: finished, test MSE 0\.\d{{4}}, skill .*, min 0\.", ended.out.getvalue(), re.MULTILINE
        )


def test_a_job_of_a_sweep_gives_what_it_gives_alone(six: tuple[Path, Ended], tmp_path: Path) -> None:
    folder, _ = six
    _, alone = train(quick(tmp_path, "attention=linear", "seed=2"))
    result = read(folder / "attention-linear_seed-2" / "result.json")
    for key in ("validation", "test", "linear_path", "baselines"):
        assert result[key] == alone[key]


def test_the_result_of_a_job_names_the_command_of_that_job_alone(six: tuple[Path, Ended]) -> None:
    words = read(six[0] / "attention-probsparse_seed-2" / "result.json")["command"].split()
    assert words[:2] == ["python", "train.py"]
    assert {"attention=probsparse", "seed=2", "horizon=12"} <= set(words)
    assert not {"-m", *SIX} & set(words)
    assert not any(word.startswith("sweep.") for word in words)


def test_the_same_words_in_any_order_run_nothing_again(
    six: tuple[Path, Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = six
    runs = snapshot(*(folder / name for name in NAMES))
    monkeypatch.setattr(ForecastTask, "training_step", None)
    ended = command(folder.parents[1], *reversed(SIX))
    assert (ended.code, ended.started, ended.errors) == (0, [], [])
    assert ended.out.getvalue().count("finished before") == 6
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert snapshot(*(folder / name for name in NAMES)) == runs


@pytest.mark.parametrize("objective", ["validation.scaled.mse", "speed.train_windows_per_s"])
def test_a_job_gives_its_objective_to_hydra(fake: Any, returned: list[float], tmp_path: Path, objective: str) -> None:
    fake(lambda config: float(config["seed"]))
    assert command(tmp_path, "seed=1,2", f"sweep.objective={objective}").code == 0
    assert returned == ([1.0, 2.0] if objective.startswith("validation") else [10.0, 20.0])


# --- where words stand, and what they are composed over


@pytest.mark.parametrize("name", ["named", None])
@pytest.mark.parametrize(
    "words",
    [
        ["-m", "ROOT", "seed=1,2"],
        ["ROOT", "seed=1,2", "-m"],
        ["ROOT", "-m", "seed=1,2"],
        ["-m", "ROOT", "--config-dir", "DIR", "seed=1,2"],
        ["ROOT", "seed=1,2", "-m", "--config-dir", "DIR"],
        ["--config-dir", "DIR", "ROOT", "--multirun", "seed=1,2", "own=here"],
    ],
)
def test_options_may_stand_anywhere(fake: Any, tmp_path: Path, words: list[str], name: str | None) -> None:
    (tmp_path / "conf" / "own").mkdir(parents=True)
    (tmp_path / "conf" / "own" / "here.yaml").write_text("# @package _global_\nhorizon: 7\n")
    places = {"ROOT": f"output_dir={tmp_path / 'out'}", "DIR": str(tmp_path / "conf"), "own=here": "+own=here"}
    horizons: list[int] = []
    called = fake(lambda config: horizons.append(config["horizon"]) or 0.5)
    ended = typed(*(places.get(word, word) for word in words), *([f"sweep.name={name}"] if name else []))
    assert (ended.code, ended.errors, called) == (0, [], ["seed-1", "seed-2"])
    (folder,) = (tmp_path / "out" / "sweeps").iterdir()
    assert folder.name == name or (name is None and folder.name.startswith("sweep-"))
    assert horizons == ([7, 7] if "own=here" in words else [96, 96])


@pytest.mark.parametrize(
    ("words", "jobs", "said"),
    [
        (["data=etth1,etth2", "data.sha256=null"], ["data-etth1", "data-etth2"], {("etth1", None), ("etth2", None)}),
        (["data=csv,etth1", "data.path='a b.csv'"], ["data-csv", "data-etth1"], {("a-b", None), ("etth1", ...)}),
        (["data=glob(ettm*)", "data.sha256=x"], ["data-ettm1", "data-ettm2"], {("ettm1", "x"), ("ettm2", "x")}),
        (["data=etth1", "data.sha256=a,b"], ["sha256-a", "sha256-b"], {("etth1", "a"), ("etth1", "b")}),
    ],
)
def test_a_key_that_only_the_swept_group_has_can_be_set(
    fake: Any, tmp_path: Path, words: list[str], jobs: list[str], said: set[Any]
) -> None:
    seen: list[dict[str, Any]] = []
    called = fake(lambda config: seen.append(config["data"]) or 0.5)
    ended = typed("-m", f"output_dir={tmp_path}", *words)
    assert (ended.code, ended.errors, called) == (0, [], jobs)
    assert len(seen) == len(said)
    for data, (name, digest) in zip(seen, sorted(said, key=str), strict=True):
        assert (data["name"], data["sha256"]) == (name, data["sha256"] if digest is ... else digest)
        assert "data.path='a b.csv'" not in words or data["path"] == "a b.csv"


def test_the_composed_mode_makes_a_sweep(fake: Any, tmp_path: Path) -> None:
    for mode in ("MULTIRUN", "RunMode.MULTIRUN"):
        called = fake(lambda config: 0.5)
        ended = command(tmp_path / mode, f"hydra.mode={mode}", "seed=1,2", multirun=False)
        assert (ended.code, ended.errors, called) == (0, [], ["seed-1", "seed-2"])
        assert [path.name.startswith("sweep-") for path in (tmp_path / mode / "sweeps").iterdir()] == [True]


# --- jobs that fail


def test_a_job_that_fails_is_told_at_once_and_the_others_go_on(tmp_path: Path) -> None:
    ended = command(tmp_path, "context_length=48,9000,96", "sweep.name=lengths")
    assert ended.code == 1
    assert ended.started == [f"context_length-{length}" for length in (48, 9000, 96)]
    (line,) = ended.errors
    assert line.startswith("error: context_length-9000: context_length 9000 + horizon 12")
    said = ended.both.getvalue()
    assert said.index(line) < said.index("context_length-96 starts")
    assert "2 of 3 jobs finished" in said
    folder = tmp_path / "sweeps" / "lengths" / "context_length-9000"
    assert {path.name for path in folder.iterdir()} == {"job.json", "failed.json"}
    failed = read(folder / "failed.json")
    assert line.endswith(failed["error"])
    assert (failed["kind"], failed["exit_code"], failed["overrides"]) == ("InputError", 2, ["context_length=9000"])


def test_a_fault_of_the_program_leaves_its_traceback_and_the_same_command_runs_that_job_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ForecastTask.training_step

    def faulty(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if "LinearAttention" in repr(self.network) and self.global_step == 3:
            raise ZeroDivisionError("a bug")
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", faulty)
    words = ["attention=full,linear,mean", "sweep.name=faulty"]
    ended = command(tmp_path, *words)
    folder = tmp_path / "sweeps" / "faulty"
    assert ended.code == 1
    (line,) = ended.errors
    assert line.startswith("error: attention-linear: ZeroDivisionError: a bug, a fault of the program")
    (trace,) = tmp_path.rglob("traceback.txt")
    assert trace == folder / "attention-linear" / "traceback.txt"
    assert "in faulty" in trace.read_text()
    assert "Traceback" not in ended.both.getvalue()

    monkeypatch.setattr(ForecastTask, "training_step", original)
    again = command(tmp_path, *words)
    assert (again.code, again.errors, again.started) == (0, [], ["attention-linear"])
    assert not list(folder.rglob("traceback.txt")) + list(folder.rglob("failed.json"))
    assert "3 of 3 jobs finished" in again.out.getvalue()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("wrong\ninput"), 2, "error: seed-2: wrong input"),
        (NotFiniteError("loss is nan"), 3, "error: seed-2: loss is nan"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 4, "error: seed-2: x: No space left on device"),
    ],
)
def test_what_is_no_bug_is_one_line_without_a_traceback(
    fake: Any, returned: list[float], tmp_path: Path, error: Exception, code: int, said: str
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
    assert math.isnan(returned[1])
    assert read(tmp_path / "sweeps" / "s" / "seed-2" / "failed.json")["exit_code"] == code
    assert not list(tmp_path.rglob("traceback.txt"))


def test_a_failure_of_an_earlier_command_is_shown_and_is_no_failure_of_this_one(fake: Any, tmp_path: Path) -> None:
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
def test_an_objective_that_is_no_number_is_told_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, returned: list[float], tmp_path: Path, value: float | None
) -> None:
    monkeypatch.setattr(sweep_job, "train", lambda *given, **named: (None, {"speed": {"step_ms_p50": value}}))
    ended = command(tmp_path, "seed=1,2", "sweep.name=s", "sweep.objective=speed.step_ms_p50")
    told = "sweep.objective=speed.step_ms_p50: is no number here"
    assert (ended.code, ended.errors) == (0, [f"seed-1: {told}", f"seed-2: {told}"])
    assert [math.isnan(each) for each in returned] == [True, True]
    assert not list(tmp_path.rglob("failed.json"))


def test_an_objective_that_a_finished_run_lacks_leaves_it_as_it_is(tmp_path: Path, returned: list[float]) -> None:
    words = ["sweep.name=s", "training.max_steps=2", "sweep.objective=validation.skill"]
    assert command(tmp_path, *words).code == 0
    folder = tmp_path / "sweeps" / "s" / "job"
    result = read(folder / "result.json")
    del result["validation"]["skill"]  # as of a series without a season
    rewrite(folder / "result.json", result)
    ended = command(tmp_path, *words)
    assert (ended.code, len(ended.errors)) == (0, 1)
    assert [math.isnan(value) for value in returned] == [False, True]
    assert "1 of 1 jobs finished" in ended.out.getvalue()
    assert not (folder / "failed.json").exists()


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


def test_every_objective_that_may_be_chosen_is_in_a_result(six: tuple[Path, Ended], tmp_path: Path) -> None:
    line = command(tmp_path, "seed=1,2", "sweep.objective=model.nonsense").errors[0]
    choices = line.partition("choose ")[2].split(", ")
    assert len(choices) > 15
    result = read(six[0] / "attention-full_seed-1" / "result.json")
    for path in choices:
        assert path.rpartition(".")[2] in look_up(result, path.rpartition(".")[0])


def test_other_words_for_a_job_that_failed_before_it_had_a_run_take_its_folder(fake: Any, tmp_path: Path) -> None:
    def fails(config: dict[str, Any]) -> float:
        raise InputError("the file is missing")

    fake(fails)
    assert command(tmp_path, "sweep.name=s").code == 1
    called = fake(lambda config: 0.5)
    ended = command(tmp_path, "attention=full,mean", "seed=1", "sweep.name=s")
    assert (ended.code, called) == (0, ["job", "attention-mean"])
    assert not list(tmp_path.rglob("failed.json"))
    assert read(tmp_path / "sweeps" / "s" / "job" / "job.json")["overrides"] == ["attention=full"]


# --- a sweep that has so many minutes


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time that a sweep is told, in seconds, to be moved."""
    moved = [1000.0]
    for module in (sweep, sweep_job):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: moved[0]))
    return moved


def test_no_job_begins_after_the_minutes_and_the_same_command_goes_on_with_the_rest(
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
        "stopped: sweep.minutes are over, jobs that have not begun: 2: the same command goes on with them"
    ]
    assert "seed-3: left, no time to begin it" in ended.out.getvalue()
    assert "unfinished: seed-4" in ended.out.getvalue()
    for name in called:
        seal(tmp_path / "sweeps" / "s" / name)  # which the fake does not
    called = fake(lambda config: 0.5)
    ended = command(tmp_path, *words)
    assert (ended.code, called) == (0, ["seed-1", "seed-2", "seed-3", "seed-4"])
    assert not list(tmp_path.rglob("left.json"))


def test_a_failure_counts_more_than_the_jobs_that_are_left(fake: Any, tmp_path: Path, now: list[float]) -> None:
    def fails(config: dict[str, Any]) -> float:
        now[0] += 50
        raise InputError("not so")

    fake(fails)
    ended = command(tmp_path, "seed=1,2,3,4", "sweep.minutes=1")
    assert (ended.code, len(ended.errors)) == (1, 3)


# --- the study


def test_the_study_holds_everything_equal_but_what_it_compares(fake: Any, tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = []
    called = fake(lambda config: configs.append(config) or 0.5)
    study = ["-m", "experiment=tradeoff", "data=etth1", f"output_dir={tmp_path}", "sweep.isolate=false"]
    assert typed(*study).code == 0
    assert len(called) == len(set(called)) == 15
    assert called[0] == "attention-full_context_length-96_seed-1"
    assert called[-1] == "attention-mean_context_length-2880_seed-1"
    same = [{**config, "attention": None, "context_length": None} for config in configs]
    assert all(config == same[0] for config in same)
    assert {config["attention"]["name"] for config in configs} > {"full", "probsparse", "linear", "mean"}
    longest = max(config["context_length"] for config in configs)
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


# --- sweeps that meet


def test_a_sweep_neither_writes_over_another_of_its_name_nor_into_a_job_at_work(tmp_path: Path) -> None:
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
    assert command(tmp_path, "sweep.name=s").code == 0
    assert snapshot(folder) == before


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


def test_what_auto_comes_to_finds_no_job_of_another_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("forecast.runs.settings._amx_bf16", lambda: False)
    config = quick(tmp_path, "training.precision=bf16-mixed")
    (tmp_path / "other").mkdir()
    write_json(tmp_path / "other" / "config.json", config)
    for precision, found in (("bf16-mixed", "other"), ("32-true", "job"), ("auto", "job")):
        wanted = Settings.parse(changed(config, training__precision=precision))
        assert job_folder(tmp_path / "job", wanted) == tmp_path / found


def test_a_group_that_is_none_is_refused_before_a_folder_is_looked_for(tmp_path: Path) -> None:
    for absent in ({"model": None}, {"model": "informer"}, {"training": None}):
        with pytest.raises(InputError, match="must be a group of options"):
            job_folder(tmp_path / "job", Settings.parse({**quick(tmp_path), **absent}))


# --- what ends a sweep


def test_a_signal_ends_the_sweep_with_its_table_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ForecastTask.training_step

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if "LinearAttention" in repr(self.network) and self.global_step == 5:
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", interrupted)
    words = ["attention=full,linear,mean", "sweep.name=s"]
    ended = command(tmp_path, *words)
    assert (ended.code, ended.started) == (143, ["attention-full", "attention-linear"])
    assert "1 of 2 jobs finished" in ended.out.getvalue()
    assert "unfinished: attention-linear" in ended.out.getvalue()
    assert ended.errors[-1] == "stopped: the same command goes on with what is missing"
    assert not list(tmp_path.rglob("failed.json"))
    monkeypatch.setattr(ForecastTask, "training_step", original)
    again = command(tmp_path, *words)
    assert (again.code, again.started) == (0, ["attention-linear", "attention-mean"])
    assert "going on after step 6" in again.out.getvalue()


def test_the_settings_of_a_sweep_are_timed_in_turn_for_its_report(six: tuple[Path, Ended]) -> None:
    """One of the two seeds each: steps and forecasts of the sizes of the jobs, in as many rounds."""
    folder, ended = six
    assert "timing 3 settings in turn, 0.1 s each" in ended.out.getvalue()
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
    said = ended.out.getvalue()
    assert f"report: {folder / 'report.html'}" in said
    assert "this speaks of cost, not of converged quality" in said
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
    assert {job["model"]["share"] for job in jobs} == {0}
    assert {"last value", "seasonal naive", "linear (ridge)"} <= rows.keys()


def test_a_sweep_that_was_interrupted_and_went_on_has_the_report_of_one_that_was_not(
    six: tuple[Path, Ended], without_report: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ForecastTask.training_step

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if "LinearAttention" in repr(self.network) and self.global_step == 5:
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, batch_idx)

    words = ["attention=full,linear", "sweep.name=s"]
    monkeypatch.setattr(ForecastTask, "training_step", interrupted)
    assert command(tmp_path, *words).code == 143
    monkeypatch.setattr(ForecastTask, "training_step", original)
    assert command(tmp_path, *words).started == ["attention-linear"]
    for name in ("full", "linear"):
        shutil.copytree(six[0] / f"attention-{name}_seed-1", tmp_path / "whole" / f"attention-{name}")
    for folder in (tmp_path / "whole", tmp_path / "sweeps" / "s"):
        without_report(folder)
    whole, apart = (read_rows(folder / "report.csv") for folder in (tmp_path / "whole", tmp_path / "sweeps" / "s"))
    assert len(whole) == len(apart) == 5
    assert [*map(without_times, whole)] == [*map(without_times, apart)]
    assert without_times(whole[0]).keys() >= {"test_mse", "best_step", "steps", "parameters", "against_full_low"}


def without_times(row: dict[str, str]) -> dict[str, str]:
    """Return a row of report.csv without what a clock, or the place of the folder, has a part in."""
    timed = ("per_s", "_ms_", "seconds", "share", "peak_memory", "_cost", "not_dominated", "commands", "disturbed")
    timed += ("train_against", "inference_against")
    return {key: value for key, value in row.items() if not any(word in key for word in timed)}


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (Interrupted("stopped", 15), 143),
        (KeyboardInterrupt(), 130),
        (SystemExit(143), 143),
        (BrokenPipeError(), 141),
    ],
)
@pytest.mark.usefixtures("capsys")  # a pipe that is gone has its stream closed: not pytest's own
def test_no_job_starts_after_an_interruption(fake: Any, tmp_path: Path, raised: BaseException, code: int) -> None:
    def ends(config: dict[str, Any]) -> float:
        if config["seed"] == 2:
            raise raised
        return 0.5

    called = fake(ends)
    assert command(tmp_path, "seed=1,2,3").code == code
    assert called == ["seed-1", "seed-2"]


# --- what is refused before the first job


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["attention=full,nope"], "attention=nope: no such choice"),
        (["foo=1,2"], "foo"),
        (["seed=1,2", "foo=1"], "foo"),
        (["seed=1,2", "data"], "data"),
        (["seed=1,2", "sweep.objective=test.scaled.mse"], "sweep.objective=test.scaled.mse: is of the test part"),
        (["seed=1,2", "sweep.objective=baselines.linear.validation.scaled.mse"], "is of the test part"),
        (["seed=1,2", "sweep.objective=linear_path.test.scaled.mse"], "is of the test part"),
        (["seed=1,2", "sweep.objective=validation.mse"], "choose validation.scaled.mse"),
        (["seed=1,2", "sweep.objective=model.nonsense"], "sweep.objective=model.nonsense: no result has it"),
        (["seed=1,2", "sweep.repeat_timing=-1"], "sweep.repeat_timing=-1: must be at least 0 and finite"),
        (["seed=1,2", "sweep.objective=speed"], "sweep.objective=speed: no result has it"),
        (["seed=1,2", "sweep.objective=model.steps.x"], "sweep.objective=model.steps.x: no result has it"),
        (["seed=1,2", "sweep.name=a/b"], "sweep.name=a/b"),
        (["seed=1,2,1"], "seed=1,2,1: gives 1 twice"),
        (["seed=1,2", "sweep.minutes=0"], "sweep.minutes=0: must be above 0"),
        (["seed=1,2", "sweep.minutes=long"], "sweep.minutes=long: must be float or null"),
        (["seed=1,2", "sweep.isolate=maybe"], "sweep.isolate=maybe: must be bool"),
        (["seed=1,2", "sweep.name=.."], "sweep.name=.."),
        (["sweep.name=a,b"], "sweep.name=a,b"),
        (["output_dir=a,b"], "output_dir=a,b"),
        (["trainer=smoke,gpu"], "trainer=smoke,gpu: all jobs of a sweep share one trainer"),
        (["trainer.accelerator=cpu,gpu"], "all jobs of a sweep share one trainer.accelerator: give one"),
        (["training.activation_checkpointing=false,true"], "all jobs of a sweep share one training.activation_check"),
        (["seed=1,2", "resume=outputs/a"], "resume=outputs/a: each job of a sweep resumes itself"),
        (["seed=1,2", "trainer.devices=2"], "trainer.devices=2: each job of a sweep is one process"),
        (["seed=1,2", "trainer=ddp"], "hydra/launcher=joblib, or a GPU each with hydra/launcher=submitit_slurm"),
        (["seed=1,2", "+trainer.num_nodes=2"], "trainer.num_nodes=2: each job of a sweep is one process"),
        (["hydra/launcher=nope", "seed=1,2"], "nope"),
        (["seed=1,2", "hydra.sweep.subdir=${hydra.job.num}"], "hydra.sweep.subdir="),
        (["seed=1,2", "hydra.sweep.dir=elsewhere"], "hydra.sweep.dir=elsewhere: the folders of a sweep are"),
        (["seed=1,2", "hydra.mode=RUN"], "hydra.mode=RUN: is one run"),
        (["seed=1,2", "--cfg", "job"], "--multirun and --cfg"),
        (["seed=1,2", "--info", "config"], "--multirun and --info"),
        (["seed=1,2", "--resolve"], "--resolve"),
        (["seed=1,2", "--config-dir", "nowhere"], "--config-dir nowhere"),
    ],
)
def test_what_no_sweep_can_be_is_one_line_before_any_job(
    fake: Any, tmp_path: Path, words: list[str], said: str
) -> None:
    called = fake(lambda config: 0.5)
    ended = command(tmp_path, *words)
    assert (ended.code, called, ended.out.getvalue()) == (2, [], "")
    (line,) = ended.errors
    assert line.startswith("error: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_torchrun_started_several_times_is_refused(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = fake(lambda config: 0.5)
    names = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    ended = command(tmp_path, "seed=1,2")
    assert (ended.code, called) == (2, [])
    (line,) = ended.errors
    assert "-m: 2 processes were started, and each would run the whole sweep" in line


def test_a_job_that_would_start_processes_fails_alone(fake: Any, tmp_path: Path) -> None:
    called = fake(lambda config: 0.5)
    ended = command(tmp_path, "seed=1,2", "trainer.devices=${seed}", "sweep.name=s")
    assert (ended.code, called) == (1, ["seed-1"])
    failed = read(tmp_path / "sweeps" / "s" / "seed-2" / "failed.json")
    assert failed["error"].startswith("trainer.devices=2: each job of a sweep is one process")


def test_an_output_folder_that_is_a_file_is_refused(fake: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ended = command(tmp_path / "file", "seed=1,2")
    assert (ended.code, len(ended.errors)) == (2, 1)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_single_run_refuses_what_is_about_sweeps(tmp_path: Path) -> None:
    ended = command(tmp_path, "sweep.name=s", multirun=False)
    assert (ended.code, len(ended.errors)) == (2, 1)
    assert "-m" in ended.errors[0]
    assert list(tmp_path.iterdir()) == []


# --- names


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["seed=1", "attention=full"], "attention-full_seed-1"),
        (["attention@decoder_attention=mean", "optimizer.lr=1e-3"], "decoder_attention-mean_lr-0.001"),
        (["a.rate=1", "b.rate=2"], "a.rate-1_b.rate-2"),
        (["x=true", "y=null"], "x-true_y-null"),
        ([], "job"),
    ],
)
def test_a_name_says_what_is_swept(words: list[str], name: str) -> None:
    assert job_name(swept_words(words, [])) == name
    assert job_name(swept_words(words[::-1], [])) == name


def test_names_that_would_collide_or_run_over_have_a_hash() -> None:
    words = ['data.path="a b"', "data.path=a-b", "data.path=a/b", "data.path=../a-b", "data.targets=[a,b]"]
    words += [f"data.path={'long' * 50}{end}" for end in "ab"]
    names = {job_name(swept_words([word], [])) for word in words}
    assert len(names) == len(words)
    assert all(NAME.fullmatch(name) and len(name) <= LONGEST for name in names)
    assert "path-a-b" in names


def test_constants_are_not_in_a_name_however_they_are_spelt() -> None:
    constants = {canonical(each) for each in parse(["data.targets=[a, 'b c']", "x=1", "~callbacks.early_stopping"])}
    words = ["data.targets=[a,'b c']", "x=1", "~callbacks.early_stopping=null", "seed=3"]
    assert swept_words(words, constants) == ["seed=3"]


def test_the_name_of_a_sweep_follows_its_words_and_not_its_launcher() -> None:
    name = sweep_name(["a=1,2", "seed=1"])
    assert name == sweep_name(["seed=1", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "a=1,2"])
    assert name != sweep_name(["a=1,2", "seed=2"])
    assert NAME.fullmatch(name)


# --- other launchers


@pytest.fixture
def joblib() -> Iterator[None]:
    """Skip where the launcher is not installed, and end its workers afterwards."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="it needs the extra: pip install -e '.[joblib]'")
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


@pytest.mark.slow
@pytest.mark.usefixtures("joblib")
def test_jobs_side_by_side_give_the_same_digits_and_fail_alone(six: tuple[Path, Ended], tmp_path: Path) -> None:
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
