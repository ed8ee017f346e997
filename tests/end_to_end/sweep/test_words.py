"""Overrides of a sweep: their position, which are refused before the first job, and the names of jobs."""

from pathlib import Path
from typing import Any

import pytest

from forecast.training.sweep.overrides import (
    LONGEST,
    NAME,
    canonical,
    job_name,
    parse,
    sweep_name,
    swept_words,
)
from tests.support.sweeps import command, read, typed

# --- position and composition of overrides


@pytest.mark.parametrize("name", ["named", pytest.param(None, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "words",
    [
        ["-m", "ROOT", "seed=1,2"],
        pytest.param(["ROOT", "seed=1,2", "-m"], marks=pytest.mark.exhaustive),
        pytest.param(["ROOT", "-m", "seed=1,2"], marks=pytest.mark.exhaustive),
        pytest.param(["-m", "ROOT", "--config-dir", "DIR", "seed=1,2"], marks=pytest.mark.exhaustive),
        ["ROOT", "seed=1,2", "-m", "--config-dir", "DIR"],
        ["--config-dir", "DIR", "ROOT", "--multirun", "seed=1,2", "own=here"],
    ],
)
def test_options_may_be_anywhere(fake: Any, tmp_path: Path, words: list[str], name: str | None) -> None:
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
        pytest.param(
            *(["data=glob(ettm*)", "data.sha256=x"], ["data-ettm1", "data-ettm2"], {("ettm1", "x"), ("ettm2", "x")}),
            marks=pytest.mark.exhaustive,
        ),
        (["data=glob([_*,*m1],exclude=_*)"], ["data-ettm1"], {("ettm1", ...)}),
        (["data=etth1", "data.sha256=a,b"], ["sha256-a", "sha256-b"], {("etth1", "a"), ("etth1", "b")}),
    ],
)
def test_a_key_that_only_the_swept_group_has_can_be_set(
    fake: Any, tmp_path: Path, words: list[str], jobs: list[str], said: set[Any]
) -> None:
    seen: list[dict[str, Any]] = []
    called = fake(lambda config: seen.append(config["data"]) or 0.5)
    lengths = ["context_length=48", "horizon=12", "model.patch_length=12", "model.stride=12"]  # from no table
    ended = typed("-m", f"output_dir={tmp_path}", *words, *lengths)
    assert (ended.code, ended.errors, called) == (0, [], jobs)
    assert len(seen) == len(said)
    for data, (name, digest) in zip(seen, sorted(said, key=str), strict=True):
        assert (data["name"], data["sha256"]) == (name, data["sha256"] if digest is ... else digest)
        assert "data.path='a b.csv'" not in words or data["path"] == "a b.csv"


def test_a_mode_in_the_configuration_starts_a_sweep(fake: Any, tmp_path: Path) -> None:
    for mode in ("MULTIRUN", "RunMode.MULTIRUN"):
        called = fake(lambda config: 0.5)
        ended = command(tmp_path / mode, f"hydra.mode={mode}", "seed=1,2", multirun=False)
        assert (ended.code, ended.errors, called) == (0, [], ["seed-1", "seed-2"])
        assert [path.name.startswith("sweep-") for path in (tmp_path / mode / "sweeps").iterdir()] == [True]


