"""The door test: its tables, its scores and, in a short form, the way from a file to a row of the record."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.door import __main__ as door
from benchmarks.door.scores import Forecasts, crossed, details, failures, paired_interval, pooled, scores, summary
from benchmarks.door.series import FILES, ID, MONTHLY, ORIGINS, TABLES, YEARLY, Table

LONGEST = {"hourly": 96, "daily": 28, "weekly": 52, "monthly": 48, "yearly": 20}


LONG = [drawn for drawn in TABLES if drawn.ids]


@pytest.mark.parametrize("drawn", LONG, ids=lambda drawn: drawn.name)
def test_a_long_table_has_series_of_unequal_start_and_one_that_ends_in_the_file(drawn: Table) -> None:
    frame, step = drawn.draw(1), drawn.step
    pd.testing.assert_frame_equal(frame, drawn.draw(1))
    rows = frame.groupby(ID).size()
    future = drawn.origins(step.longest) * step.longest
    assert len(rows) == drawn.ids
    assert rows.max() == step.rows + future
    assert (rows < rows.max()).sum() > 1
    file = drawn.file(frame)
    assert file.index.nunique() == step.rows
    ends = file.reset_index().groupby(ID)["date"].max()
    assert (ends < ends.max()).sum() == 1
    assert file.groupby(ID).size().min() > step.rows / 2
    assert frame[drawn.targets[0]].min() >= 0
    assert not frame.isna().to_numpy().any()


@pytest.mark.parametrize("drawn", [drawn for drawn in TABLES if not drawn.ids], ids=lambda drawn: drawn.name)
def test_a_table_has_the_rows_of_its_file_and_of_its_origins_within_its_bounds(drawn: Table) -> None:
    frame = drawn.draw(1)
    pd.testing.assert_frame_equal(frame, drawn.draw(1))
    assert not frame.equals(drawn.draw(2))
    horizon = LONGEST[drawn.name.split()[0]]
    assert drawn.files == (FILES if drawn.step in (MONTHLY, YEARLY) else 1)
    assert drawn.origins(horizon) * drawn.files >= FILES
    assert drawn.origins(horizon) in (1, ORIGINS)
    assert len(frame) == drawn.step.rows + drawn.origins(horizon) * horizon
    assert frame.index.freq is not None
    assert not frame.isna().to_numpy().any()
    values = frame[list(drawn.targets) or list(frame)].to_numpy()
    assert drawn.low is None or values.min() >= drawn.low
    assert drawn.high is None or values.max() <= drawn.high
    assert (values[drawn.step.rows :] != -9999).all()  # the truth has no mark of a failed sensor


def test_there_are_thirty_tables_and_three_long_ones_of_five_steps_with_different_names() -> None:
    assert len({drawn.name for drawn in TABLES}) == len(TABLES) == 33
    assert len(LONG) == 3
    assert {drawn.name.split()[0] for drawn in TABLES} == set(LONGEST)


def made(model: float = 1.0, baseline: float = 1.0, width: float = 1.28, count: int = 60) -> Forecasts:
    """Return forecasts of noise: errors of the model and of a baseline as multiples, and the half-width."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((count, 8, 2))
    forecast = truth - model * rng.standard_normal(truth.shape)
    errors = {"last_value": 3 * rng.standard_normal(truth.shape), "linear": baseline * rng.standard_normal(truth.shape)}
    ends = np.full(truth.shape, width)
    return Forecasts(truth, forecast, -ends, ends, errors, np.ones(2))


def row(forecasts: Forecasts, drawn: Table = TABLES[0]) -> dict[str, object]:
    return {"trains": True, **scores([forecasts], drawn)}


