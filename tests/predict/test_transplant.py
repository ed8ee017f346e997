"""Transplanted weights: forecasts, scores and errors."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecast.common.files import read_json
from forecast.predict.__main__ import main as predict
from forecast.predict.forecaster import Forecaster
from forecast.predict.load import load
from forecast.predict.transplant import main as transplant
from forecast.predict.transplanted import Scored, table_of, trained_attention
from forecast.runs.run import Run
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, quick, rewrite

pytestmark = pytest.mark.usefixtures("signals_and_threads")

EVERY_QUERY = "probsparse:factor=50"
"""A factor large enough for all queries to be active."""


@pytest.fixture(autouse=True)
def data_folder(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the data file in the data folder, where run folders may name it."""
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tiny_run.source.parent))


@pytest.fixture(scope="module")
def pointwise(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the paper's model on the same data; its weights do not depend on the look-back."""
    folder = tmp_path_factory.mktemp("pointwise")
    data = ["data=csv", f"data.path={tiny_run.source}", "data.past_covariates=[air]"]
    run, _ = train(quick(folder, *data, "training.max_steps=2", model="informer"))
    return run.path


def forecast(run: TinyRun, output: Path, *words: str) -> int:
    return predict(["--run", str(run.path), "--input", str(run.source), "--output", str(output), *words])


def rows_of(path: Path) -> list[dict[str, object]]:
    rows = read_json(path)["scored"]
    assert isinstance(rows, list)
    return rows


# --- forecasts


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


def test_the_table_names_the_split_that_is_scored(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(tiny_run.path, tmp_path / "copied"))
    result = read_json(copied / "result.json")
    for split in ("test", "validation"):
        rewrite(copied / "result.json", {**result, "data": {**result["data"], "scored_split": split}})
        assert transplant(["--run", str(copied), "--attention", "mean", "--quiet"]) == 0
        assert f"on z-scores, over all {split} windows" in " ".join(capsys.readouterr().out.split())


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


# --- scores


def test_the_run_as_trained_is_scored_first_and_matches_its_result(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(tiny_run.path), "--attention", "full", EVERY_QUERY, "mean"]
    assert transplant([*words, "--output", str(tmp_path / "scores.json")]) == 0
    trained, full, all_active, mean = rows_of(tmp_path / "scores.json")
    assert set(trained) == {"attention", "context_length", "test", "windows", "seconds_per_window", "trained", "share"}
    assert [row["trained"] for row in (trained, full, all_active, mean)] == [True, False, False, False]
    assert (all_active["attention"], all_active["context_length"]) == ("probsparse factor=50", CONTEXT)
    assert trained["test"] == pytest.approx(tiny_run.result["test"]["scaled"], rel=1e-6)
    assert trained["windows"] == tiny_run.result["data"]["windows"]["test"]
    assert full["test"] == trained["test"]
    assert all_active["test"] == pytest.approx(trained["test"], rel=1e-5)
    assert mean["test"] != pytest.approx(trained["test"], rel=1e-5)
    printed = capsys.readouterr().out
    assert "full (trained)" in printed
    assert trained["share"] == tiny_run.result["model"]["share"]
    assert not (tiny_run.path / "transplant.json").exists()


def test_a_mixing_weight_of_0_is_noted() -> None:
    scored = Scored("full", 96, {"mse": 0.4, "mae": 0.5}, 9, 0.1, True, 0.0)
    assert "the mixing weight of the encoder-decoder is 0" in table_of(Run(Path("run")), [scored]).notes[-1]
    assert "is 30% of the forecast" in table_of(Run(Path("run")), [replace(scored, share=0.3)]).notes[-1]
    assert len(table_of(Run(Path("run")), [replace(scored, share=None)]).notes) == 1


def test_the_trained_attention_is_named_with_its_arguments(tiny_run: TinyRun, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_run.path, tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["architecture"]["mechanisms"]["encoder"] = {"name": "probsparse", "factor": 9}
    rewrite(folder / "manifest.json", manifest)
    assert trained_attention(Run(folder)) == "probsparse factor=9 (decoder full)"


def test_a_pointwise_run_is_scored_at_other_look_backs_on_the_same_windows(pointwise: Path, tmp_path: Path) -> None:
    run = shutil.copytree(pointwise, tmp_path / "run")
    words = ["--run", str(run), "--attention", "linear", "--context-length", "96", "24", str(CONTEXT)]
    assert transplant(words) == 0
    rows = rows_of(run / "transplant.json")
    combinations = [(row["attention"], row["context_length"]) for row in rows]
    assert combinations == [(name, length) for length in (CONTEXT, 96, 24) for name in ("full", "linear")]
    assert len({row["windows"] for row in rows}) == 1
    assert len({json.dumps(row["test"]) for row in rows}) == len(rows)
    assert all(np.isfinite(list(row["test"].values())).all() for row in rows)  # type: ignore[attr-defined]
    Run(run).clear()
    assert not (run / "transplant.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--attention, --context-length: give at least one of them"),
        (["--context-length", "96"], "only a run with model.linear_path=false accepts another look-back"),
        (["--attention", "mean", "linformer"], "key_projection) that this run, trained with full, does not have"),
        (["--context-length", "6"], "1 <= stride <= patch_length <= context_length must hold"),
        (["--context-length", "9000"], "context_length 9000 + horizon 12: the train split needs at least 9012 rows"),
        (["--attention", "mean", "--output", "{folder}/none/t.json"], "{folder}/none: no such folder: create it"),
    ],
)
def test_an_invalid_request_is_one_line_and_nothing_is_written(
    words: list[str], message: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transplant(["--run", str(tiny_run.path), *(word.format(folder=tmp_path) for word in words)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message.format(folder=tmp_path) in error
    assert not (tiny_run.path / "transplant.json").exists()


def test_a_causal_decoder_refuses_attention_that_cannot_be_causal(
    pointwise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transplant(["--run", str(pointwise), "--attention", "linformer"]) == 2
    assert "attention=linformer cannot be causal" in capsys.readouterr().err


@pytest.mark.parametrize(("gone", "message"), [(True, "does not exist: put it back"), (False, "its sha256 differs")])
def test_other_data_are_refused(
    gone: bool,
    message: str,
    tiny_run: TinyRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tmp_path))
    run, source = tmp_path / "run", tmp_path / "hours.csv"
    shutil.copytree(tiny_run.path, run)
    if not gone:
        source.write_text(tiny_run.source.read_text().replace("2016", "2017"))
    result = json.loads((run / "result.json").read_text())
    result["data"]["path"] = str(source)
    rewrite(run / "result.json", result)
    assert transplant(["--run", str(run), "--attention", "mean"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_file_that_only_the_folder_names_elsewhere_is_given_by_the_user(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR")
    words = ["--run", str(tiny_run.path), "--attention", "mean", "--output", str(tmp_path / "scores.json")]
    assert transplant(words) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert f"python -m forecast.predict.transplant --run {tiny_run.path} --data {tiny_run.source} …" in error
    assert not any(tmp_path.iterdir())
    assert transplant([*words, "--data", str(tiny_run.source)]) == 0


def test_weights_of_a_mechanism_fit_no_other_mechanism_or_look_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = ["attention=linformer", "model.linear_path=false", "training.max_steps=1"]
    run, _ = train(quick(tmp_path, *trained))
    capsys.readouterr()
    assert transplant(["--run", str(run.path), "--attention", "full"]) == 2
    assert "--attention full: does not have decoder.layers.0" in capsys.readouterr().err
    assert transplant(["--run", str(run.path), "--context-length", "24"]) == 2
    assert "this weight depends on the look-back and the arguments of the mechanism" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["time_zone", "duplicates", "missing"])
def test_a_run_with_an_incomplete_manifest_is_refused_with_the_cure(
    key: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(tiny_run.path, tmp_path / "run"))
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["data"][key]
    rewrite(run / "manifest.json", manifest)
    assert transplant(["--run", str(run), "--attention", "mean"]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "train it again" in error


def test_a_manifest_without_its_model_is_one_line(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(tiny_run.path, tmp_path / "run"))
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["architecture"]
    rewrite(run / "manifest.json", manifest)
    assert transplant(["--run", str(run), "--attention", "mean"]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "damaged" in error


@pytest.mark.parametrize("share", [0.0, 0.5, None])
def test_predict_notes_when_another_attention_changes_nothing(
    share: float | None,
    tiny_run: TinyRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("forecast.model.informer.Informer.share", share)
    assert forecast(tiny_run, tmp_path / "next.csv", "--attention", "mean") == 0
    assert ("the forecast does not change: it is the linear path alone" in capsys.readouterr().out) == (share == 0)


def test_another_version_of_the_package_of_holidays_is_named(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its holidays may differ, and the scores with them."""
    words = ["data=csv", f"data.path={tiny_run.source}", "data.holidays=DE", "training.max_steps=1"]
    run, _ = train(quick(tmp_path, *words))
    holidays = pytest.importorskip("holidays")
    trained = holidays.__version__
    monkeypatch.setattr(holidays, "__version__", "0.1")
    assert transplant(["--run", str(run.path), "--attention", "linear"]) == 2
    assert f"version {trained} of the package holidays, here is 0.1: install that version" in capsys.readouterr().err
