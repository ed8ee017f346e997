"""Labels of which most cells are empty, as the names of holidays: an empty cell is a label of its own."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import load
from forecast.predict.forecaster import Forecaster
from forecast.training.train import train
from tests.support.forecasts import dated
from tests.support.small import CONTEXT, HORIZON, hourly, quick, write

WORDS = ["data=csv", "data.targets=[load]", "data.known_covariates=[day]", "training.max_steps=4"]


def table(empty: str | None) -> pd.DataFrame:
    """Return loads with the name of a feast on some days, and `empty` on the others."""
    rows = hourly(700)[["date", "load"]]
    feast = rows["date"].dt.day.isin([4, 14, 20])
    rows.loc[feast, "load"] += 20
    return rows.assign(day=np.where(feast, "Feast", empty))


def trained(folder: Path, empty: str | None) -> Forecaster:
    source = write(folder / "hours.csv", table(empty))
    run, _ = train(quick(folder / "outputs", f"data.path={source}", *WORDS))
    return load(run.path)


def test_empty_cells_count_like_a_word_in_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "word").mkdir()
    empty, word = trained(tmp_path, None), trained(tmp_path / "word", "A day")  # it has the place of the empty label
    rows = hourly(700 + HORIZON)[["date", "load"]]
    past, future = rows.iloc[-CONTEXT - HORIZON : -HORIZON], rows[["date"]].iloc[-HORIZON:]
    assert (past["date"].dt.day > 20).all()  # no feast in the look-back
    source = write(tmp_path / "past.csv", past.assign(day=None))
    known = write(tmp_path / "known.csv", future.assign(day=None))
    output = tmp_path / "next.csv"
    assert (
        predict(["--run", str(empty.path), "--input", str(source), "--known", str(known), "--output", str(output)]) == 0
    )
    assert "unknown" not in capsys.readouterr().out
    expected = word.predict(past.assign(day="A day"), known=future.assign(day="A day"))
    np.testing.assert_array_equal(dated(output).to_numpy(), expected.to_numpy())
    feast = empty.predict(past.assign(day=None), known=future.assign(day="Feast"))
    assert (feast["load"] != expected["load"]).any()