def test_each_demand_fails_alone() -> None:
    assert failures(row(made())) == []
    assert failures(row(made(model=1.3))) == ["error"]
    assert failures(row(made(model=0.7))) == []
    assert failures(row(made(width=0.9))) == failures(row(made(width=2.0))) == ["coverage"]
    assert failures(row(made(), replace(TABLES[0], low=0))) == ["bounds"]
    assert failures({"trains": False}) == ["trains"]
    zeros = replace(made(width=2.0), truth=np.zeros((60, 8, 2)))
    assert "coverage" not in failures(row(zeros))  # one value has all of the mass
    none = np.full((60, 8, 2), np.nan)
    assert failures(row(replace(made(), lower=none, upper=none))) == ["coverage"]


def test_the_best_baseline_is_that_of_least_error_at_these_origins() -> None:
    assert row(made())["best_baseline"] == "linear"
    assert row(made(baseline=5.0))["best_baseline"] == "last_value"


def test_the_paired_interval_holds_the_mean_in_nine_of_ten_samples() -> None:
    rng = np.random.default_rng(1)
    ends = [paired_interval(rng.standard_normal(20)) for _ in range(2000)]
    assert 0.88 < np.mean([low < 0 < high for low, high in ends]) < 0.92
    assert paired_interval(np.ones(1)) == (-np.inf, np.inf)


def test_a_bound_that_is_touched_is_not_crossed() -> None:
    touching = replace(made(), forecast=np.zeros((60, 8, 2)), lower=np.zeros((60, 8, 2)))
    assert crossed([touching], 0, None) == 0
    beyond = replace(touching, lower=np.full((60, 8, 2), -0.01))
    assert crossed([beyond], 0, None) == pytest.approx(1 / 3)
    assert crossed([beyond], None, 1.0) == pytest.approx(1 / 3)


def test_origins_count_alike_in_the_pooled_coverage() -> None:
    rows = pd.DataFrame({"trains": [True, True, False], "coverage": [0.8, 0.6, np.nan], "origins": [60, 20, np.nan]})
    assert pooled(rows) == pytest.approx(0.75)


def test_words_that_the_program_prints_are_found() -> None:
    printed = "note: temperature is known ahead: train with 'data.known_covariates=[temperature]' data.missing=mask"
    assert door.WORDS.findall(printed) == ["data.known_covariates=[temperature]"]


def test_the_page_is_the_record() -> None:
    page = (door.PROGRAM / "docs/measurements/door-test.md").read_text(encoding="utf-8")
    written = page.partition(f"{door.BEGIN}\n")[2].partition(f"\n{door.END}")[0]
    assert written == door.tables(door.read(door.PROGRAM / door.RECORD)), "run: python -m benchmarks.door --write …"


@pytest.mark.exhaustive
def test_a_short_form_goes_from_the_first_command_to_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], signals_and_threads: None
) -> None:
    record = tmp_path / "record" / "door.csv"
    words = ["--only", "yearly trend", "--files", "1", "--folder", str(tmp_path / "runs"), "--record", str(record)]
    assert door.main(words) == 0
    (made_row,) = door.read(record).to_dict("records")
    assert (made_row["trains"], made_row["origins"], made_row["files"]) == (True, 1, 1)
    assert made_row["best_baseline"] in ("linear", "last_value", "seasonal_naive", "training_mean")
    assert 0 <= made_row["coverage"] <= 1
    assert 0 < made_row["model_error"] < 10
    capsys.readouterr()
    assert door.main(words) == 0  # the record has the row
    assert capsys.readouterr().out == ""
    assert "yearly trend" not in summary(door.read(record))
    assert len(list((tmp_path / "runs").rglob("manifest.json"))) == 1


def test_a_refused_table_is_named_and_has_no_row_of_scores() -> None:
    record = door.read(door.PROGRAM / door.RECORD)
    before = record[record["program"] == "before"]
    refused = list(before["name"][~before["trains"].astype(bool)])
    *table, names = details(before).splitlines()
    assert len(refused) == 18
    assert [name for name in refused if f"| {name} |" in "\n".join(table)] == []
    assert sorted(names.strip("| ").split(", ")) == sorted(refused)
