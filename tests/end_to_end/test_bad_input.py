"""Bad input to training and predict: a one-line error, exit code 2, nothing written."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.predict.__main__ import main as predict
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, HORIZON, changed, hourly, quick, snapshot, write

Spoil = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def planted(row: int, column: str, cell: object) -> Spoil:
    """Write the table with one cell replaced; `row` counts as in a spreadsheet, with the header as row 1."""

    def spoil(folder: Path) -> Path:
        table = hourly(300).astype(object)
        table.loc[row - 2, column] = cell
        return write(folder / "bad.csv", table)

    return spoil


def content(text: bytes, name: str = "bad.csv") -> Spoil:
    def spoil(folder: Path) -> Path:
        (folder / name).write_bytes(text)
        return folder / name

    return spoil


def table(make: Callable[[pd.DataFrame], pd.DataFrame]) -> Spoil:
    return lambda folder: write(folder / "bad.csv", make(hourly(300)))


def doubled_column(folder: Path) -> Path:
    path = write(folder / "bad.csv", hourly(300).assign(second=1.0))
    path.write_text(path.read_text().replace("second", "load", 1))
    return path


def a_folder(folder: Path) -> Path:
    (folder / "bad.csv").mkdir()
    return folder / "bad.csv"


def renamed(name: str) -> Spoil:
    return table(lambda good: good.rename(columns={"load": name}))


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "bad.csv")
    return folder / "bad.csv"


def a_device(folder: Path) -> Path:
    (folder / "bad.csv").symlink_to("/dev/zero")
    return folder / "bad.csv"


# flaw: function that makes the file, and words that the error must have
FLAWS: dict[str, tuple[Spoil, list[str]]] = {
    "no such file": (lambda folder: folder / "none.csv", ["none.csv", "no such file"]),
    "a folder": (a_folder, ["folder"]),
    "another kind of file": (content(b"x", "bad.doc"), [".csv", ".parquet"]),
    "empty": (content(b""), ["empty"]),
    "blank lines only": (content(b"\n\n\n"), ["empty"]),
    "header only": (content(b"date,load,oil,air\n"), ["no rows"]),
    "binary": (content(bytes(range(256)) * 40), ["row", "binary"]),
    "an image called CSV": (content(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), ["binary"]),
    "binary called Parquet": (content(bytes(range(256)), "bad.parquet"), ["Parquet"]),
    "empty Parquet": (content(b"", "bad.parquet"), ["empty"]),
    "an open mark": (content(b"date;load;oil;air\n2016-07-01;1.234;1;1\n2016-07-02;1.235;1;1\n"), ["data.decimal="]),
    "doubled column": (doubled_column, ["'load'", "twice"]),
    "no time column": (table(lambda good: good.drop(columns="date")), ["date"]),
    "unparsable date": (planted(57, "date", "yesterday"), ["row 57", "'date'", "yesterday"]),
    "no date": (planted(57, "date", ""), ["row 57", "'date'", "fill"]),
    "NaN": (planted(101, "oil", np.nan), ["row 101", "'oil'", "fill"]),
    "infinity": (planted(102, "load", np.inf), ["row 102", "'load'", "infinite", "correct"]),
    "text": (planted(103, "oil", "12 kW"), ["row 103", "'oil'", "12 kW", "write it"]),
    "beyond float32": (planted(104, "load", 1e300), ["row 104", "'load'", "larger unit"]),
    "duplicate times": (table(lambda good: pd.concat([good, good.iloc[[5]]])), ["rows 7 and 302", "duplicate"]),
    "a gap": (table(lambda good: good.drop(index=range(40, 43))), ["row 41", "missing", "3 missing in total"]),
    "a time off the grid": (planted(60, "date", "2016-07-03 10:17:00"), ["row 60", "off the grid"]),
    "a spike in the training rows": (
        planted(20, "load", 1e30),
        ["'load'", "2016-07-01 18:00:00", "1e+30", "deviations"],
    ),
    "a spike in the last rows": (
        planted(299, "air", -1e25),
        ["'air'", "2016-07-13 09:00:00", "-1e+25", "deviations"],
    ),
    "the date now": (planted(57, "date", "now"), ["row 57", "'date'", "'now' is not a date"]),
    "the date today": (planted(2, "date", "today"), ["row 2", "'date'", "'today' is not a date"]),
    "a name with a terminal color": (renamed("lo\x1b[31mad"), [r"'lo\x1b[31mad'", "control characters"]),
    "a name with a right-to-left mark": (renamed("lo\u202ead"), [r"'lo\u202ead'", "control characters"]),
    "a pipe": (a_pipe, ["a pipe or a device"]),
    "a device": (a_device, ["a pipe or a device"]),
    "ragged": (content(b"date,load,oil,air\n2016-07-01,1,2,3\n2016-07-02,1,2,3,4\n"), ["row 3", "cells"]),
}


def train_on(run: TinyRun, path: Path, folder: Path, **values: Any) -> int:
    config = changed({**run.config, "output_dir": str(folder / "outputs")}, data__path=str(path), **values)
    return finish(lambda: train(config) and None)


def forecast_from(run: TinyRun, path: Path, folder: Path) -> int:
    return predict(["--run", str(run.path), "--input", str(path), "--output", str(folder / "forecast.csv")])


def expect_one_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    for word in words:
        assert word in error, error
    return error


@pytest.mark.parametrize("tool", [train_on, forecast_from])
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flawed_file_is_refused_in_one_line(
    flaw: str, tool: Callable[..., int], tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, words = FLAWS[flaw]
    path = spoil(tmp_path)
    before = snapshot(tmp_path, tiny_run.path)
    assert tool(tiny_run, path, tmp_path) == 2
    named = [] if tool is train_on and flaw.startswith("a spike") else [path.name]  # training has only one table
    expect_one_line(capsys, [*named, *words])
    assert snapshot(tmp_path, tiny_run.path) == before


# --- errors of training only


def test_training_names_a_missing_column(tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train_on(tiny_run, tiny_run.source, tmp_path, data__targets=["lod"]) == 2
    expect_one_line(capsys, ["'lod'", "did you mean 'load'", "data.targets"])
    assert train_on(tiny_run, tiny_run.source, tmp_path, data__time_column="time") == 2
    expect_one_line(capsys, ["'time'", "data.time_column"])
    assert snapshot(tmp_path) == {}


def test_training_names_the_number_of_rows_needed(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "short.csv", hourly(80))
    before = snapshot(tmp_path)
    assert train_on(tiny_run, path, tmp_path) == 2
    expect_one_line(capsys, [f"context_length {CONTEXT}", f"horizon {HORIZON}", f"at least {CONTEXT + HORIZON} rows"])
    assert snapshot(tmp_path) == before


def test_the_number_of_rows_that_training_names_is_enough(tiny_run: TinyRun, tmp_path: Path) -> None:
    split = {"train": CONTEXT + HORIZON, "validation": HORIZON, "test": HORIZON}
    path = write(tmp_path / "short.csv", hourly(CONTEXT + 3 * HORIZON))
    values = {"data__split": split, "training__max_steps": 1, "training__batch_size": 1}
    assert train_on(tiny_run, path, tmp_path, **values) == 0


def test_training_refuses_two_roles_for_one_column(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_on(tiny_run, tiny_run.source, tmp_path, data__targets=["load", "air"]) == 2
    expect_one_line(capsys, ["air", "one role"])


# --- errors of predict only


def test_predict_names_a_missing_column(tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "other.csv", hourly(300).rename(columns={"oil": "water"}))
    before = snapshot(tmp_path)
    assert forecast_from(tiny_run, path, tmp_path) == 2
    error = expect_one_line(capsys, ["other.csv", "'oil'", "trained on"])
    assert "data." not in error  # predict has no such options
    assert snapshot(tmp_path) == before


def test_predict_names_the_number_of_rows_needed(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rows in (1, 2, 3, CONTEXT - 1):
        path = write(tmp_path / "short.csv", hourly(rows))
        assert forecast_from(tiny_run, path, tmp_path) == 2
        expect_one_line(capsys, [f"{rows} rows", f"at least {CONTEXT} rows"])
    assert forecast_from(tiny_run, write(tmp_path / "enough.csv", hourly(CONTEXT)), tmp_path) == 0


@pytest.mark.parametrize("step", ["D", "30min", "2h", "MS"])
def test_predict_refuses_another_frequency(
    step: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = hourly(100).assign(date=pd.date_range("2016-07-01", periods=100, freq=step))
    path = write(tmp_path / "other.csv", rows)
    before = snapshot(tmp_path)
    assert forecast_from(tiny_run, path, tmp_path) == 2
    expect_one_line(capsys, [step, "trained at h"])
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("kind", ["absent", "file", "empty folder", "unfinished run", "no weights"])
def test_predict_refuses_a_folder_without_a_finished_run(
    kind: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    if kind == "file":
        folder.write_text("x")
    elif kind == "empty folder":
        folder.mkdir()
    elif kind != "absent":
        shutil.copytree(tiny_run.path, folder)
        (folder / ("manifest.json" if kind == "unfinished run" else "model.safetensors")).unlink()
    before = snapshot(tmp_path)
    output = tmp_path / "forecast.csv"
    assert predict(["--run", str(folder), "--input", str(tiny_run.source), "--output", str(output)]) == 2
    expect_one_line(capsys, ["run"])
    assert snapshot(tmp_path) == before


def test_predict_refuses_latest_without_any_run(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert predict(["--input", str(tiny_run.source)]) == 2
    expect_one_line(capsys, ["outputs", "train.py"])
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("name", ["forecast.txt", "forecast", "none/forecast.csv", "folder.csv", "pictured.csv"])
def test_predict_refuses_an_output_that_it_cannot_write(
    name: str, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "pictured.png").mkdir()
    before = snapshot(tmp_path)
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(tmp_path / name)]
    assert predict(words) == 2
    expect_one_line(capsys, ["--output"])
    assert snapshot(tmp_path) == before


def test_predict_refuses_to_overwrite_its_input(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "forecast.csv", hourly(300))
    before = snapshot(tmp_path)
    assert forecast_from(tiny_run, path, tmp_path) == 2
    expect_one_line(capsys, ["--output", "--input"])
    assert snapshot(tmp_path) == before


# --- repaired with a note


def test_predict_sorts_rows_out_of_order_with_a_note(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast_from(tiny_run, tiny_run.source, tmp_path) == 0
    wanted = (tmp_path / "forecast.csv").read_bytes()
    assert "out of order" not in capsys.readouterr().out
    shuffled = write(tmp_path / "shuffled.csv", tiny_run.table.sample(frac=1, random_state=0))
    assert forecast_from(tiny_run, shuffled, tmp_path) == 0
    assert (tmp_path / "forecast.csv").read_bytes() == wanted
    (note,) = [line for line in capsys.readouterr().out.splitlines() if "out of order" in line]
    assert "sorted by date" in note


def test_training_sorts_rows_out_of_order_with_a_note(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffled = write(tmp_path / "shuffled.csv", tiny_run.table.sample(frac=1, random_state=0))
    assert train_on(tiny_run, shuffled, tmp_path) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "out of order: sorted by date" in line]
    (weights,) = tmp_path.rglob("model.safetensors")
    assert weights.read_bytes() == (tiny_run.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 300, ["data.name=xxx", "300 characters", "use 1 to 100"]),
        ("a\x1b[31mb", ["control characters"]),
        ("", ["0"]),
    ],
)
def test_a_data_name_that_no_folder_can_have_is_refused_in_one_line(
    name: str, words: list[str], tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_on(tiny_run, tiny_run.source, tmp_path, data__name=name) == 2
    assert "\x1b" not in expect_one_line(capsys, ["data.name", *words])
    assert snapshot(tmp_path) == {}


def test_an_error_has_no_control_characters(tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(["--run", "a\x1b[31mb", "--input", str(tiny_run.source)]) == 2
    assert r"a\x1b[31mb: no such folder" in expect_one_line(capsys, [])


def test_a_wrong_data_folder_is_refused_before_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tmp_path / "unmounted"))
    monkeypatch.setattr("forecast.data.sources.series_from_frame", lambda *_, **__: pytest.fail("the file was read"))
    source = write(tmp_path / "mine.csv", hourly(300))
    with pytest.raises(InputError, match=r"FORECAST_DATA_DIR is .*unmounted.*, which is not a folder"):
        train(quick(tmp_path / "runs", "data=csv", f"data.path={source}"))
    assert not (tmp_path / "runs").exists()
