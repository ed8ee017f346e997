import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.time_to_quality import __main__ as command
from benchmarks.time_to_quality import contests
from benchmarks.time_to_quality.__main__ import BEGIN, END, main, summary
from benchmarks.time_to_quality.contests import CONTESTS, Point, long_form, minutes_until, table_of
from forecast.common.errors import InputError

CONTEST = replace(
    CONTESTS["epf_np-nhits"], file="small.csv", train=60, validation=20, targets=("price",), known=("load",)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dates = pd.date_range("2024-01-01", periods=90, freq="h")
    values = np.random.default_rng(1).normal(5, 3, (90, 2))
    pd.DataFrame(values, dates, ["load", "price"]).to_csv(tmp_path / "small.csv", index_label="date")
    return tmp_path


def test_z_scores_come_from_the_training_rows_and_the_test_rows_are_left_out(folder: Path) -> None:
    table = table_of(CONTEST, folder)
    assert len(table) == 80
    np.testing.assert_allclose(table.iloc[:60].mean(), 0, atol=1e-12)
    np.testing.assert_allclose(table.iloc[:60].std(ddof=0), 1)
    rows = long_form(CONTEST, table)
    assert list(rows) == ["unique_id", "ds", "y", "load"]
    np.testing.assert_array_equal(rows["y"], table["price"])
    both = long_form(replace(CONTEST, targets=(), known=()), table)
    assert both["unique_id"].tolist() == ["load"] * 80 + ["price"] * 80


def test_the_first_validation_that_is_as_good_counts() -> None:
    curve = [Point(1.0, 10, 0.5, 0.4), Point(2.0, 20, 0.3, 0.4), Point(3.0, 30, 0.2, 0.1)]
    assert minutes_until(curve, "mae", 0.3) == 2
    assert minutes_until(curve, "mse", 0.3) == 3
    assert minutes_until(curve, "mse", 0.05) is None


def test_only_the_batch_differs_from_the_defaults_of_the_peer() -> None:
    changed = {name: dict(contest.settings) for name, contest in CONTESTS.items() if contest.settings}
    sizes = {"ettm1-patchtst": 128, "ettm1-informer": 32, "epf_np-informer": 32}
    assert changed == {name: {"windows_batch_size": size} for name, size in sizes.items()}


@pytest.mark.exhaustive
def test_a_contest_becomes_a_row_and_is_not_held_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("data=synthetic", "horizon=24", "context_length=96", "training.max_steps=4", "model.d_model=8")
    monkeypatch.setitem(contests.CONTESTS, "small", replace(CONTEST, words=words))  # type: ignore[arg-type]
    monkeypatch.setenv("FORECAST_DATA_DIR", str(folder))
    seen = []

    def theirs(contest: contests.Contest, python: str, place: Path, minutes: float) -> dict[str, object]:
        seen.append((python, minutes))
        ours = {"windows": 1729, "mse": 9.0, "mae": 9.0, "steps": 7, "training_minutes": 2.0, "parameters": 5}
        return ours | {"neuralforecast": "3.3.0", "torch": "2.13.0"}

    monkeypatch.setattr(contests, "train_theirs", theirs)
    record = folder / "rows.csv"
    command = ["--python", sys.executable, "--record", str(record), "--folder", str(folder / "runs")]
    for minutes in ("1", "2", "1"):  # the last one has been held, for longer
        assert main([*command, "--contests", "small", "--minutes", minutes]) == 0, capsys.readouterr().err
    assert seen == [(sys.executable, 1), (sys.executable, 2)]
    _, row = pd.read_csv(record).to_dict("records")
    assert row["most_minutes"] == 2
    assert 0 < row["minutes_to_their_mae"] <= row["our_minutes"] < 2
    assert row["our_mae"] < row["their_mae"]
    assert "small: the record has it" in capsys.readouterr().out
    assert "not reached" in summary(pd.DataFrame([row | {"minutes_to_their_mae": None}]))


ROW = {
    "contest": "small",
    "most_minutes": 30.0,
    "their_minutes": 9.04,
    "their_steps": 5000,
    "minutes_to_their_mae": 1.26,
    "our_minutes": 3.0,
    "their_mae": 0.5,
    "our_mae": 0.4,
}


def test_the_table_is_written_between_its_marks(tmp_path: Path) -> None:
    record, page = tmp_path / "rows.csv", tmp_path / "page.md"
    short = ROW | {"most_minutes": 5.0, "our_mae": 0.6}
    other = ROW | {"contest": "other", "minutes_to_their_mae": None}
    pd.DataFrame([short, ROW, other, short]).to_csv(record, index=False)
    page.write_text(f"Before.\n\n{BEGIN}\n{END}\n\nAfter.\n")
    assert main(["--record", str(record), "--write", str(page)]) == 0
    lines = page.read_text().splitlines()
    assert lines[2] == BEGIN
    assert lines[5:7] == [
        "| small | 9.0 | 5,000 | 1.3 | 3.0 | 0.5000 | 0.4000 |",
        "| other | 9.0 | 5,000 | not reached | 3.0 | 0.5000 | 0.4000 |",
    ]
    assert lines[7:] == [END, "", "After."]


def test_no_table_is_written_without_a_contest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "rows.csv"
    assert main(["--record", str(record), "--write", str(tmp_path / "page.md")]) == 2
    assert capsys.readouterr().err == f"error: {record}: no contest yet: hold some with --python\n"


def test_a_contest_needs_the_environment_of_the_peer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--contests", "epf_np-nhits"]) == 2
    assert capsys.readouterr().err == "error: --python is missing: name the interpreter of the peer's environment\n"


def test_an_interpreter_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--python", "peer/bin/python", "--contests", "epf_np-nhits"]) == 2
    assert capsys.readouterr().err.startswith("error: --python peer/bin/python: no such file: ")


def test_a_relative_interpreter_is_found_from_the_folder_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "peer").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []

    def stops(name: str, python: str, folder: Path, minutes: float) -> dict[str, object]:
        seen.append(python)
        raise InputError("enough")

    monkeypatch.setattr(command, "row_of", stops)
    assert main(["--python", "peer", "--contests", "epf_np-nhits", "--record", "rows.csv"]) == 2
    assert seen == [str(tmp_path / "peer")]  # the link, not where it leads


def test_a_failed_process_of_the_peer_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_DATA_DIR", str(folder))
    with pytest.raises(contests.InputError, match="exit code"):  # neuralforecast is not in this environment
        contests.train_theirs(CONTEST, sys.executable, folder / "job")
    job = json.loads((folder / "job" / "job.json").read_text())
    assert job["validation_start"] == "2024-01-03 12:00:00"
    assert job["known"] == ["load"]
