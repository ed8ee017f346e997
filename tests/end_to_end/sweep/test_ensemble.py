"""`python train.py ensemble=2`: members of several seeds in one folder, and the scores of their mean forecast."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.data.generated.synthetic import simulate_transformer
from forecast.export.__main__ import main as export
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import Ensemble, load
from forecast.runs.run import RESULT, Run
from forecast.runs.settings import Settings
from forecast.training.sweep.ensemble import _check_data
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.forecasts import dated
from tests.support.small import HORIZON, changed, quick, rewrite
from tests.support.sweeps import Ended, command, read, typed

TARGET = "oil_temperature_c"
WORDS = ["ensemble=2", "seed=5", "model.linear_path=zero", "optimizer.lr=0.01", "training.evaluation_stride=12"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """Return the folder and the outcome of an ensemble of two quantile models."""
    root = tmp_path_factory.mktemp("pair")
    ended = command(root, *WORDS, "loss=quantile", multirun=False)
    (folder,) = (root / "sweeps").iterdir()
    return folder, ended


def test_the_members_are_single_runs_of_following_seeds(pair: tuple[Path, Ended], tmp_path: Path) -> None:
    folder, ended = pair
    assert (ended.code, ended.errors) == (0, [])
    assert ended.started == ["seed-5", "seed-6"]
    assert folder.name.startswith("ensemble-")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"seed-5", "seed-6"}
    _, alone = train(quick(tmp_path, *WORDS[1:], "seed=6", "loss=quantile"))
    result = read(folder / "seed-6" / "result.json")
    assert (result["validation"], result["test"]) == (alone["validation"], alone["test"])


def test_the_scores_are_those_of_the_mean_forecast_of_each_window(pair: tuple[Path, Ended]) -> None:
    """Each test window is forecast as a user would, from the rows before it, and scored by hand."""
    folder, _ = pair
    result, model = read(folder / "ensemble.json"), load(folder)
    assert isinstance(model, Ensemble)
    frame = simulate_transformer(700, 0)
    table = frame if TARGET in frame else frame.reset_index()
    members = [read(folder / name / "result.json") for name in ("seed-5", "seed-6")]
    windows = members[0]["data"]["windows"]["test"]
    scale = model.members[0].scaler.scale[0]
    errors, inside = [], []
    for window in range(windows):
        origin = len(table) - HORIZON - 12 * window
        made = model.predict(table.iloc[:origin], levels=[80])
        truth = table[TARGET].to_numpy()[origin : origin + HORIZON]
        low, high = (made[name].to_numpy() for name in made.columns if name != TARGET)
        errors.append((made[TARGET].to_numpy() - truth) / scale)
        inside.append((low <= truth) & (truth <= high))
    assert result["test"]["scaled"]["mse"] == pytest.approx(float(np.square(errors).mean()), rel=1e-4)
    assert result["test"]["intervals"]["coverage_80"] == pytest.approx(float(np.mean(inside)), abs=1e-9)
    alone = [member["test"]["scaled"]["mse"] for member in members]
    assert [scores["test"]["mse"] for scores in result["alone"]] == alone
    assert result["test"]["scaled"]["mse"] < np.mean(alone)  # the square is convex


def test_the_command_of_the_ensemble_is_recorded(pair: tuple[Path, Ended]) -> None:
    content = json.loads((pair[0] / "ensemble.json").read_text())
    assert content["start_from"] is None, "random weights"
    words = content["command"].split()
    assert {"ensemble=2", "seed=5", "loss=quantile", f"sweep.name={pair[0].name}"} <= set(words)
    assert "-m" not in words
    assert len(words) == len(set(words))


def test_the_cost_and_the_gain_are_printed(pair: tuple[Path, Ended]) -> None:
    folder, ended = pair
    result, printed = read(folder / "ensemble.json"), ended.out.getvalue()
    assert "mean of 2 models" in printed
    assert "Its 2 members alone: test MSE " in printed
    members = [read(folder / name / "result.json") for name in ("seed-5", "seed-6")]
    assert result["model"]["parameters"] == sum(member["model"]["parameters"] for member in members)
    assert result["speed"]["fit_seconds"] == sum(member["speed"]["fit_seconds"] for member in members)
    assert "Cost: 2 trainings, " in printed
    assert f"Next: python -m forecast.predict --run {folder} --input {folder}/seed-5/input.csv" in printed
    assert printed.rstrip().endswith("--levels 80")  # quantiles from 0.1 to 0.9 have no interval of 95 %


def test_the_same_command_trains_nothing_again(pair: tuple[Path, Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = pair
    before = (folder / "ensemble.json").read_bytes()
    monkeypatch.setattr(ForecastTask, "training_step", None)
    again = command(folder.parents[1], *WORDS, "loss=quantile", multirun=False)
    assert (again.code, again.started) == (0, [])
    assert (folder / "ensemble.json").read_bytes() == before


def test_predict_takes_the_folder_as_its_members(pair: tuple[Path, Ended], tmp_path: Path) -> None:
    folder, _ = pair
    source = folder / "seed-5" / "input.csv"
    for output, runs in (("one.csv", [folder]), ("two.csv", [folder / "seed-5", folder / "seed-6"])):
        options = [word for run in runs for word in ("--run", str(run))]
        assert predict([*options, "--input", str(source), "--output", str(tmp_path / output), "--levels", "80"]) == 0
    pd.testing.assert_frame_equal(dated(tmp_path / "one.csv"), dated(tmp_path / "two.csv"))
    assert len(json.loads((tmp_path / "one.json").read_text())["models"]) == 2


def test_commands_for_one_run_name_a_member(
    pair: tuple[Path, Ended], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = pair[0]
    capsys.readouterr()
    assert export(["--run", str(folder), "--output", str(tmp_path / "model.pt2")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    first = sorted(path.parent for path in folder.glob("*/result.json"))[0]
    assert line == f"error: {folder}: an ensemble of 2 runs: choose one, such as --run {first}"


def test_a_damaged_file_is_an_error_of_one_line(
    pair: tuple[Path, Ended], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = pair
    copy = tmp_path / "copy"
    copy.mkdir()
    content = (folder / "ensemble.json").read_text()
    (copy / "ensemble.json").write_text(content.replace("seed-6", "seed-7"))
    source = folder / "seed-5" / "input.csv"
    words = ["--run", str(copy), "--input", str(source), "--output", str(tmp_path / "next.csv")]
    assert predict(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(copy / "ensemble.json") in line
    for names in (["../other"], [".."], ["seed-5", ""], [], "seed-5", [3]):
        rewrite(copy / "ensemble.json", {**json.loads(content), "members": names})
        with pytest.raises(InputError, match=r"ensemble\.json: damaged: run the command of the ensemble again"):
            load(copy)
    (copy / "seed-5").symlink_to(folder / "seed-5")
    rewrite(copy / "ensemble.json", {**json.loads(content), "members": ["seed-5"]})
    with pytest.raises(InputError, match=r"ensemble\.json: damaged: run the command of the ensemble again"):
        load(copy)


def test_members_of_an_earlier_data_file_are_refused(pair: tuple[Path, Ended]) -> None:
    runs = [Run(path.parent) for path in sorted(pair[0].glob("*/result.json"))]
    digest = read_json(runs[0].path / RESULT)["data"]["sha256"]
    _check_data(runs, digest)
    with pytest.raises(InputError, match=r"seed-5, .*seed-6: the data file has changed since: restore it, or remove"):
        _check_data(runs, "another")


@pytest.mark.exhaustive
def test_other_runs_in_the_folder_are_no_members(tmp_path: Path) -> None:
    words = ["sweep.name=same", "training.max_steps=2"]
    assert command(tmp_path, "attention=linear,mean", *words).code == 0
    for members in (3, 2):
        assert command(tmp_path, f"ensemble={members}", *words, multirun=False).code == 0
    assert read(tmp_path / "sweeps" / "same" / "ensemble.json")["members"] == ["seed-1", "seed-2"]


def test_an_ensemble_with_a_failed_member_is_not_scored(fake: Any, tmp_path: Path) -> None:
    def fails(config: dict[str, Any]) -> float:
        if config["seed"] == 2:
            raise InputError("no such thing")
        return 0.5

    fake(fails)
    ended = command(tmp_path, "ensemble=2", multirun=False)
    assert ended.code == 1
    assert any(line.startswith("error: seed-2: no such thing") for line in ended.errors)
    assert not list(tmp_path.rglob("ensemble.json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ensemble=0"], "ensemble=0: must be a whole number of at least 1"),
        (["ensemble=true"], "ensemble=True: must be a whole number of at least 1"),
        (["ensemble=1.5"], "ensemble=1.5: must be a whole number of at least 1"),
        (["ensemble=2", "-m"], "-m: an ensemble is itself a sweep: leave it out, or ensemble=2"),
        (["ensemble=2", "seed=1,2"], "seed=1,2: an ensemble is itself a sweep: leave it out, or ensemble=2"),
        (["ensemble=2", "seed=abc"], "seed=abc: must be a whole number, the first of ensemble=2"),
        (["ensemble=2", "hydra.mode=RUN"], "hydra.mode=RUN: is a single run, but ensemble=2 requests several: leave"),
        (["ensemble=2", "resume=some"], "resume=some: the jobs of a sweep resume automatically: leave it out"),
    ],
)
def test_what_an_ensemble_cannot_do_is_refused_in_a_line(words: list[str], message: str, tmp_path: Path) -> None:
    ended = command(tmp_path, *words, multirun=False)
    assert ended.code == 2
    (line,) = ended.errors
    assert line.startswith(f"error: {message}")
    assert not any(tmp_path.iterdir())


def test_an_experiment_that_varies_options_has_no_mean(tmp_path: Path) -> None:
    ended = typed("ensemble=2", "experiment=tradeoff", "data=synthetic", f"output_dir={tmp_path}")
    assert ended.code == 2
    assert ended.errors[0].startswith("error: ensemble=2: an experiment or sweeper that varies options has no one mean")


def test_a_single_training_refuses_an_ensemble(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ensemble=2: this is about one training: leave it out"):
        Settings.parse(changed(quick(tmp_path), ensemble=2))


def test_without_a_test_split_the_intervals_are_not_scored(tmp_path: Path) -> None:
    """Its windows calibrated the members, so their coverage would be that of training data."""
    ended = command(tmp_path, *WORDS, "data.split={train: 0.8, validation: 0.2, test: 0}", multirun=False)
    assert (ended.code, ended.errors) == (0, [])
    (folder,) = (tmp_path / "sweeps").iterdir()
    result, member = read(folder / "ensemble.json"), read(folder / "seed-5" / "result.json")
    assert result["test"]["scaled"] == result["validation"]["scaled"]
    assert result["test"].get("intervals") is None
    assert member["test"]["intervals"]["coverage_80"] is not None
    printed = ended.out.getvalue()
    assert "test MSE" not in printed
    assert not re.search(r"\d test", printed)
    assert "--levels 80" in printed.split("Next: ")[-1]
