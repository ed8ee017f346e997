import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.published.__main__ import main
from benchmarks.published.judge import Judge, same_at_all_levels
from benchmarks.published.tables import place_of
from benchmarks.published.tasks import (
    LEVELS,
    TASKS,
    Floats,
    Task,
    check_data,
    known_digest,
    naive_mase,
    seasonal_error,
    seasonal_naive,
    windows_of,
)
from forecast.common.errors import InputError

FOLDER = Path(os.environ.get("FORECAST_DATA_DIR", "none"))
needs_data = pytest.mark.skipif(not (FOLDER / "EPF_NP.csv").is_file(), reason="needs the real series")
DAYS = Task("days", (), horizon=3, windows=4, season=2, naive_mase=0.0, read=pd.DataFrame, known=("sun",))


def days(rows: int = 40) -> pd.DataFrame:
    values = np.random.default_rng(0).standard_normal((rows, 3))
    return pd.DataFrame(values, pd.date_range("2020", periods=rows, name="date"), ["a", "b", "sun"])


def scaled_quantile_loss(task: Task, table: pd.DataFrame, forecasts: list[Floats]) -> float:
    """Compute the loss of quantiles (h, C, 9) term by term."""
    per_window = []
    for (past, future), quantiles in zip(windows_of(task, table), forecasts, strict=True):
        terms = []
        for column in range(future.shape[1]):
            changes = [abs(past[t, column] - past[t - task.season, column]) for t in range(task.season, len(past))]
            for step in range(task.horizon):
                for number, level in enumerate(LEVELS):
                    y, q = future[step, column], quantiles[step, column, number]
                    terms.append(2 * abs((y - q) * ((y <= q) - level)) / np.mean(changes))
        per_window.append(np.mean(terms))
    return float(np.mean(per_window))


@needs_data
@pytest.mark.parametrize("name", TASKS)
def test_the_seasonal_naive_forecast_has_its_published_score(name: str) -> None:
    task = TASKS[name]
    table = task.table(FOLDER)
    assert f"{check_data(task, table):.6f}" == f"{task.naive_mase:.6f}"
    assert set(task.known) <= set(table.columns)


def test_other_numbers_known_ahead_stop_everything() -> None:
    table = days()
    task = replace(DAYS, naive_mase=naive_mase(DAYS, table), known_digest=known_digest(DAYS, table))
    check_data(task, table)
    with pytest.raises(InputError, match="days: sun: other numbers than in the first scoring"):
        check_data(task, table.assign(sun=table["sun"].shift(1, fill_value=0.0)))
    assert known_digest(replace(DAYS, known=()), table) == ""


def test_other_data_stop_everything() -> None:
    with pytest.raises(InputError, match=r"days: .* has MASE \d\.\d{6}, published is 0\.000000"):
        check_data(DAYS, days())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"epf_np needs EPF_NP.csv, .* set FORECAST_DATA_DIR"):
        TASKS["epf_np"].table(tmp_path)


def test_the_windows_are_the_last_steps_and_do_not_overlap() -> None:
    table = days()
    assert DAYS.cutoffs(table) == [28, 31, 34, 37]
    windows = list(windows_of(DAYS, table))
    values = table[["a", "b"]].to_numpy()
    np.testing.assert_array_equal(np.concatenate([future for _, future in windows]), values[28:])
    assert [len(past) for past, _ in windows] == [28, 31, 34, 37]


def test_numbers_below_the_floor_are_marks_of_a_missing_value() -> None:
    table = days().mask(days() < -1.5, -9999.0)
    assert replace(DAYS, floor=-500).marks(table.assign(sun=-9999.0)) == [-9999.0]
    assert DAYS.marks(table) == []
    table.iloc[3, 0] = (-9999 + 5 * 1.5) / 6
    assert replace(DAYS, floor=-500).marks(table) == [-9999.0, -1665.25]


def test_missing_values_are_left_out_of_the_scale() -> None:
    past = np.array([[1.0], [np.nan], [4.0], [6.0]])
    np.testing.assert_allclose(seasonal_error(past, 1), [2.0])
    np.testing.assert_array_equal(seasonal_naive(past, 5, 2)[:, 0], [4, 6, 4, 6, 4])


@pytest.mark.filterwarnings("ignore:A future version of pandas:Warning")  # within fev
def test_the_judge_agrees_with_a_sum_of_all_terms(tmp_path: Path) -> None:
    pytest.importorskip("fev")
    table, random = days(), np.random.default_rng(1)
    forecasts = [np.sort(random.standard_normal((3, 2, 9)), axis=2) for _ in range(4)]
    scores = Judge(DAYS, table, tmp_path).scores(forecasts)
    assert scores["SQL"] == pytest.approx(scaled_quantile_loss(DAYS, table, forecasts), rel=1e-12)
    naive = [same_at_all_levels(seasonal_naive(past, 3, 2)) for past, _ in windows_of(DAYS, table)]
    assert Judge(DAYS, table, tmp_path).scores(naive)["MASE"] == pytest.approx(naive_mase(DAYS, table), rel=1e-12)


@needs_data
def test_the_command_checks_the_data_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["--tasks", "epf_np", "--check"]) == 0
    assert capsys.readouterr().out == "epf_np: MASE of the seasonal naive forecast 1.761304, as published\n"
    wrong = replace(TASKS["epf_np"], naive_mase=1.7)
    monkeypatch.setitem(TASKS, "epf_np", wrong)  # type: ignore[arg-type]
    assert main(["--tasks", "epf_np", "--record", str(tmp_path / "scores.csv")]) == 2
    assert not (tmp_path / "scores.csv").exists()


def test_a_place_counts_only_models_that_had_not_seen_the_data() -> None:
    assert place_of(0.0, "epf_np").startswith("1 of ")
    last = place_of(99.0, "epf_np").split(" of ")
    assert last[0] == last[1]