# --- refused before the first job


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["attention=full,nope"], "attention=nope: no such choice"),
        (["data=glob(*)"], "data=glob(*): matches _file, a base of other files and no choice: add exclude=_*"),
        (["foo=1,2"], "foo"),
        (["seed=1,2", "foo=1"], "foo"),
        (["seed=1,2", "data"], "data"),
        (["seed=1,2", "sweep.objective=test.scaled.mse"], "is a test score: choose a validation score such as vali"),
        (["seed=1,2", "sweep.objective=baselines.linear.validation.scaled.mse"], "is a test score"),
        (["seed=1,2", "sweep.objective=linear_path.test.scaled.mse"], "is a test score"),
        (["seed=1,2", "sweep.objective=validation.mse"], "choose validation.scaled.mse"),
        (["seed=1,2", "sweep.objective=model.nonsense"], "sweep.objective=model.nonsense: no result has this number"),
        (["seed=1,2", "sweep.repeat_timing=-1"], "sweep.repeat_timing=-1: must be at least 0 and finite"),
        (["seed=1,2", "sweep.objective=speed"], "sweep.objective=speed: no result has this number"),
        (["seed=1,2", "sweep.objective=model.steps.x"], "sweep.objective=model.steps.x: no result has this number"),
        (["seed=1,2", "sweep.name=a/b"], "sweep.name=a/b"),
        (["seed=1,2", "start_from=latest"], "start_from=latest: each job would begin with the job before it: give a"),
        (["start_from=null,latest"], "start_from=null,latest: each job would begin with the job before it"),
        (["seed=1,2,1"], "seed=1,2,1: 1 occurs twice"),
        (["seed=1,2", "sweep.minutes=0"], "sweep.minutes=0: must be above 0"),
        (["seed=1,2", "sweep.minutes=long"], "sweep.minutes=long: must be float or null"),
        (["seed=1,2", "sweep.isolate=maybe"], "sweep.isolate=maybe: must be bool"),
        (["seed=1,2", "sweep.name=.."], "sweep.name=.."),
        (["sweep.name=a,b"], "sweep.name=a,b"),
        (["output_dir=a,b"], "output_dir=a,b"),
        (["evaluation.baselines=[],[trees]"], "all jobs of a sweep share one evaluation.baselines"),
        (["trainer=smoke,gpu"], "trainer=smoke,gpu: all jobs of a sweep share one trainer"),
        (["trainer.accelerator=cpu,gpu"], "all jobs of a sweep share one trainer.accelerator: use a single value"),
        (["training.activation_checkpointing=false,true"], "all jobs of a sweep share one training.activation_check"),
        (["seed=1,2", "resume=outputs/a"], "resume=outputs/a: the jobs of a sweep resume automatically"),
        (["seed=1,2", "trainer.devices=2"], "trainer.devices=2: each job of a sweep is one process"),
        (["seed=1,2", "trainer=ddp"], "each job of a sweep is one process"),
        (["seed=1,2", "+trainer.num_nodes=2"], "trainer.num_nodes=2: each job of a sweep is one process"),
        (["hydra/launcher=nope", "seed=1,2"], "nope"),
        (["seed=1,2", "hydra.sweep.subdir=${hydra.job.num}"], "hydra.sweep.subdir="),
        (["seed=1,2", "hydra.sweep.dir=elsewhere"], "hydra.sweep.dir=elsewhere: "),
        (["seed=1,2", "hydra.mode=RUN"], "hydra.mode=RUN: is a single run"),
        (["seed=1,2", "--cfg", "job"], "--multirun and --cfg"),
        (["seed=1,2", "--info", "config"], "--multirun and --info"),
        (["seed=1,2", "--resolve"], "--resolve"),
        (["seed=1,2", "--config-dir", "nowhere"], "--config-dir nowhere"),
    ],
)
def test_an_impossible_sweep_is_refused_in_one_line_before_any_job(
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


def test_a_single_run_refuses_sweep_options(tmp_path: Path) -> None:
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
def test_a_job_name_lists_the_swept_overrides(words: list[str], name: str) -> None:
    assert job_name(swept_words(words, [])) == name
    assert job_name(swept_words(words[::-1], [])) == name


def test_names_that_would_collide_or_be_too_long_have_a_hash() -> None:
    words = ['data.path="a b"', "data.path=a-b", "data.path=a/b", "data.path=../a-b", "data.targets=[a,b]"]
    words += [f"data.path={'long' * 50}{end}" for end in "ab"]
    names = {job_name(swept_words([word], [])) for word in words}
    assert len(names) == len(words)
    assert all(NAME.fullmatch(name) and len(name) <= LONGEST for name in names)
    assert "path-a-b" in names


def test_constants_are_not_in_a_name_in_any_spelling() -> None:
    constants = {canonical(each) for each in parse(["data.targets=[a, 'b c']", "x=1", "~callbacks.early_stopping"])}
    words = ["data.targets=[a,'b c']", "x=1", "~callbacks.early_stopping=null", "seed=3"]
    assert swept_words(words, constants) == ["seed=3"]


def test_the_name_of_a_sweep_depends_on_its_overrides_not_its_launcher() -> None:
    name = sweep_name(["a=1,2", "seed=1"])
    assert name == sweep_name(["seed=1", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "a=1,2"])
    assert name != sweep_name(["a=1,2", "seed=2"])
    assert NAME.fullmatch(name)
