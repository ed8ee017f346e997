"""Series that are too short: left out with a line after data.short_series=drop, and refused otherwise."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.backtest.__main__ import main as backtest
from forecast.common.errors import InputError
from forecast.export.parity import series_of
from forecast.predict.__main__ import main
from forecast.predict.blocks import predict_frame
from forecast.predict.explain import main as explain
from forecast.predict.forecast import Question
from forecast.predict.panel import PanelForecaster
from forecast.runs.run import Run
from forecast.serve.served import Served
from forecast.tables.files import Upload
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.panels import STORES, stores
from tests.support.pictures import drawing
from tests.support.small import HORIZON, quick, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")

LINE = "2 of 12 series have fewer than 12 rows: store '12' (no target value); store '11' (3 rows): left out"


def with_short() -> pd.DataFrame:
    """Return the ten stores, one of three rows, and one without sales."""
    table = stores()
    own = table[table["store"] == 4]
    return pd.concat([table, own.head(3).assign(store=11), own.assign(store=12, sales=np.nan)])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("short") / "stores.csv", with_short())


@pytest.fixture(scope="module")
def path(source: Path, panel_run: TinyRun) -> Path:
    """Train on a table with short series, which are left out."""
    words = [*panel_run.words, f"data.path={source}", "data.short_series=drop", "training.max_steps=2"]
    with drawing():
        run, _ = train(quick(source.parent / "outputs", *words, "model.encoder_layers=1"))
    return run.path


@pytest.fixture(scope="module")
def model(path: Path) -> PanelForecaster:
    loaded = forecast.load(path)
    assert isinstance(loaded, PanelForecaster)
    return loaded


def test_the_table_of_training_is_forecast_without_its_short_series(
    path: Path, source: Path, model: PanelForecaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "next.csv"
    assert main(["--run", str(path), "--input", str(source), "--output", str(output)]) == 0
    assert f"{source}: {LINE}\n" in capsys.readouterr().out
    assert pd.read_csv(output)["store"].astype(str).unique().tolist() == list(STORES)
    assert LINE in output.with_suffix(".json").read_text(encoding="utf-8")
    for call in (model.predict, model.score):
        with pytest.warns(UserWarning, match="2 of 12 series have fewer than 12 rows"):
            call(with_short())
    with pytest.warns(UserWarning, match="2 of 12 series have fewer than 12 rows"):
        assert predict_frame(path, with_short())["store"].nunique() == 10


def test_a_short_series_that_is_asked_for_is_refused(model: PanelForecaster) -> None:
    with pytest.raises(InputError, match="the frame, store '11': it has 3 rows"):
        model.predict(with_short(), ids=[11, 4])
    with pytest.raises(InputError, match="store '11': it has 3 rows"):
        model.predict(with_short()[lambda table: table["store"] == 11])
    assert model.predict(with_short(), ids=4)["store"].unique().tolist() == ["4"]


def test_a_run_without_the_option_refuses_short_series(panel_run: TinyRun) -> None:
    model = PanelForecaster.load(panel_run.path)
    assert not model.contract.drops_short
    for store, words in ((11, "it has 3 rows"), (12, "no target has a value")):
        with pytest.raises(InputError, match=words):
            model.predict(with_short()[lambda table, store=store: table["store"].isin([4, store])])


def test_a_comparison_and_a_service_leave_out_the_same_series(path: Path, source: Path, model: PanelForecaster) -> None:
    series, origin = series_of(Run.open(path), model, source)
    assert series.ids is not None
    assert (len(series.ids), origin) == (10, f"{source} ({LINE})")
    answer = Served("stores", model).answer(Upload("stores.csv", source.read_bytes()), (), Question())
    assert LINE in answer.notes
    assert answer.table["store"].nunique() == 10


def test_an_explanation_and_a_backtest_name_what_they_leave_out(
    path: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(path), "--input", str(source), "--output"]
    assert explain([*words, str(tmp_path / "why.csv")]) == 2
    said = capsys.readouterr()
    assert (said.out, "10 series: the forecast of one is explained" in said.err) == (f"{source}: {LINE}\n", True)
    assert explain([*words, str(tmp_path / "why.csv"), "--ids", "11"]) == 2
    assert "store '11': it has 3 rows" in capsys.readouterr().err
    assert backtest([*words, str(tmp_path / "backtest"), "--from", "2024-01-08"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("2 of 12 series have no origin with enough rows before it")
    assert first.endswith(": store '12'; store '11': left out")


def test_a_folder_of_series_counts_what_it_leaves_out(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    with_short().to_parquet(tmp_path / "in" / "a.parquet", index=False)
    words = ["--run", str(path), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    for _ in range(2):
        assert main(words) == 0
        line = "2 of 12 series have fewer than 12 rows: store '11'; store '12': left out"
        assert f"{tmp_path / 'in'}: {line}\n{tmp_path / 'out'}: 10 series in 1 files" in capsys.readouterr().out
    assert len(pd.read_parquet(tmp_path / "out")) == 10 * HORIZON
