"""The frequency of an input table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.data.known import KnownEncoder
from forecast.data.scaler import Scaler
from forecast.predict.input import read_input, without_training_options
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from tests.support.contracts import contract_of


def table(frequency: str, rows: int = 40) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=rows, freq=frequency)
    return pd.DataFrame({"load": np.arange(float(rows))}, index=index)


def expected(frequency: str, shown: str | None, missing: str = "ffill") -> DataContract:
    return contract_of(frequency=frequency, policies=Policies("error", missing), shown=shown)


@pytest.mark.parametrize(
    ("trained", "shown", "step", "rows"),
    [("D", "B", "B", 54), ("D", None, "B", 54), ("h", "2h", "2h", 79), ("h", "2h", "h", 40)],
)
def test_rows_at_the_step_of_training_rows_are_accepted(trained: str, shown: str | None, step: str, rows: int) -> None:
    series = read_input(expected(trained, shown), table(step), "mine")
    assert (series.frequency, len(series.frame)) == (trained, rows)


@pytest.mark.parametrize(
    ("trained", "shown", "step", "missing"),
    [("h", None, "2h", "ffill"), ("h", "2h", "4h", "ffill"), ("D", None, "B", "error"), ("D", "B", "W-MON", "ffill")],
)
def test_rows_at_another_step_are_refused(trained: str, shown: str | None, step: str, missing: str) -> None:
    with pytest.raises(InputError, match=rf"^mine: its frequency is {step}, the model was trained at {trained}"):
        read_input(expected(trained, shown, missing), table(step), "mine")


@pytest.mark.parametrize(
    ("trained", "rows"), [("BQE", 40), ("SMS", 40), ("WOM-3FRI", 40), *(("BME", rows) for rows in (12, 20))]
)
def test_the_step_of_training_is_tried_where_the_rows_show_another(trained: str, rows: int) -> None:
    for begin in pd.date_range("1980-01-01", periods=40, freq="MS"):
        index = pd.date_range(begin, periods=rows, freq=trained)
        given = pd.DataFrame({"load": np.arange(float(rows))}, index=index)
        series = read_input(replace(expected(trained, None, "error"), context_length=rows), given, "mine")
        assert len(series.frame) == rows


def test_rows_before_those_of_training_may_have_flaws() -> None:
    given = table("h", 60).drop(index=pd.date_range("2024-01-01 05:00", periods=3, freq="h"))
    with pytest.raises(InputError, match="missing"):
        read_input(expected("h", None, "error"), given, "mine")
    contract = expected("h", None, "error")
    limited = replace(contract, reading=replace(contract.reading, last_rows=30))
    series = read_input(limited, given, "mine")
    assert len(series.frame) == 30
    assert "the first 27 rows were left out: data.last_rows=30 begins at 2024-01-02 06:00:00" in series.notes
    assert len(read_input(limited, given.tail(25), "mine").frame) == 25  # a shorter table is whole
    limited = replace(contract, reading=replace(contract.reading, last_rows=3))
    assert len(read_input(limited, given, "mine").frame) == 20  # the look-back is needed


@pytest.mark.parametrize(
    ("rows", "empty", "note"),
    [
        (20, 0, None),
        (30, 4, None),
        (
            20,
            4,
            "begins in a gap: 'load' has no value in the first 4 of the 20 steps of the look-back: they are masked",
        ),
        (
            17,
            0,
            "begins in a gap: 'load' has no value in the first 3 of the 20 steps of the look-back: they are masked",
        ),
        (
            17,
            2,
            "begins in a gap: 'load' has no value in the first 5 of the 20 steps of the look-back: they are masked",
        ),
    ],
)
def test_a_note_counts_the_steps_before_the_first_value(rows: int, empty: int, note: str | None) -> None:
    given = table("h", rows)
    given.iloc[:empty] = np.nan
    notes = read_input(expected("h", None, "mask"), given, "mine").notes
    assert [each for each in notes if "begins" in each] == ([] if note is None else [note])


def test_a_gap_at_the_end_of_a_known_column_is_filled_also_under_mask() -> None:
    given = table("h", 40).assign(air=1.0)
    given.iloc[-1, 1] = np.nan
    contract = expected("h", None, "mask")
    known = replace(contract, roles=Roles(["load"], known=["air"]), encoder=KnownEncoder(["air"], [0.0], [1.0]))
    *_, note = read_input(known, given, "mine").notes
    assert note == "ends in a gap: 'air' has no value in the last 1 rows: filled with the last value before"
    scaler = Scaler(np.zeros(2), np.ones(2), ["load", "air"])
    *_, note = read_input(replace(contract, roles=Roles(["load"], ["air"]), scaler=scaler), given, "mine").notes
    assert note.endswith("the encoder-decoder uses the window's mean there, the linear path the last value before")


def test_too_few_rows_after_a_late_column_have_the_reason() -> None:
    given = table("h", 40)
    given.iloc[:25, 0] = np.nan
    message = r"it has 15 rows \(the first 25 rows were left out: 'load' has no value before .*\), .*at least 20 rows"
    with pytest.raises(InputError, match=message):
        read_input(expected("h", None, "ffill"), given, "mine")


@pytest.mark.parametrize(("missing", "least"), [("mask", 10), ("ffill", 20), ("interpolate", 20), ("error", 20)])
def test_a_masked_look_back_needs_half_of_its_rows(missing: str, least: int) -> None:
    assert len(read_input(expected("h", None, missing), table("h", least), "mine").frame) == least
    with pytest.raises(InputError, match=rf"it has {least - 1} rows, .* is 20: give at least {least} rows"):
        read_input(expected("h", None, missing), table("h", least - 1), "mine")


@pytest.mark.parametrize(
    ("dates", "error"),
    [
        (["03/04/2024 01:00", "03/04/2024 02:00"], r"is ambiguous, day or month first: write dates as [^,]*$"),
        (["01.02.24", "02.02.24"], r"has a year of two digits: write dates as [^,]*$"),
        (["some day", "another"], r"no column holds dates .*: write dates as [^,]*$"),
    ],
)
def test_an_input_is_not_advised_to_set_an_option_of_training(dates: list[str], error: str) -> None:
    given = pd.DataFrame({"when": dates * 20, "load": np.arange(40.0)})
    with pytest.raises(InputError, match=error), without_training_options():
        read_input(expected("h", None), given, "mine")
