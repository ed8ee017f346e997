"""The same values ahead give the same forecast, however they are given and wherever the model is loaded."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.export.__main__ import main as export
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import Ensemble
from tests.support.forecasts import dated, edit
from tests.support.kept import kept_run
from tests.support.known import (
    DATES,
    KNOWN,
    TARGETS,
    extended,
    future,
    one_error,
    past,
    save,
    train_known,
    whole,
)

pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.fixture(scope="module", params=["patch_informer", "informer"])
def pair(request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Return two runs of a preset that differ in the seed; the encoder-decoder has a share in the forecast."""
    own = ["model.linear_path=zero", "model.encoder_layers=1"]  # a layer takes seconds to export
    words = ["optimizer.lr=0.01", *(own if request.param == "patch_informer" else [])]
    first, second = (
        kept_run(
            f"identities-{request.param}-{seed}",
            lambda folder, seed=seed: train_known(folder, *words, f"seed={seed}", model=request.param),
        )[0].path
        for seed in (1, 2)
    )
    return first, second


@pytest.fixture
def run(pair: tuple[Path, Path]) -> Path:
    return pair[0]


def command(output: Path, run: Path | list[Path], source: Path, *known: Path, model: bool = False) -> bytes:
    """Return the forecast file that `predict` writes."""
    option = "--model" if model else "--run"
    runs = [word for path in (run if isinstance(run, list) else [run]) for word in (option, str(path))]
    words = [word for path in known for word in ("--known", str(path))]
    assert predict([*runs, "--input", str(source), *words, "--output", str(output)]) == 0
    return output.read_bytes()


@pytest.fixture
def usual(run: Path, tmp_path: Path) -> bytes:
    """Return the forecast file with the known covariates in a second file."""
    known = save(tmp_path / "known.csv", future())
    return command(tmp_path / "usual.csv", run, save(tmp_path / "past.csv", past()), known)


def test_the_forecast_answers_to_each_known_column(run: Path) -> None:
    forecaster = forecast.load(run)
    wanted = forecaster.predict(past(), known=future())
    others = {"wind speed": 3.0, "promo": True, "kind": "b", "tariff": 2}
    for name, value in others.items():
        change = forecaster.predict(past(), known=future().assign(**{name: value})) - wanted
        assert change.abs().to_numpy().max() > 1e-6, name


def test_the_order_of_columns_does_not_matter(run: Path, tmp_path: Path, usual: bytes) -> None:
    turned = save(tmp_path / "turned.csv", past()[list(past())[::-1]])
    known = save(tmp_path / "turned-known.csv", future()[["kind", "promo", "date", "tariff", "wind speed"]])
    assert command(tmp_path / "out.csv", run, turned, known) == usual


@pytest.mark.parametrize("parts", [[12], [0, 12], [5, 12], [0, 3, 7, 12]])
def test_the_places_of_the_values_do_not_matter(parts: list[int], run: Path, tmp_path: Path, usual: bytes) -> None:
    """The first part is in the input, each other part in a file of its own."""
    source = save(tmp_path / "input.csv", extended(parts[0]))
    files = [save(tmp_path / f"{first}.csv", future()[first:last]) for first, last in pairwise(parts)]
    assert command(tmp_path / "out.csv", run, source, *files) == usual


@pytest.mark.parametrize("names", [KNOWN[:1], KNOWN[1:3]])
def test_files_of_some_columns_are_joined(names: list[str], run: Path, tmp_path: Path, usual: bytes) -> None:
    others = [name for name in KNOWN if name not in names]
    files = [save(tmp_path / f"{group[0]}.csv", future()[["date", *group]]) for group in (names, others)]
    assert command(tmp_path / "out.csv", run, tmp_path / "past.csv", *files) == usual


@pytest.mark.parametrize("kind", ["columns", "indexes", "one index", "one table", "categories"])
def test_python_gives_the_forecast_of_the_command(kind: str, run: Path, tmp_path: Path, usual: bytes) -> None:
    frame, known = past(), future()
    if kind in ("indexes", "one index"):
        known = known.set_index("date")
    if kind == "indexes":
        frame = frame.set_index("date")
    if kind == "categories":
        labels = dict.fromkeys(["kind", "tariff"], "category")
        frame, known = frame.astype({**labels, "state": "category"}), known.astype(labels)
    forecaster = forecast.load(run)
    result = forecaster.predict(extended()) if kind == "one table" else forecaster.predict(frame, known=known)
    pd.testing.assert_frame_equal(result, dated(tmp_path / "usual.csv"), check_freq=False, check_exact=True)
    assert result.index.equals(DATES.rename("date"))


