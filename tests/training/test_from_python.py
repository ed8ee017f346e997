"""`forecast.fit`: training on a frame."""

import gc
import shlex
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch

import forecast
from forecast.common.files import sha256
from forecast.runs.run import WEIGHTS
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.panels import stores
from tests.support.small import compose, hourly

SMALL = {
    "model": {"d_model": 8, "d_ff": 16, "encoder_layers": 1, "num_heads": 2, "patch_length": 12},
    "training": {"max_steps": 3, "evaluation_stride": 12},
    "trainer": "smoke",
}


def frame() -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=400, freq="h")
    noise = np.random.default_rng(0).normal(0, 0.1, 400)
    return pd.DataFrame({"load": np.sin(np.arange(400) / 24 * 2 * np.pi) + noise}, index=index)


OPTIONS: dict[str, Any] = {"horizon": 12, "context_length": 48, "attention": "linear", "seed": 3, **SMALL}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> forecast.Forecaster:
    folder = tmp_path_factory.mktemp("fit") / "run"
    model = forecast.fit(frame(), folder=folder, **OPTIONS)
    assert isinstance(model, forecast.Forecaster)
    return model


def test_a_fitted_model_forecasts_and_knows_its_run(
    fitted: forecast.Forecaster, capsys: pytest.CaptureFixture[str]
) -> None:
    found = fitted.predict(frame())
    assert found.index[0] == frame().index[-1] + pd.Timedelta(hours=1)
    assert fitted.settings["attention"]["name"] == "linear"
    assert fitted.result["model"]["steps"] == 3
    assert fitted.path is not None
    pd.testing.assert_frame_equal(found, forecast.load(fitted.path).predict(frame()))
    assert capsys.readouterr().out == ""


