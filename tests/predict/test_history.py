"""The past of a backtest: its origins, and gaps before them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Origins, before
from forecast.tables.repair import Policies
from tests.conftest import TinyRun
from tests.support.contracts import with_contract
from tests.support.small import CONTEXT

HOURS = pd.date_range("2024-03-25", periods=24 * 14, freq="h")


@pytest.mark.parametrize(
    ("origins", "times"),
    [
        (Origins("2024-03-26", "2024-03-29", "1d"), ["03-26 00", "03-27 00", "03-28 00", "03-29 00"]),
        (Origins("2024-03-26 05:30", "2024-03-28", 24), ["03-26 06", "03-27 06"]),
        (Origins("2024-03-26", "2024-04-30", "1W-MON"), ["04-01 00"]),
        (Origins("2024-03-26", "2024-03-26 12:00", "5h"), ["03-26 00", "03-26 05", "03-26 10"]),
        (Origins("2024-04-05"), ["04-05 00", "04-06 00", "04-07 00"]),
    ],
)
def test_origins_are_rows_one_step_apart(origins: Origins, times: list[str]) -> None:
    assert [f"{time:%m-%d %H}" for time in HOURS[origins.places(HOURS, 24)]] == times


def test_days_follow_the_clock_over_its_change() -> None:
    local = pd.date_range("2024-03-25", periods=24 * 14, freq="h", tz="Europe/Berlin")
    times = local[Origins("2024-03-29 06:00", "2024-04-02 06:00", "1d").places(local, 24)]
    assert [time.hour for time in times] == [6] * 5


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        (Origins("yesterday week"), "is not a time"),
        (Origins("2024-03-26T00:00+01:00"), "leave the zone out"),
        (Origins("2024-03-26", step="seven days"), "step seven days: is not a time"),
        (Origins("2024-03-26", step="-1d"), "above 0"),
        (Origins("2024-03-26", step=0), "above 0"),
        (Origins("2024-03-26", step="10min"), "shorter than the step of the table"),
        (Origins("2024-04-08"), "start earlier"),
        (Origins("2024-03-26", "2024-03-25"), "start earlier"),
    ],
)
def test_origins_that_cannot_be_are_refused(origins: Origins, words: str) -> None:
    with pytest.raises(InputError, match=words):
        origins.places(HOURS, 24)


@pytest.fixture(scope="module")
def filling(tiny_run: TinyRun) -> Forecaster:
    """Return a model whose gaps are filled on a line to the value after them."""
    return with_contract(Forecaster.load(tiny_run.path), policies=Policies(missing="interpolate"))


def test_a_fill_before_an_origin_does_not_read_the_value_after_it(filling: Forecaster, tiny_run: TinyRun) -> None:
    table, origin = tiny_run.table.copy(), 600
    table.loc[origin - 3 : origin + 2, "load"] = np.nan  # `oil` has values, so that a forecast can begin
    start = table["date"].iloc[origin]
    history = filling.history(table, Origins(start, step=24))
    seen = before(history, int(history.places[0])).frame["load"]

    assert seen.index[-1] == start - pd.Timedelta(hours=1)
    assert list(seen[-3:]) == [table["load"][origin - 4]] * 3
    whole = history.past.series.frame["load"]
    assert whole.loc[start - pd.Timedelta(hours=1)] != table["load"][origin - 4]


def test_no_forecast_begins_after_a_row_without_targets(filling: Forecaster, tiny_run: TinyRun) -> None:
    table = tiny_run.table.copy()
    table.loc[599, ["load", "oil"]] = np.nan
    origins = Origins(table["date"].iloc[600], table["date"].iloc[624], 24)
    history = filling.history(table, origins)
    assert (list(history.times), history.left_out) == ([table["date"].iloc[624]], 1)


def test_the_first_origin_has_a_look_back_before_it(tiny_run: TinyRun) -> None:
    model = Forecaster.load(tiny_run.path)
    history = model.history(tiny_run.table, Origins("2016-07-01", step=12))
    assert history.times[0] == tiny_run.table["date"].iloc[CONTEXT]
    with pytest.raises(InputError, match=f"each needs {CONTEXT} rows before it"):
        model.history(tiny_run.table, Origins("2016-07-01", "2016-07-02"))


def test_a_limit_of_rows_holds_before_each_origin(tiny_run: TinyRun) -> None:
    model = Forecaster.load(tiny_run.path)
    limited = with_contract(model, reading=replace(model.contract.reading, last_rows=60))
    history = limited.history(tiny_run.table, Origins("2016-07-10", step=240))
    assert len(history.places) == 2
    assert [len(before(history, place).frame) for place in history.places] == [60, 60]
