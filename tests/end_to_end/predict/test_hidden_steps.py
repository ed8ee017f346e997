"""A training of the pointwise model on a file with gaps, and forecasts from files that begin late."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.evaluation.adaptive import Forms
from forecast.export.__main__ import main as export
from forecast.predict.ensemble import load
from forecast.predict.forecaster import Forecaster
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.forecasts import dated, forecast
from tests.support.small import CONTEXT, HORIZON, hourly, quick, write

SERIES = ["load", "oil"]
ROWS = 700
SHORT = 33
"""Rows of a file that is shorter than the look-back."""


def rows(count: int = ROWS, *empty: int) -> pd.DataFrame:
    """Return the last `count` hours and the known covariate of the horizon; `empty` places have no value of a target.

    A place counts from the first row of the look-back.
    """
    table = hourly(ROWS + HORIZON)
    table.loc[ROWS:, SERIES] = np.nan
    table.loc[[ROWS - CONTEXT + place for place in empty], SERIES] = np.nan
    return table.iloc[ROWS - count :].reset_index(drop=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """Train on a file whose first rows are empty, with gaps inside and in the last look-back."""
    folder = tmp_path_factory.mktemp("hidden")
    table = rows(ROWS, 3, 4, 5, 30)
    table.loc[:9, SERIES] = table.loc[300:330, SERIES] = table.loc[672, "oil"] = np.nan
    table = table.drop(index=[*range(100, 110)])
    source = write(folder / "hours.csv", table)
    words = ["data=csv", f"data.path={source}", "data.known_covariates=[air]", "data.missing=mask"]
    words += ["training.max_steps=2"]
    config = quick(folder / "outputs", *words, "attention=probsparse", "attention.factor=1", model="informer")
    run, result = train(config)
    return TinyRun(run.path, source, table, config, result, words)


@pytest.fixture(scope="module")
def forecaster(run: TinyRun) -> Forecaster:
    return load(run.path)


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert np.isfinite(one.to_numpy()).all()


def test_a_file_with_gaps_at_its_start_and_inside_trains_and_forecasts(
    run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("validation", "test"):
        assert np.isfinite(run.result[part]["scaled"]["mse"])
    notes = "\n".join(run.result["data"]["notes"])
    assert "the first 10 rows were left out" in notes
    assert "10 missing rows and 36 rows with empty cells filled (data.missing=mask)" in notes
    assert forecast(run.path, run.source, tmp_path / "next.csv") == 0
    assert "begins in a gap" not in capsys.readouterr().out
    assert np.isfinite(dated(tmp_path / "next.csv").to_numpy()).all()


def test_the_values_and_known_inputs_of_hidden_steps_do_not_change_the_forecast(
    run: TinyRun, forecaster: Forecaster
) -> None:
    series = forecaster.read(run.source)
    assert series.observed is not None
    expected = forecaster.predict(series)
    hidden = ~series.observed[:, :2].any(1)
    assert hidden[-CONTEXT:].sum() == 4
    for steps, alike in ((hidden, True), (~hidden, False)):
        other = series.frame.copy()
        other.loc[steps, "air"] += 3.0
        other.loc[steps & hidden, SERIES] += 3.0
        assert forecaster.predict(replace(series, frame=other)).equals(expected) == alike


def test_a_file_shorter_than_the_look_back_is_forecast_with_its_first_steps_hidden(
    run: TinyRun, forecaster: Forecaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing rows, empty cells at the start of the file, and an equal gap in a longer file are one input."""
    absent = CONTEXT - SHORT
    source = write(tmp_path / "short.csv", rows(SHORT))
    assert forecast(run.path, source, tmp_path / "next.csv") == 0
    (note,) = [line for line in capsys.readouterr().out.splitlines() if "begins in a gap" in line]
    steps = f"the first {absent} of the {CONTEXT} steps of the look-back"
    assert note == f"{source}: begins in a gap: 'load' has no value in {steps} (1 more begin in a gap): they are masked"
    expected = forecaster.predict(rows(SHORT))
    pd.testing.assert_frame_equal(dated(tmp_path / "next.csv"), expected, check_freq=False, check_exact=True)
    for table in (rows(CONTEXT, *range(absent)), rows(CONTEXT - 5, *range(absent)), rows(ROWS, *range(absent))):
        same(forecaster.predict(table), expected)
    assert not forecaster.predict(rows()).equals(expected)
    assert not forecaster.predict(rows(SHORT - 1)).equals(expected)


def test_a_column_that_begins_late_hides_no_step_of_the_others(
    run: TinyRun, forecaster: Forecaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = rows(CONTEXT)
    late.loc[:9, "oil"] = np.nan
    assert forecast(run.path, write(tmp_path / "late.csv", late), tmp_path / "next.csv") == 0
    assert "'oil' has no value in the first 10 of the 48 steps of the look-back: they are" in capsys.readouterr().out
    context, _ = forecaster.context(forecaster.read(tmp_path / "late.csv"))
    assert context.past_observed is not None
    assert context.past_observed[0].sum(0).tolist() == [CONTEXT, CONTEXT - 10]
    other = late.copy()
    other.loc[:9, "load"] += 100
    assert not forecaster.predict(other).equals(forecaster.predict(late))


def test_a_longer_file_loses_the_rows_before_its_look_back_as_before(forecaster: Forecaster, tmp_path: Path) -> None:
    table = rows()
    table.loc[:99, "oil"] = np.nan
    series = forecaster.read(write(tmp_path / "long.csv", table))
    assert len(series.frame) == ROWS - 100
    assert any(note.startswith("the first 100 rows were left out: 'oil'") for note in series.notes)
    table.loc[: ROWS - 31, "oil"] = np.nan
    series = forecaster.read(write(tmp_path / "late.csv", table))
    assert len(series.frame) == CONTEXT
    assert any(note.startswith(f"the first {ROWS - CONTEXT} rows were left out: 'oil'") for note in series.notes)


def test_less_than_half_of_the_look_back_is_refused(run: TinyRun, forecaster: Forecaster) -> None:
    assert np.isfinite(forecaster.predict(rows(CONTEXT // 2)).to_numpy()).all()
    with pytest.raises(InputError, match=r"has 23 rows .*, the look-back of the model is 48: give at least 24 rows"):
        forecaster.predict(rows(CONTEXT // 2 - 1))
    with pytest.raises(InputError, match="'load' has no value in the last 48 rows"):
        forecaster.predict(rows(ROWS, *range(CONTEXT)).assign(oil=1.0))


def test_intervals_of_a_short_file_have_the_spread_of_its_values(forecaster: Forecaster) -> None:
    plain = replace(forecaster)
    vars(plain)["forms"] = Forms(forecaster.forms.plain)  # only the longer table has earlier forecasts
    same(
        plain.predict(rows(SHORT), levels=[80]),
        plain.predict(rows(ROWS, *range(CONTEXT - SHORT)), levels=[80]),
    )


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_exported_model_forecasts_a_short_file(run: TinyRun, forecaster: Forecaster, tmp_path: Path) -> None:
    assert export(["--run", str(run.path), "--output", str(tmp_path / "model.pt2")]) == 0
    there = load(tmp_path / "model.pt2").predict(rows(SHORT))
    pd.testing.assert_frame_equal(there, forecaster.predict(rows(SHORT)), rtol=1e-6)
