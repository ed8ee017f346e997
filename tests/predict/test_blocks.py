"""Forecasts of a folder of series, and of one frame."""

from collections.abc import Callable
from functools import partialmethod
from pathlib import Path

import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.predict import blocks
from forecast.predict.__main__ import main
from forecast.predict.blocks import Blocks, predict_frame
from forecast.tables.formats import folders
from tests.conftest import TinyRun
from tests.support.panels import stores

Command = Callable[..., int]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the ten stores into blocks of four, and the table into batches of 100 rows."""
    monkeypatch.setattr(blocks.Blocks, "__init__", partialmethod(blocks.Blocks.__init__, batch=4))
    monkeypatch.setattr(folders, "BATCH_BYTES", 100 * 8 * 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write the ten stores in rows of no order as two files of a folder."""
    table = stores().sample(frac=1, random_state=0)
    (tmp_path / "in" / "more").mkdir(parents=True)
    table[:1000].to_parquet(tmp_path / "in" / "a.parquet", index=False)
    table[1000:].to_parquet(tmp_path / "in" / "more" / "b.parquet", index=False)
    return tmp_path / "in"


@pytest.fixture
def command(panel_run: TinyRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that forecasts the folder, in this process."""

    def run(output: Path, *more: str) -> int:
        capsys.readouterr()
        return main(["--run", str(panel_run.path), "--input", str(folder), "--output", str(output), *more])

    return run


def content_of(folder: Path) -> dict[str, bytes]:
    """Return the content of the files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_frame_is_forecast_as_by_the_model_and_in_every_part_alike(panel_run: TinyRun, tiny_run: TinyRun) -> None:
    whole = predict_frame(panel_run.path, stores(), levels=[80])
    expected = forecast.load(panel_run.path).predict(stores(), levels=[80])
    pd.testing.assert_frame_equal(whole, expected, rtol=1e-4, atol=1e-3)
    part = stores()[lambda table: table["store"].isin([2, 9])]
    own = whole[whole["store"].isin(["2", "9"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(predict_frame(panel_run.path, part, levels=[80]), own, check_exact=True)
    one = predict_frame(tiny_run.path, tiny_run.table)
    assert list(one.columns) == ["date", "load", "oil"]


@pytest.mark.usefixtures("small_blocks")
def test_a_folder_is_forecast_in_blocks_and_only_the_missing_ones_again(
    panel_run: TinyRun, command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert command(output, "--levels", "80") == 0
    assert capsys.readouterr().out == f"{output}: 10 series in 3 files\n"
    found = content_of(output)
    assert sorted(found) == ["_blocks.json", *(f"part-0000{place}.parquet" for place in range(3))]
    expected = predict_frame(panel_run.path, stores(), levels=[80])
    pd.testing.assert_frame_equal(pd.read_parquet(output), expected, check_exact=True)
    (output / "part-00001.parquet").unlink()
    (output / ".sorted").mkdir()  # as a killed run leaves it
    before = (output / "part-00000.parquet").stat().st_mtime_ns
    assert command(output, "--levels", "80") == 0
    assert capsys.readouterr().out == f"{output}: 10 series in 3 files, 2 of them from earlier\n"
    assert content_of(output) == found
    assert (output / "part-00000.parquet").stat().st_mtime_ns == before
    assert command(output) == 2
    assert "forecasts of another model, input or option" in capsys.readouterr().err


@pytest.mark.usefixtures("small_blocks")
def test_a_table_partitioned_by_its_ids_gives_the_same_bytes(command: Command, folder: Path, tmp_path: Path) -> None:
    assert command(tmp_path / "one") == 0
    for path in sorted(folder.rglob("*.parquet")):
        path.unlink()
    stores().to_parquet(folder, partition_cols=["store"])
    assert command(tmp_path / "two") == 0
    one, two = content_of(tmp_path / "one"), content_of(tmp_path / "two")
    assert {**one, "_blocks.json": b""} == {**two, "_blocks.json": b""}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "2"], "apply to --engine ray"),
        (["--engine", "ray", "--workers", "0"], "must be at least 1"),
        (["--ids", "3"], "--ids: does not apply to a folder"),
        (["--engine", "ray", "--output", "next.csv"], "go to a folder"),
    ],
)
def test_an_option_that_cannot_act_on_a_folder_is_refused(
    words: list[str], message: str, command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path / "out", *words) == 2
    assert message in capsys.readouterr().err


def test_a_small_folder_is_forecast_as_one_table(command: Command, panel_run: TinyRun, tmp_path: Path) -> None:
    assert command(tmp_path / "next.csv") == 0
    found = pd.read_csv(tmp_path / "next.csv", dtype={"store": str}, parse_dates=["date"])
    expected = forecast.load(panel_run.path).predict(stores())
    pd.testing.assert_frame_equal(found[list(expected.columns)], expected, check_dtype=False)


def test_a_block_that_cannot_be_forecast_is_named(
    command: Command, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in folder.rglob("*.parquet"):
        rows = pd.read_parquet(path)
        rows[(rows["store"] != 10) | ~rows["store"].duplicated()].to_parquet(path, index=False)
    assert command(tmp_path / "out") == 2
    assert "block 0, store '10'" in capsys.readouterr().err
    assert sorted(content_of(tmp_path / "out")) == ["_blocks.json"]


def test_a_folder_needs_a_model_of_many_series(tiny_run: TinyRun, folder: Path, tmp_path: Path) -> None:
    job = Blocks(str(tiny_run.path), str(folder), str(tmp_path / "out"), forecast.predict.forecast.Question())
    with pytest.raises(InputError, match="the model has one series: name a file"):
        job.forecast("local", None, None)
