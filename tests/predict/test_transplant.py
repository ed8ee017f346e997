"""Forecasts of transplanted weights, `predict --attention`, and their errors."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import load
from forecast.predict.forecaster import Forecaster
from forecast.predict.transplanted import trained_attention, transplanted
from forecast.runs.run import Run
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import quick, rewrite

pytestmark = pytest.mark.usefixtures("signals_and_threads")

EVERY_QUERY = "probsparse:factor=50"
"""A factor large enough for all queries to be active."""


@pytest.fixture(autouse=True)
def data_folder(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the data file in the data folder, where run folders may name it."""
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tiny_run.source.parent))


def forecast(run: TinyRun, output: Path, *words: str) -> int:
    return predict(["--run", str(run.path), "--input", str(run.source), "--output", str(output), *words])


def test_replacing_attention_by_itself_gives_the_same_bytes(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(tiny_run, tmp_path / "trained.csv") == 0
    assert forecast(tiny_run, tmp_path / "full.csv", "--attention", "full") == 0
    assert (tmp_path / "trained.csv").read_bytes() == (tmp_path / "full.csv").read_bytes()
    out = capsys.readouterr().out
    assert f"attention: full instead of full, used to train {tiny_run.path}\n" in out


def test_the_description_says_which_attention_was_used(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert forecast(tiny_run, tmp_path / "trained.csv") == 0
    assert forecast(tiny_run, tmp_path / "mean.csv", "--attention", "mean") == 0
    trained, mean = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("trained", "mean"))
    assert [trained["models"][0]["attention"], mean["models"][0]["attention"]] == [None, "mean"]


def test_a_warning_on_validation_errors_is_of_the_attention_of_training(tiny_run: TinyRun) -> None:
    def warned(attention: str | None) -> bool:
        forecaster = Forecaster.load(tiny_run.path, attention)
        assert forecaster.facts is not None
        worse = replace(forecaster.facts, validation_mse={"model": 2.0, "linear": 1.0})
        texts = replace(forecaster, facts=worse).warnings(forecaster.read(tiny_run.source))
        return any("was better than the model on validation" in text for text in texts)

    assert warned(None)
    assert not warned("mean")


def test_probsparse_with_all_queries_active_forecasts_like_full(tiny_run: TinyRun) -> None:
    trained = load(tiny_run.path).predict(tiny_run.table)
    scale = trained.std()
    all_active = Forecaster.load(tiny_run.path, EVERY_QUERY).predict(tiny_run.table)
    assert float(((all_active - trained) / scale).abs().to_numpy().max()) < 1e-5
    mean = Forecaster.load(tiny_run.path, "mean").predict(tiny_run.table)
    assert float(((mean - trained) / scale).abs().to_numpy().max()) > 1e-5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--attention", "linformer"], "key_projection) that this run, trained with full, does not have"),
        (["--attention", "nothing"], "--attention nothing: 'nothing' does not exist: choose one of "),
        (["--attention", "full", "--model", "m.pt2"], "the attention of an exported file is fixed: give --run"),
    ],
)
def test_an_unsuitable_attention_is_one_line_and_nothing_is_written(
    words: list[str], message: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(tiny_run, tmp_path / "next.csv", *words) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
    assert not list(tmp_path.iterdir())


def test_the_trained_attention_is_named_with_its_arguments(tiny_run: TinyRun, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_run.path, tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["architecture"]["mechanisms"]["encoder"] = {"name": "probsparse", "factor": 9}
    rewrite(folder / "manifest.json", manifest)
    assert trained_attention(Run(folder)) == "probsparse factor=9 (decoder full)"


@pytest.mark.parametrize("share", [0.0, 0.5, None])
def test_predict_notes_when_another_attention_changes_nothing(
    share: float | None,
    tiny_run: TinyRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("forecast.model.informer.Informer.mixing_weight", share)
    assert forecast(tiny_run, tmp_path / "next.csv", "--attention", "mean") == 0
    assert ("the forecast does not change: it is the linear path alone" in capsys.readouterr().out) == (share == 0)


def test_weights_of_a_mechanism_fit_no_other_mechanism(tmp_path: Path) -> None:
    trained = ["attention=linformer", "model.linear_path=false", "training.max_steps=1"]
    run, _ = train(quick(tmp_path, *trained))
    with pytest.raises(InputError, match=r"^--attention full: does not have (en|de)coder\.layers\.0"):
        transplanted(run, "full")
    with pytest.raises(InputError, match="depends on the look-back and the arguments of the mechanism: keep both"):
        transplanted(run, "linformer:rank=2")
