import io
from typing import Any

import pytest
from rich.console import Console

from forecast.training.sweep.reporters import LineReporter, LiveTable

RESULT: dict[str, Any] = {
    "data": {"name": "hours"},
    "test": {"scaled": {"mse": 0.1883, "mae": 0.321}, "skill": 0.431},
    "speed": {"train_windows_per_s": 914.4, "peak_memory_mib": 664.0, "fit_seconds": 90.0},
}


def shown(live: LiveTable) -> list[str]:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as capture:
        console.print(live.table())
    return [line.strip() for line in capture.get().splitlines()]


def table(height: int = 40, total: int | None = 4) -> LiveTable:
    return LiveTable("study", total, Console(width=120, height=height, file=io.StringIO()))


def test_the_live_table_shows_scores_costs_failures_and_running_jobs() -> None:
    full = table()
    full.starts("attention-full", 1, again=False)
    full.finished("attention-full", RESULT, before=False)
    full.finished("attention-mean", RESULT, before=True)
    full.starts("attention-linear", 3, again=False)
    full.failed("attention-linear", "not so")
    full.starts("attention-taylor", 4, again=True)
    lines = shown(full)
    text = "\n".join(lines)
    assert "study: 2 of 4 jobs finished, 1 failed, 0:00:0" in text
    (row,) = [line.split() for line in lines if line.startswith("attention-full")]
    assert row[1:] == ["done", "0.1883", "+43.1%", "914", "664", "1.5"]
    assert any(line.startswith("attention-mean") and "done earlier" in line for line in lines)
    assert any(line.startswith("attention-linear") and line.endswith("failed") for line in lines)
    assert any(line.startswith("attention-taylor") and "resumed 0:00:0" in line for line in lines)


def test_a_low_terminal_shows_the_newest_jobs() -> None:
    low = table(height=10, total=None)
    for number in range(8):
        low.finished(f"seed-{number}", RESULT, before=False)
    text = "\n".join(shown(low))
    assert "study: 8 jobs finished" in text
    assert "(5 more above)" in text
    assert ["seed-4" in text, "seed-5" in text, "seed-7" in text] == [False, True, True]


def test_the_live_table_is_erased_at_the_end_and_printed_lines_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    terminal = Console(width=100, height=30, file=file, force_terminal=True)
    with LiveTable("study", 1, terminal) as live:
        live.left("seed-9")
        print("error: seed-1: not so")
    written = file.getvalue()
    assert "error: seed-1: not so" in written
    assert written.rstrip().endswith("\x1b[2K")  # the table's lines are erased last


def test_scores_of_the_validation_split_are_not_called_test_scores(capsys: pytest.CaptureFixture[str]) -> None:
    LineReporter().finished("seed-1", {**RESULT, "data": {"scored_split": "validation"}}, before=False)
    live = table()
    live.finished("seed-1", {**RESULT, "data": {"scored_split": "validation"}}, before=False)
    assert "val. MSE" in "\n".join(shown(live))
    assert capsys.readouterr().out.startswith("seed-1: finished, val. MSE 0.1883, skill")


def test_a_finished_job_prints_one_line_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    LineReporter().finished("seed-1", RESULT, before=False)
    LineReporter().finished("seed-2", RESULT, before=True)
    line = "seed-1: finished, test MSE 0.1883, skill +43.1%, train/s 914, MiB 664, min 1.5\n"
    assert capsys.readouterr().out == line