def test_a_temporary_folder_goes_with_its_model_and_a_failed_training_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(forecast.InputError, match=r"^the frame has no column 'nope'"):
        forecast.fit(frame(), horizon=12, targets=["nope"])
    assert not list(tmp_path.iterdir())
    model = forecast.fit(frame(), horizon=12, context_length=48, attention="mean", **SMALL)
    assert [path.name for path in tmp_path.iterdir()] == [model.path.name if model.path else ""]
    del model
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "x"}, "attention='x': choose one of efficient, full"),
        ({"foo": 1}, "foo: no such option"),
        ({"training": {"bar": 1}}, "training.bar: no such option"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_trained(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(forecast.InputError, match=message):
        forecast.fit(frame(), horizon=12, folder=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(forecast.InputError, match="is not empty"):
        forecast.fit(frame(), folder=tmp_path)


def test_the_same_call_returns_the_finished_run_and_another_is_refused(fitted: forecast.Forecaster) -> None:
    same = forecast.fit(frame(), folder=fitted.path, **OPTIONS)
    assert sha256(same.path / WEIGHTS) == sha256(fitted.path / WEIGHTS)
    with pytest.raises(forecast.InputError, match="holds another run: seed is 3 there and 4 here: choose a new folder"):
        forecast.fit(frame(), folder=fitted.path, **{**OPTIONS, "seed": 4})
    with pytest.raises(forecast.InputError, match="holds a run on another table"):
        forecast.fit(frame()[1:], folder=fitted.path, **OPTIONS)
    assert (fitted.path / WEIGHTS).is_file()


def command_weights(model: forecast.Forecaster, folder: Path) -> str:
    """Return the hash of the weights that the recorded command trains with the seed of the model and no other."""
    words = [word for word in shlex.split(model.result["command"])[2:] if not word.startswith("ensemble=")]
    run, _ = train({**compose(*words), "seed": model.result["seed"], "output_dir": str(folder)})
    return sha256(run.path / WEIGHTS)


def test_the_recorded_command_trains_the_same_weights(fitted: forecast.Forecaster, tmp_path: Path) -> None:
    assert command_weights(fitted, tmp_path) == sha256(fitted.path / WEIGHTS)


LONG = {"training": {"max_steps": 3, "evaluation_windows": 20}, "id_columns": ["store"], "targets": ["sales"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "options"),
    [
        (hourly(), {"targets": ["load"], "known_covariates": ["air"], "past_covariates": ["oil"]}),
        (stores(), {**LONG, "known_covariates": ["promo", "kind"]}),
    ],
    ids=["known ahead", "long"],
)
def test_the_command_trains_the_same_weights_on_other_tables(
    table: pd.DataFrame, options: dict[str, Any], tmp_path: Path
) -> None:
    model = forecast.fit(table, folder=tmp_path / "run", **{**OPTIONS, **options})
    assert command_weights(model, tmp_path) == sha256(model.path / WEIGHTS)


@pytest.mark.slow
def test_an_ensemble_has_the_weights_of_the_commands_of_its_seeds_and_scores_their_mean(
    fitted: forecast.Forecaster, tmp_path: Path
) -> None:
    model = forecast.fit(frame(), folder=tmp_path / "run", ensemble=2, **OPTIONS)
    assert isinstance(model, forecast.Ensemble)
    assert sha256(tmp_path / "run" / "seed-3" / WEIGHTS) == sha256(fitted.path / WEIGHTS)
    assert model.result["seeds"] == [3, 4]
    other = forecast.load(tmp_path / "run" / "seed-4")
    assert command_weights(other, tmp_path / "command") == sha256(other.path / WEIGHTS)
    assert "mean of 2 models" in repr(model)
    again = forecast.load(model.save(tmp_path / "copy"))
    pd.testing.assert_frame_equal(again.predict(frame(), levels=[80]), model.predict(frame(), levels=[80]))
    assert again.settings["ensemble"] == 2


@pytest.mark.slow
def test_rows_of_validation_are_those_of_their_own_frame(tmp_path: Path) -> None:
    options = {key: value for key, value in OPTIONS.items() if key != "seed"}
    model = forecast.fit(frame()[:300], validation=frame()[300:], folder=tmp_path / "run", **options)
    assert model.settings["data"]["split"] == {"train": 300, "validation": 100, "test": 0}
    assert command_weights(model, tmp_path) == sha256(model.path / WEIGHTS)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (frame()[299:], {}, "validation begins at 2024-01-13 11:00:00, the frame ends at 2024-01-13 11:00:00"),
        (frame()[300:].rename(columns={"load": "x"}), {}, "validation has no column 'load'"),
        (frame()[300:], {"split": {"test": 0.0}}, "split: validation= splits the rows"),
    ],
)
def test_rows_of_validation_that_do_not_follow_are_refused(
    rows: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(forecast.InputError, match=message):
        forecast.fit(frame()[:300], 12, validation=rows, **options)


@pytest.mark.slow
def test_an_interrupted_training_leaves_python_as_it_was_and_the_same_call_continues_it(
    fitted: forecast.Forecaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, handler, step = torch.get_rng_state(), signal.getsignal(signal.SIGINT), ForecastTask.training_step

    def interrupted(task: ForecastTask, batch: Any, place: int) -> Any:
        if task.global_step == 2:
            raise KeyboardInterrupt
        return step(task, batch, place)

    with monkeypatch.context() as patch:
        patch.setattr(ForecastTask, "training_step", interrupted)
        with pytest.raises(KeyboardInterrupt, match="step 2 is saved: the same call continues it"):
            forecast.fit(frame(), folder=tmp_path / "run", **OPTIONS)
        with pytest.raises(KeyboardInterrupt, match="nothing is kept of a temporary folder: set folder="):
            forecast.fit(frame(), **OPTIONS)
    assert signal.getsignal(signal.SIGINT) is handler
    assert torch.equal(torch.get_rng_state(), state)
    model = forecast.fit(frame(), folder=tmp_path / "run", **OPTIONS)
    assert sha256(model.path / WEIGHTS) == sha256(fitted.path / WEIGHTS)


@pytest.mark.slow
def test_two_threads_train_the_same_weights_as_one(fitted: forecast.Forecaster) -> None:
    with ThreadPoolExecutor(2) as pool:
        models = list(pool.map(lambda _: forecast.fit(frame(), **OPTIONS), range(2)))
    assert {sha256(model.path / WEIGHTS) for model in models} == {sha256(fitted.path / WEIGHTS)}


def test_a_model_shows_its_table_and_is_saved(fitted: forecast.Forecaster, tmp_path: Path) -> None:
    assert "seasonal naive (24 h)" in repr(fitted)
    assert "Best step" in repr(fitted)
    assert "<td>seasonal naive (24 h)</td>" in fitted._repr_html_()
    assert "data:image/png;base64," in fitted._repr_html_()
    copy = forecast.load(fitted.save(tmp_path / "copy"))
    pd.testing.assert_frame_equal(copy.predict(frame()), fitted.predict(frame()))
    with pytest.raises(forecast.InputError, match="copy: is not empty: choose a new folder"):
        fitted.save(tmp_path / "copy")


def test_a_table_of_arrow_is_forecast_like_a_frame(fitted: forecast.Forecaster) -> None:
    table = pyarrow.Table.from_pandas(frame().rename_axis("date").reset_index(), preserve_index=False)
    pd.testing.assert_frame_equal(fitted.predict(table), fitted.predict(frame()))


def test_a_column_of_several_types_is_refused() -> None:
    mixed = frame().astype(object)
    mixed.iloc[3, 0] = "broken"
    with pytest.raises(forecast.InputError, match="a column has values of several types"):
        forecast.fit(mixed, 12)
