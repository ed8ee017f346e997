"""The steps from the raw cells of a table to a series."""

import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.draft import (
    Draft,
    with_chosen_columns,
    with_joined_parts,
    with_time_column,
    with_times,
    without_empty_rows,
)
from forecast.tables.reading import Reading
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles

FRAME = pd.DataFrame({"date ": ["2024-01-01", None, "2024-01-02"], "load": [1.0, None, 2.0], "air": [3.0, None, 4.0]})


def draft(roles: Roles, frame: pd.DataFrame = FRAME) -> Draft:
    return Draft.of(frame, roles, Reading(), "mine.csv")


def test_a_step_changes_neither_its_draft_nor_the_frame() -> None:
    before = FRAME.copy()
    first = with_time_column(draft(Roles(["load"])))
    second = without_empty_rows(first)
    assert (len(first.table), len(first.rows), second.rows.tolist()) == (3, 0, [2, 4])
    assert (first.lines("rows"), second.lines("rows")) == ((), ("1 blank rows were left out",))
    pd.testing.assert_frame_equal(FRAME, before)


def test_notes_come_in_the_order_of_their_kinds_not_of_the_steps() -> None:
    steps = draft(Roles()).noted("times", ["b"]).noted("panel", ["a"]).noted("times", ["c"])
    assert steps.lines("panel", "times", "marks") == ("a", "b", "c")
    assert steps.lines("names") == ("column names without their blanks: 'date'",)


def test_times_that_are_parsed_again_have_their_notes_once() -> None:
    table = pd.DataFrame({"date": ["13/01/2024", "14/01/2024"], "load": [1.0, 2.0]})
    parsed = with_times(with_joined_parts(without_empty_rows(with_time_column(draft(Roles(["load"]), table)))))
    assert with_times(parsed).lines("times") == parsed.lines("times") == ("dates were read as day/month/year",)


def test_the_time_column_is_no_covariate_and_columns_without_a_role_are_unused() -> None:
    found = without_empty_rows(with_time_column(draft(Roles(["load"]))))
    chosen = with_chosen_columns(found)
    assert (chosen.chosen, chosen.unused, chosen.targets, chosen.others) == (["load"], ["air"], ["load"], [])
    with pytest.raises(InputError, match="'date' is the time column, not a covariate"):
        with_chosen_columns(without_empty_rows(with_time_column(draft(Roles(None, ["date"])))))


def test_series_are_merged_only_by_a_policy_for_equal_times() -> None:
    assert Reading(policies=Policies("mean"), merges_series=True).merges_by == "mean"
    assert Reading(policies=Policies("mean")).merges_by is None
    assert Reading(merges_series=True).merges_by is None
