"""`forecast.fit`: training on a frame."""

import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

import forecast
from forecast.common.files import sha256
from forecast.runs.run import WEIGHTS
from forecast.training.from_python import TABLE, as_frame
from forecast.training.train import train
from tests.support.small import compose

SMALL = {
    "model": {"d_model": 8, "d_ff": 16, "encoder_layers": 1, "num_heads": 2, "patch_length": 12},
    "training": {"max_steps": 3, "evaluation_stride": 12},
    "trainer": "smoke",
}


def frame() -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=400, freq="h")
    noise = np.random.default_rng(0).normal(0, 0.1, 400)
    return pd.DataFrame({"load": np.sin(np.arange(400) / 24 * 2 * np.pi) + noise}, index=index)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> forecast.Forecaster:
    folder = tmp_path_factory.mktemp("fit") / "run"
    model = forecast.fit(frame(), horizon=12, context_length=48, attention="linear", seed=3, folder=folder, **SMALL)
    assert isinstance(model, forecast.Forecaster)
    return model


def test_the_command_trains_the_same_weights_on_the_same_table(fitted: forecast.Forecaster, tmp_path: Path) -> None:
    assert fitted.path is not None
    words = ["data=csv", f"data.path={fitted.path / TABLE}", "attention=linear", "trainer=smoke", "seed=3"]
    words += ["horizon=12", "context_length=48", "training.progress=false", f"output_dir={tmp_path}"]
    words += [f"{group}.{key}={value}" for group in ("model", "training") for key, value in SMALL[group].items()]  # type: ignore[attr-defined]
    run, _ = train(compose(*words))
    assert sha256(run.path / WEIGHTS) == sha256(fitted.path / WEIGHTS)


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
        ({"foo": 1}, "foo: is not an option of a training"),
        ({"training": {"bar": 1}}, "training.bar: no such option"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_trained(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(forecast.InputError, match=message):
        forecast.fit(frame(), horizon=12, folder=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_tables_of_arrow_and_frames_of_pandas_are_the_same_table(tmp_path: Path) -> None:
    own = as_frame(frame())
    pd.testing.assert_frame_equal(as_frame(pyarrow.Table.from_pandas(own, preserve_index=False)), own, check_freq=False)
    assert list(own.columns) == ["date", "load"]
    with pytest.raises(forecast.InputError, match="fit takes a table"):
        as_frame([1, 2])
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(forecast.InputError, match="is not empty"):
        forecast.fit(frame(), folder=tmp_path)
