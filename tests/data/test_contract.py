"""The contract of a model with its tables."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecast.data.contract import DataContract
from forecast.data.known import KnownEncoder
from forecast.data.scaler import Scaler
from forecast.tables.reading import Reading
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.times.clock import Clock
from forecast.tables.times.time_format import TimeFormat

PLAIN = DataContract(
    Roles(["load"]),
    Reading("date", frequency="h"),
    Clock(None, "h"),
    Scaler(np.zeros(1), np.ones(1), ["load"]),
    context_length=48,
    horizon=12,
)
FULL = DataContract(
    Roles(["load", "oil"], ["air", "sky"], ["wind", "kind"]),
    Reading(
        "when",
        TimeFormat(date_format="%d.%m.%Y"),
        "D",
        Policies("first", "mask", (-9999,)),
        last_rows=900,
        merges_series=True,
    ),
    Clock("UTC", "D", "06:00:00"),
    Scaler(np.arange(3.0), np.ones(3), ["load", "oil", "air"]),
    context_length=30,
    horizon=7,
    cycles=["day_of_week"],
    encoder=KnownEncoder(["wind"], [1.0], [2.0], {"kind": ["a", ""]}, {"sky": ["clear"]}),
    shown="B",
    merged=("meter",),
    unread=["wind", "kind"],
    least_context=24,
    drops_short=True,
)


@pytest.mark.parametrize("contract", [PLAIN, FULL], ids=["plain", "full"])
def test_a_contract_is_read_back_as_it_was_written(contract: DataContract) -> None:
    written = contract.to_dict()
    again = DataContract.from_dict(written, contract.context_length, contract.horizon)
    assert again.to_dict() == written
    assert (again.roles, again.reading, again.clock) == (contract.roles, contract.reading, contract.clock)


def test_a_plain_table_has_no_entries_for_what_it_does_not_need() -> None:
    assert list(PLAIN.to_dict()["data"]) == [
        *("targets", "past_covariates", "time_column", "frequency", "time_zone", "cycles", "duplicates", "missing")
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"roles": Roles("load")}, "targets is not a list"),  # type: ignore[arg-type]
        ({"unread": None}, "unread is not a list"),
        ({"roles": Roles(["load", "oil"])}, "the scaler has other columns"),
        ({"roles": Roles(["load"], known=["wind"])}, "the encoder has other columns"),
        ({"reading": Reading(frequency="h")}, "None is not a name"),
        ({"reading": Reading("da\x1bte", frequency="h")}, "has control characters"),
        ({"reading": Reading("date", frequency="h", last_rows=0)}, "last_rows 0 is not a number of rows"),
        ({"cycles": ["hour_of_day", "hour_of_day"]}, "names a calendar cycle twice"),
        ({"scaler": Scaler(np.zeros(1), np.zeros(1), ["load"])}, "the scaler is not finite or not positive"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **change)


def test_a_table_may_lack_what_the_forecast_does_not_depend_on() -> None:
    assert FULL.columns == ["load", "oil", "air", "sky"]
    assert (FULL.known, FULL.categorical) == ([], ["sky"])
    assert replace(FULL, unread=[]).columns == ["load", "oil", "air", "sky", "wind", "kind"]
    assert FULL.channels == ["load", "oil", "air"]


def test_a_model_that_masks_gaps_needs_half_of_its_look_back() -> None:
    assert (PLAIN.least_rows, FULL.least_rows) == (48, 15)


def test_text_is_refused_where_training_read_numbers() -> None:
    roles = replace(FULL, unread=[]).roles_to_read
    assert (roles.numeric, roles.categorical) == (["air", "wind"], ["kind", "sky"])
