import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from forecast.common.errors import InputError
from forecast.data.known import KnownEncoder
from forecast.data.scaler import Scaler
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import ALIKE, Ensemble, load
from forecast.predict.ensemble_scores import score_ensemble
from forecast.predict.forecaster import Forecaster
from forecast.runs.run import Run
from forecast.tables.repair import Policies
from forecast.tables.times.buckets import Resampling
from tests.conftest import TinyRun
from tests.support.contracts import with_contract
from tests.support.forecasts import dated
from tests.support.small import rewrite

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def words(output: Path, source: Path, *runs: Path) -> list[str]:
    options = [word for run in runs for word in ("--run", str(run))]
    return [*options, "--input", str(source), "--output", str(output)]


def test_the_forecast_of_several_runs_is_their_mean(
    tiny_run: TinyRun, second_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(words(tmp_path / "next.csv", tiny_run.source, tiny_run.path, second_run)) == 0
    assert ", ensemble mean of 2 runs; picture: " in capsys.readouterr().out
    first, second = (load(run).predict(tiny_run.table) for run in (tiny_run.path, second_run))
    assert float((first - second).abs().to_numpy().max()) > 1e-3
    actual = dated(tmp_path / "next.csv")
    mean = ((first + second) / 2).round(load(tiny_run.path).decimals)
    np.testing.assert_allclose(actual.to_numpy(), mean.to_numpy(), rtol=1e-12)
    assert list(actual.index) == list(first.index)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next.csv", "next.json", "next.png"]


def test_the_forecast_of_one_run_is_not_called_an_ensemble(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(words(tmp_path / "next.csv", tiny_run.source, tiny_run.path)) == 0
    assert "ensemble" not in capsys.readouterr().out


def other_time(manifest: dict[str, Any]) -> None:
    manifest["data"]["time_column"] = "when"


def other_level(manifest: dict[str, Any]) -> None:
    manifest["scaler"]["mean"][0] += 1


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (other_time, "time column when, not date"),
        (other_level, "its training split has another mean or standard deviation"),
    ],
)
def test_runs_of_other_data_are_refused_in_one_line(
    change: Callable[[dict[str, Any]], None],
    difference: str,
    tiny_run: TinyRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_run.path, other)
    manifest = json.loads((other / "manifest.json").read_text())
    change(manifest)
    rewrite(other / "manifest.json", manifest)
    assert predict(words(tmp_path / "next.csv", tiny_run.source, tiny_run.path, other)) == 2
    line = f"error: {other}: cannot be averaged with {tiny_run.path}: {difference}: give runs of the same data"
    assert capsys.readouterr().err.startswith(line)
    assert not (tmp_path / "next.csv").exists()


SCALING = "its training split has another mean or standard deviation"

DIFFERENCES: dict[str, tuple[Any, str]] = {
    "horizon": (24, "horizon 24, not 12"),
    "targets": (["oil", "load"], "targets ['oil', 'load'], not ['load', 'oil']"),
    "past_covariates": ([], "past covariates [], not ['air']"),
    "known_covariates": (["wind"], "known covariates ['wind'], not []"),
    "time_column": ("when", "time column when, not date"),
    "frequency": ("2h", "frequency 2h, not h"),
    "policies": (Policies(missing="ffill"), "policies {'duplicates': 'error', 'missing': 'ffill'}, not {"),
    "encoder": (KnownEncoder(["wind"], [0.0], [1.0]), "its known covariates have other labels or another scale"),
    "resampling": (Resampling("1h", {"load": "sum"}), "its rows were put into other steps"),
    "whole": (["load"], "its forecasts are rounded to whole numbers otherwise"),
    "scaler": (lambda scaler: Scaler(scaler.mean, 2 * scaler.scale, scaler.columns), SCALING),
}
"""Another value of each property that must be equal, or a function that returns it, and the words of the error."""


@pytest.mark.parametrize("name", DIFFERENCES)
def test_runs_that_differ_in_one_property_are_refused(
    name: str, tiny_run: TinyRun, second_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Forecaster.load(tiny_run.path)
    value, difference = DIFFERENCES[name]
    field = {"past_covariates": "past", "known_covariates": "known"}.get(name, name)
    other = with_contract(first, **{field: value(getattr(first.contract, name)) if callable(value) else value})
    monkeypatch.setattr(Forecaster, "load", lambda path: first if path == tiny_run.path else other)
    with pytest.raises(InputError) as error:
        Ensemble.load([tiny_run.path, second_run])
    assert str(error.value).startswith(f"{second_run}: cannot be averaged with {tiny_run.path}: {difference}")


def test_each_property_that_must_be_equal_has_a_case() -> None:
    assert {*ALIKE} <= DIFFERENCES.keys()


def test_a_run_given_twice_and_a_model_with_several_runs_are_refused(
    tiny_run: TinyRun, second_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tiny_run.path / ".." / tiny_run.path.name
    assert predict(words(tmp_path / "next.csv", tiny_run.source, tiny_run.path, second_run, again)) == 2
    assert "given twice" in capsys.readouterr().err
    both = words(tmp_path / "next.csv", tiny_run.source, tiny_run.path, second_run)
    assert predict([*both, "--model", "model.pt2"]) == 2
    assert "error: --model model.pt2: belongs to one run" in capsys.readouterr().err


@dataclass
class Reader:
    """Fake forecaster that reads a file of `rows` rows."""

    context_length: int
    rows: int = 100

    def read(self, path: str, known: Sequence[str] = ()) -> str:
        if self.rows < self.context_length:
            raise InputError(f"{path}: too short")
        return f"{path} for {self.context_length}"


def test_every_member_checks_the_file_and_the_longest_look_back_is_returned() -> None:
    members = [Reader(10), Reader(60), Reader(20)]
    assert cast(Any, Ensemble(cast(list[Forecaster], members)).read("file")) == "file for 60"
    with pytest.raises(InputError, match="too short"):
        Ensemble(cast(list[Forecaster], [*members, Reader(30, rows=20)])).read("file")


def test_load_returns_a_forecaster_or_an_ensemble(tiny_run: TinyRun, second_run: Path) -> None:
    one, both = load(tiny_run.path), load(tiny_run.path, second_run)
    assert isinstance(one, Forecaster)
    assert isinstance(both, Ensemble)
    mean = (one.predict(tiny_run.table) + load(second_run).predict(tiny_run.table)) / 2
    np.testing.assert_allclose(both.predict(tiny_run.table), mean)


def test_seeds_that_began_with_other_weights_are_not_scored_as_one_ensemble(
    tiny_run: TinyRun, second_run: Path, tmp_path: Path
) -> None:
    runs = []
    for source, digest in ((tiny_run.path, "ab" * 32), (second_run, "cd" * 32)):
        folder = shutil.copytree(source, tmp_path / digest)
        start = {"kind": "run", "run": "outputs/a", "weights": digest, "pretrained_on": None}
        result = json.loads((folder / "result.json").read_text())
        rewrite(folder / "result.json", {**result, "start_from": start})
        runs.append(Run(folder))
    with pytest.raises(
        InputError, match=r"in more than the seed: start_from\.weights is cdcdcdcd there and abababab here"
    ):
        score_ensemble(runs, cast(Any, None))
