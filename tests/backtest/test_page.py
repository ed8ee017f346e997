"""The answer on the page of a backtest."""

import numpy as np

from forecast.backtest.page import answer
from forecast.backtest.scores import Errors
from tests.backtest.test_scores import made


def test_the_answer_compares_the_model_with_the_naive_forecast() -> None:
    table = made()
    noise = 0.1 * np.random.default_rng(0).normal(size=20).repeat(4)
    better = answer(Errors.of(table.assign(value=table["truth"] + 1 + noise)), "seasonal naive forecast")
    assert better[1].startswith("The seasonal naive forecast has MAE 2")
    assert "% below it (95 % interval of the change: -" in better[2]
    worse = answer(Errors.of(table.assign(value=table["truth"] + 4 + noise)), "seasonal naive forecast")
    assert "% above it (95 % interval of the change: +" in worse[2]


def test_a_naive_forecast_without_error_has_no_percentage() -> None:
    table = made()
    assert "The naive forecast has no error." in answer(Errors.of(table.assign(naive=table["truth"])), "naive forecast")


def test_few_origins_have_no_interval() -> None:
    assert "The model's MAE is 50.0 % below it; there are too few origins for an interval." in answer(
        Errors.of(made(origins=3)), "naive forecast"
    )