def test_python_changes_neither_frame(run: Path) -> None:
    frames = [extended(), future()[::-1]]
    copies = [frame.copy() for frame in frames]
    forecast.load(run).predict(frames[0], known=frames[1])
    for frame, copy in zip(frames, copies, strict=True):
        pd.testing.assert_frame_equal(frame, copy)


def test_a_run_that_is_loaded_again_or_moved_gives_the_same_bytes(run: Path, tmp_path: Path, usual: bytes) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "moved"))
    for number, folder in enumerate((run, moved)):
        output = tmp_path / f"{number}.csv"
        assert command(output, folder, tmp_path / "past.csv", tmp_path / "known.csv") == usual


def test_the_forecast_of_two_runs_is_their_mean(pair: tuple[Path, Path], tmp_path: Path) -> None:
    source, known = save(tmp_path / "past.csv", past()), save(tmp_path / "known.csv", future())
    command(tmp_path / "mean.csv", list(pair), source, known)
    one, other = (forecast.load(path).predict(past(), known=future()) for path in pair)
    assert not one.equals(other)
    mean = Ensemble.load(pair).predict(past(), future())
    np.testing.assert_allclose(mean, ((one + other) / 2).round(forecast.load(pair[0]).decimals), rtol=1e-12)
    pd.testing.assert_frame_equal(dated(tmp_path / "mean.csv"), mean, check_freq=False, check_exact=True)


def test_two_runs_without_a_future_give_one_template(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = save(tmp_path / "past.csv", past())
    words = [word for path in pair for word in ("--run", str(path))]
    assert predict([*words, "--input", str(source), "--output", str(tmp_path / "out.csv")]) == 2
    assert "for 12 dates" in one_error(capsys)
    assert list(pd.read_csv(tmp_path / "out-known.csv", index_col=0, parse_dates=True).index) == list(DATES)


@pytest.mark.parametrize(("key", "value"), [("mean", [1.0, 0.0]), ("categories", {"kind": ["a", "b", "d"]})])
def test_runs_that_read_known_covariates_differently_are_not_averaged(
    key: str, value: Any, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    other = Path(shutil.copytree(pair[1], tmp_path / "other"))

    def change(manifest: dict[str, Any]) -> None:
        encoder = manifest["data"]["encoder"]
        encoder[key] = {**encoder[key], **value} if isinstance(value, dict) else value

    edit(other, change)
    with pytest.raises(InputError, match="its known covariates have other labels or another scale: give runs of"):
        Ensemble.load([pair[0], other])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "pair", ["patch_informer", pytest.param("informer", marks=pytest.mark.exhaustive)], indirect=True
)
@pytest.mark.parametrize("ending", [".pt2", ".onnx"])
def test_an_exported_file_forecasts_like_its_run(ending: str, run: Path, tmp_path: Path, usual: bytes) -> None:
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    model = tmp_path / f"model{ending}"
    assert export(["--run", str(run), "--output", str(model)]) == 0
    scale = whole()[TARGETS].std()
    wanted = dated(tmp_path / "usual.csv")
    result = forecast.load(model).predict(extended())
    assert float(((result - wanted) / scale).abs().max(axis=None)) < 1e-6
    command(tmp_path / "out.csv", model, tmp_path / "past.csv", tmp_path / "known.csv", model=True)
    pd.testing.assert_frame_equal(dated(tmp_path / "out.csv"), result, check_freq=False, check_exact=True)


def test_earlier_forecasts_in_one_batch_read_the_known_covariates_that_each_would_read_alone(
    known_run: Path, tmp_path: Path
) -> None:
    forecaster = forecast.load(known_run)
    series = forecaster.read(save(tmp_path / "past.csv", past()), [save(tmp_path / "next.csv", future())])
    origins = np.array([100, 150, len(series.frame) - 1])
    ahead = forecaster.context(series)[0].future_known
    together = forecaster.earlier(series, origins, ahead)
    for place, origin in enumerate(origins[:2]):
        alone, _ = forecaster.context(series, int(origin))
        for name in ("past", "past_known", "future_known"):
            np.testing.assert_array_equal(getattr(together, name)[place], getattr(alone, name)[0])
    np.testing.assert_array_equal(together.future_known[2, 1:], ahead[0, :-1])
