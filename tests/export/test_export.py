import json
import re
import shutil
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.data.known import KnownEncoder
from forecast.export.__main__ import main as export
from forecast.export.parity import random_series, series_of, windows_of, windows_of_panel
from forecast.predict import exported as extra
from forecast.predict.__main__ import main as predict
from forecast.predict.exported import sealed
from forecast.predict.forecaster import Forecaster
from forecast.predict.panel import PanelForecaster
from forecast.runs.run import Run
from forecast.tables.repair import Policies
from forecast.tables.times.clock import Clock
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.contracts import with_contract
from tests.support.forecasts import dated
from tests.support.panels import stores
from tests.support.small import CONTEXT, HORIZON, ROOT, quick, rewrite, snapshot, write

pytestmark = pytest.mark.usefixtures("graph_once")


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module", params=[".pt2", ".onnx"])
def model(
    request: pytest.FixtureRequest, tiny_run: TinyRun, graph_once: None, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Export the tiny run in each format."""
    if request.param == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("exported") / f"model{request.param}"
    assert export(["--run", str(tiny_run.path), "--output", str(path)]) == 0
    return path


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


# --- the file


@pytest.mark.slow
def test_an_exported_file_forecasts_like_its_run(model: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.copy(model, tmp_path)
    words = ["--input", str(tiny_run.source), "--output"]
    assert predict(["--model", str(tmp_path / model.name), *words, str(tmp_path / "file.csv")]) == 0
    assert predict(["--run", str(tiny_run.path), *words, str(tmp_path / "run.csv")]) == 0
    actual, expected = (dated(tmp_path / name) for name in ("file.csv", "run.csv"))
    assert actual.index.equals(expected.index)
    scale = Forecaster.load(tiny_run.path).scaler.scale[:2]
    assert np.abs((actual - expected) / scale).max(axis=None) < 1e-4
    assert (tmp_path / "file.png").is_file()


@pytest.mark.slow
def test_a_file_is_loaded_in_python_like_a_run(model: Path, tiny_run: TinyRun) -> None:
    there, here = (forecast.load(path).predict(tiny_run.table) for path in (model, tiny_run.path))
    pd.testing.assert_frame_equal(there, here, rtol=1e-6)


@pytest.mark.slow
def test_a_file_is_accepted_with_its_run_and_refused_with_another(
    model: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", str(model), "--input", str(tiny_run.source), "--output", str(tmp_path / "next.csv")]
    assert predict([*words, "--run", str(tiny_run.path)]) == 0
    other, _ = train(quick(tmp_path / "outputs", "training.max_steps=1"))
    capsys.readouterr()
    before = snapshot(tmp_path)
    assert predict([*words, "--run", str(other.path)]) == 2
    assert "--model was not exported from --run" in one_line(capsys)
    assert snapshot(tmp_path) == before


@pytest.mark.slow
def test_the_command_prints_the_difference_and_the_windows(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(tiny_run.path)
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source)]
    assert export([*words, "--output", str(tmp_path / "model.pt2")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "any batch size, float64 values in original units" in first
    assert second.endswith(f"(bound 1e-04) over 32 windows of {tiny_run.source}")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]
    assert snapshot(tiny_run.path) == before


def test_no_row_of_the_data_is_in_the_file(model: Path, tiny_run: TinyRun) -> None:
    content = model.read_bytes()  # neither format compresses its content
    scale = Forecaster.load(tiny_run.path).scaler.scale
    if model.suffix == ".pt2":
        assert scale.tobytes() in content
    for kind in (np.float64, np.float32):
        assert not any(value.tobytes() in content for value in tiny_run.table["load"].to_numpy().astype(kind))


@pytest.mark.slow
def test_a_run_that_masks_gaps_is_exported_with_past_observed(tmp_path: Path, tiny_run: TinyRun) -> None:
    table = tiny_run.table.drop(index=[*range(100, 110), *range(660, 664)])
    table.loc[690, "oil"] = np.nan
    source = write(tmp_path / "hours.csv", table)
    words = ["data=csv", f"data.path={source}", "data.missing=mask", "model.linear_path=zero"]
    words += ["model.encoder_layers=1", "training.max_steps=2"]  # a layer takes seconds to capture
    run, _ = train(quick(tmp_path / "outputs", *words))
    assert export(["--run", str(run.path), "--output", str(tmp_path / "model.pt2")]) == 0
    there, here = (forecast.load(path).predict(table) for path in (tmp_path / "model.pt2", run.path))
    pd.testing.assert_frame_equal(there, here, rtol=1e-6)


@pytest.mark.slow
def test_the_file_of_a_panel_forecasts_like_its_run(
    panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = stores().assign(region=lambda rows: np.where(rows["store"] % 2 == 0, "north", "south"))
    source, path = write(tmp_path / "stores.csv", table), tmp_path / "model.pt2"
    words = [*panel_run.words, f"data.path={source}", "data.id_embedding=true", "loss=quantile"]
    run, _ = train(quick(tmp_path / "outputs", *words, "training.max_steps=2", "model.encoder_layers=1"))
    capsys.readouterr()
    assert export(["--run", str(run.path), "--input", str(source), "--output", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "any batch size, float32 z-scores of each series" in first
    assert second.endswith(f"(bound 1e-04) over 20 windows of {source}")
    there, here = forecast.load(path), forecast.load(run.path)
    assert isinstance(there, PanelForecaster)
    pd.testing.assert_frame_equal(there.predict(table, levels=[80]), here.predict(table, levels=[80]), rtol=1e-5)
    new = table[table["store"] == 4].assign(store=11)
    with pytest.warns(UserWarning, match="1 of 1 series were not in training"):
        pd.testing.assert_frame_equal(there.predict(new), here.predict(new), rtol=1e-5)
    output = tmp_path / "next.csv"
    words = ["--model", str(path), "--run", str(run.path), "--input", str(source), "--output", str(output)]
    assert predict([*words, "--levels", "80", "--adaptive"]) == 0
    assert len(pd.read_csv(output)) == 10 * HORIZON


# --- comparison


def test_the_windows_of_a_panel_are_the_first_and_the_last_of_its_series(panel_run: TinyRun) -> None:
    model = PanelForecaster.load(panel_run.path)
    windows = windows_of_panel(model.checked(stores(), "the frame"), model, 6)
    past, observed = windows.past[..., 0], windows.past_observed
    assert observed is not None
    assert observed.sum((1, 2)).tolist() == [model.least_context] * 3 + [CONTEXT] * 3
    for place, store in enumerate((1, 5, 10)):
        sales = stores(future=False).query("store == @store")["sales"].to_numpy()
        code = model.scales.names.index((str(store),))
        scaled = (sales - model.scales.mean[code]) / model.scales.scale[code]
        np.testing.assert_allclose(past[place, -model.least_context :], scaled[: model.least_context], rtol=1e-5)
        np.testing.assert_allclose(past[3 + place], scaled[-HORIZON - CONTEXT : -HORIZON], rtol=1e-5)


def test_series_that_are_too_short_to_forecast_are_not_compared(panel_run: TinyRun, tmp_path: Path) -> None:
    table, model = stores(), PanelForecaster.load(panel_run.path)
    short = table[table["store"] == 4].head(3).assign(store=11)
    empty = table[table["store"] == 4].assign(store=12, sales=np.nan)
    source = write(tmp_path / "stores.csv", pd.concat([table, short, empty]))
    series, _ = series_of(Run.open(panel_run.path), model, source)
    pd.testing.assert_frame_equal(series.frame, model.checked(table, "the frame").frame)


def test_a_panel_whose_file_is_elsewhere_is_refused(
    panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(panel_run.path), "--output", str(tmp_path / "model.pt2")]
    assert export(words) == 2
    error = one_line(capsys)
    assert error.startswith("error: no rows of many series to compare on: the file of ")
    assert error.endswith("is not in data/ or FORECAST_DATA_DIR: use --input to compare on it\n")
    short = write(tmp_path / "short.csv", stores().groupby("store").head(HORIZON + 5))
    assert export([*words, "--input", str(short)]) == 2
    assert "a comparison needs a series of 24 rows, the longest has 17: give more rows" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["short.csv"]


def test_windows_are_evenly_spaced_and_include_the_last(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tiny_run.source.parent))
    forecaster = Forecaster.load(tiny_run.path)
    series, origin = series_of(Run.open(tiny_run.path), forecaster, None)
    assert origin == str(tiny_run.source)
    context = windows_of(series, forecaster, 5)
    values = tiny_run.table[["load", "oil", "air"]].to_numpy()
    assert context.past.shape == (5, CONTEXT, 3)
    np.testing.assert_array_equal(context.past[0], values[:CONTEXT])
    np.testing.assert_array_equal(context.past[-1], values[-CONTEXT:])
    assert context.future_known.shape[:2] == (5, HORIZON)
    np.testing.assert_array_equal(context.future_known[0], forecaster.context(series, CONTEXT)[0].future_known[0])


def test_a_run_whose_file_is_missing_is_compared_on_random_rows(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run.path, tmp_path / "run"))
    result = json.loads((run / "result.json").read_text())
    result["data"]["path"] = str(tmp_path / "gone.csv")
    rewrite(run / "result.json", result)
    forecaster = Forecaster.load(run)
    series, origin = series_of(Run.open(run), forecaster, None)
    assert origin.startswith("random rows")
    scaler = forecaster.contract.scaler
    np.testing.assert_allclose(series.frame.mean(), scaler.mean, atol=3 * scaler.scale.max() / 17)
    pd.testing.assert_frame_equal(series.frame, random_series(forecaster).frame)


def test_a_file_that_only_the_folder_names_elsewhere_is_not_read(tiny_run: TinyRun) -> None:
    series, origin = series_of(Run.open(tiny_run.path), Forecaster.load(tiny_run.path), None)
    assert "use --input" in origin
    assert not series.frame["load"].isin(tiny_run.table["load"]).any()


@pytest.mark.parametrize("frequency", ["YS-JAN", "5YE-JUN", "QS-OCT", "52W-TUE", "W-SUN", "h"])
def test_random_rows_of_long_steps_stay_within_valid_dates(tiny_run: TinyRun, frequency: str) -> None:
    forecaster = with_contract(
        Forecaster.load(tiny_run.path), frequency=frequency, cycles=[], clock=Clock(None, frequency)
    )
    series = random_series(forecaster)
    assert len(series.frame) >= forecaster.context_length
    context, dates = forecaster.context(series)
    assert len(dates) == HORIZON
    assert context.past.shape[1] == CONTEXT


def test_random_rows_have_gaps_in_the_channels_alone(tiny_run: TinyRun) -> None:
    forecaster = Forecaster.load(tiny_run.path)
    encoder = KnownEncoder(["wind"], [0.0], [1.0])
    masked = with_contract(forecaster, policies=Policies("error", "mask"), encoder=encoder)
    series = random_series(masked)
    observed = series.observed_of([*masked.channels, "wind"])
    assert observed is not None
    shares = np.asarray(observed).mean(0)
    assert (shares[:-1] < 0.97).all()
    assert shares[-1] == 1


@pytest.mark.parametrize(("zone", "frequency"), [("UTC", "h"), ("Europe/Berlin", "h"), ("Europe/Berlin", "D")])
def test_random_rows_are_in_the_zone_of_training(tiny_run: TinyRun, zone: str, frequency: str) -> None:
    clock = Clock(zone, frequency)
    forecaster = with_contract(Forecaster.load(tiny_run.path), frequency=frequency, cycles=[], clock=clock)
    index = pd.DatetimeIndex(random_series(forecaster).frame.index)
    clock.check(index, "the random rows")
    assert index.is_unique


def test_a_simulated_run_is_compared_on_the_simulation(tmp_path: Path) -> None:
    run, _ = train(quick(tmp_path / "outputs", "training.max_steps=1"))
    series, origin = series_of(run, Forecaster.load(run.path), None)
    assert (origin, len(series.frame)) == ("the simulation", 700)


# --- errors


@pytest.mark.slow
def test_a_file_with_other_forecasts_is_not_written(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forecast.export.parity.BOUND", -1.0)
    (tmp_path / "model.pt2").write_text("mine")
    assert export(["--run", str(tiny_run.path), "--output", str(tmp_path / "model.pt2")]) == 1
    assert "not written, its forecasts differ from" in one_line(capsys)
    assert (tmp_path / "model.pt2").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output", "model.pt"], "--output must end in .onnx or .pt2"),
        (["--output", "none/model.pt2"], "no such folder"),
        (["--output", "folder.pt2"], "is a folder"),
        (["--output", "model.pt2", "--run", "none"], "none: no such folder"),
        (["--output", "model.pt2", "--input", "none.csv"], "none.csv"),
    ],
)
def test_an_invalid_export_is_one_line(
    words: list[str], message: str, tiny_run: TinyRun, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.pt2").mkdir()
    assert export(["--run", str(tiny_run.path), *words]) == 2
    assert message in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.pt2"]


@pytest.mark.parametrize("tool", ["export", "predict"])
def test_onnx_without_its_packages_names_the_extra(
    tool: str, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda _: None)
    path = tmp_path / "model.onnx"
    if tool == "export":
        assert export(["--run", str(tiny_run.path), "--output", str(path)]) == 2
    else:
        path.write_bytes(b"something")
        assert (
            predict(["--model", str(path), "--input", str(tiny_run.source), "--output", str(tmp_path / "f.csv")]) == 2
        )
    line = one_line(capsys)
    assert "is not installed" in line
    assert 'pip install -e ".[export]"' in line


def without_facts(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"no")
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize("kind", ["empty", "noise", "zip", "absent"])
def test_an_invalid_file_is_one_line(
    kind: str, suffix: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    path = tmp_path / f"model{suffix}"
    if kind != "absent":
        path.write_bytes({"empty": b"", "noise": b"\xff" * 1000, "zip": without_facts(tmp_path / "zip")}[kind])
    assert predict(["--model", str(path), "--input", str(tiny_run.source), "--output", str(tmp_path / "f.csv")]) == 2
    assert str(path) in one_line(capsys)
    assert not (tmp_path / "f.csv").exists()


def test_an_onnx_model_from_elsewhere_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    kind = onnx.TensorProto.DOUBLE
    ends = [onnx.helper.make_tensor_value_info(name, kind, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "other", ends[:1], ends[1:])
    path = tmp_path / "other.onnx"
    opset = onnx.helper.make_opsetid("", 18)
    content = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString()
    flaws = ((content, "its digest does not match"), (sealed(content, ".onnx"), "not a model written by"))
    for written, message in flaws:
        path.write_bytes(written)
        with pytest.raises(InputError, match=message):
            forecast.load(path)


def test_a_model_with_another_suffix_is_refused(tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(["--model", str(tiny_run.source), "--input", str(tiny_run.source)]) == 2
    assert "--model takes a file written by forecast.export, .onnx or .pt2" in one_line(capsys)


# --- what the documentation shows


@pytest.mark.slow
def test_the_commands_of_the_documentation_export_and_forecast(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = (ROOT / "docs" / "how-to" / "export.md").read_text(encoding="utf-8").partition("\n## ")[0]
    commands = re.findall(r"^python -m forecast\.(\w+) (.*)$", section, re.MULTILINE)
    assert [tool for tool, _ in commands] == ["export", "predict"]
    shutil.copytree(tiny_run.path, tmp_path / "outputs" / "csv" / "run")
    shutil.copy(tiny_run.source, tmp_path / "my.csv")
    monkeypatch.chdir(tmp_path)
    for tool, words in commands:
        assert {"export": export, "predict": predict}[tool](words.split()) == 0
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == HORIZON


def test_no_flipped_byte_of_a_file_is_run(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither format has a checksum of the weights that its reader verifies."""
    whole = model.read_bytes()
    copy = tmp_path / model.name
    runs = {".pt2": "torch.export.load", ".onnx": "onnxruntime.InferenceSession"}[model.suffix]
    monkeypatch.setattr(runs, lambda *_, **__: pytest.fail("it was run"))
    for place in [*np.random.default_rng(0).integers(len(whole), size=60), len(whole) - 1]:
        raw = bytearray(whole)
        raw[place] ^= 1 << int(place % 8)
        copy.write_bytes(bytes(raw))
        with pytest.raises(InputError, match=rf"{model.name}: damaged, or .*its digest does not match"):
            forecast.load(copy)
    for length in (len(whole) - 1, len(whole) // 2, 63, 0):
        copy.write_bytes(whole[:length])
        with pytest.raises(InputError, match="its digest does not match"):
            forecast.load(copy)
