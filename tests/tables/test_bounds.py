"""Limits that a user knows: values outside are refused with their row, and a contract keeps them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.data.settings import DataSettings
from forecast.predict.input import read_input
from forecast.tables.bounds import Bounds
from forecast.tables.times.buckets import Resampling
from tests.support.contracts import contract_of
from tests.support.reading import series_from_frame
from tests.support.small import compose


def table() -> pd.DataFrame:
    times = pd.date_range("2024-01-01", periods=48, freq="h", name="date")
    return pd.DataFrame({"load": np.arange(48.0) ** 2 % 89, "oil": -(np.arange(48.0) ** 2)}, index=times)


def test_a_value_outside_is_refused_with_its_row_and_the_number_of_such_values() -> None:
    changed = table()
    changed.iloc[[7, 9], 0] = -3, -4
    with pytest.raises(InputError, match=r"column 'load', row 9: -3 is outside of data\.bounds \[0, null\] \(2 such"):
        series_from_frame(changed, bounds=Bounds.of({"load": [0, None]}))
    with pytest.raises(InputError, match=r"column 'oil', row 3: -1 is outside of data\.bounds \[0, 100\] \(47 such"):
        series_from_frame(table(), bounds=Bounds.of([0, 100]))
    assert len(series_from_frame(table(), bounds=Bounds.of({"oil": [None, 0], "load": [0, 88]})).frame) == 48


def test_bounds_are_those_of_targets_and_not_of_covariates() -> None:
    series = series_from_frame(table(), covariates=["oil"], bounds=Bounds.of([0, None]))
    assert len(series.frame) == 48


def test_the_bounds_of_a_sum_are_those_of_the_sum() -> None:
    sums = {"bounds": Bounds.of({"load": [0, 150]}), "resampling": Resampling("2h", {"load": "sum"})}
    with pytest.raises(InputError, match=r"column 'load', row \d+: 1\d\d is outside"):
        series_from_frame(table(), **sums)
    means = {"bounds": Bounds.of({"load": [0, 88]}), "resampling": Resampling("2h")}
    assert len(series_from_frame(table(), **means).frame) == 24


def test_a_value_outside_in_a_panel_is_named_with_its_id() -> None:
    parts = [table()[["load"]].reset_index().assign(id=name) for name in "ab"]
    parts[1].loc[5, "load"] = 90.0
    with pytest.raises(InputError, match=r"column 'load', row 55, id 'b': 90 is outside of data\.bounds \[null, 89\]"):
        series_from_frame(pd.concat(parts), ids=["id"], bounds=Bounds.of([None, 89]))


def test_predict_refuses_an_input_outside_of_the_bounds_of_training() -> None:
    contract = contract_of(context_length=12, bounds=Bounds.of({"load": [0, 88]}), whole=["load"])
    again = DataContract.from_dict(contract.to_dict(), 12, 1)
    assert (again.reading.bounds, again.whole) == (contract.reading.bounds, ["load"])
    assert len(read_input(again, table(), "the input").frame) == 48
    with pytest.raises(InputError, match=r"the input, column 'load', row 49: 89 is outside"):
        read_input(again, table().assign(load=[*table()["load"].iloc[:-1], 89.0]), "the input")


def test_a_contract_without_bounds_has_no_entry_for_them() -> None:
    assert not {"bounds", "whole_numbers"} & contract_of().to_dict()["data"].keys()
    with pytest.raises(ValueError, match="whole_numbers names other columns"):
        contract_of(whole=["oil"])


@pytest.mark.parametrize(
    "value",
    [
        [0],
        [1, 0],
        [0, 0],
        ["a", None],
        [True, None],
        [float("nan"), None],
        {"load": 0},
        {"load": [0, 1, 2]},
        {"load": None},
    ],
)
def test_bounds_of_another_shape_are_refused(value: Any) -> None:
    data = compose("data=csv", "data.path=x.csv")["data"]
    with pytest.raises(InputError, match=r"^data\.bounds.*such as data\.bounds=\[0,null\]$"):
        DataSettings.parse({**data, "bounds": value})


def test_bounds_are_words_of_a_command_line() -> None:
    for word, bounds in (("[0,null]", Bounds((0, None))), ("{load: [0,9.5]}", Bounds(by_name={"load": (0, 9.5)}))):
        data = compose("data=csv", "data.path=x.csv", f"data.bounds={word}")["data"]
        assert DataSettings.parse(data).reading.bounds == bounds
