from typing import Any

import pytest

from forecast.planning.candidates import Candidate
from forecast.planning.estimates import Row, estimate, middle
from forecast.planning.sheets import check_sheet, plan_sheet
from tests.planning.made import MIB, measured

FACTS = {"data": "etth1", "context_length": 20, "horizon": 10, "batch": 10, "steps": 250, "memory_gib": 1.0,
         "room_gib": 1.0}  # fmt: skip


def row_of(label: str, *trainings: float) -> Row:
    """Give the row of a mechanism whose training took so many seconds, by round, and a thousand MiB for each."""
    config = {"training": {"batch_size": 10, "evaluation_batch_size": 4}, "context_length": 20}
    row = estimate(Candidate(label, config), measured(), 400 * MIB)
    return middle([{**row, "training_seconds": seconds, "peak_mib": 1000 * seconds} for seconds in trainings])


def notes(*rows: Row, rounds: int = 3) -> str:
    return "\n".join(plan_sheet(rows, {**FACTS, "rounds": rounds}).notes)


def test_mechanisms_stand_by_time_and_memory_and_what_the_rounds_do_not_tell_apart_is_marked() -> None:
    rows = [row_of("full", 9, 8, 7), row_of("mean", 1, 2, 3), row_of("linear", 6, 5, 7), row_of("taylor", 3.5, 4, 5)]
    chain = "mean < taylor ≈ linear ≈ full"
    assert f"training: {chain}; peak: {chain}; ≈: their rounds overlap" in notes(*rows)
    apart = [row_of("full", 9, 8, 7), {**row_of("mean", 1, 2, 3), "peak_rounds": None}]
    assert "training: mean < full\n" in notes(*apart)


def test_one_round_tells_nothing_apart_and_one_mechanism_is_in_no_order() -> None:
    several = notes(row_of("full", 9), row_of("mean", 1), rounds=1)
    assert "which of two mechanisms takes less, one round does not tell: give --rounds more" in several
    alone = notes(row_of("full", 9), rounds=1)
    for said in (several, alone):
        assert "training: mean" not in said
    assert "does not tell" not in alone


@pytest.mark.parametrize(
    ("trainings", "cell"), [((70.0, 90.0, 61.0), "1.02 to 1.5 min"), ((50.0, 61.0, 55.0), "50 s to 1.02 min")]
)
def test_the_rounds_are_shown_from_the_least_to_the_most(trainings: tuple[float, ...], cell: str) -> None:
    sheet = plan_sheet([row_of("full", *trainings)], {**FACTS, "rounds": 3})
    assert sheet.cells[0][sheet.headings.index("of the rounds")] == cell


@pytest.mark.parametrize(
    ("claimed", "words"), [(True, "the plans all stood the other way"), (False, "the plans did not tell them apart")]
)
def test_what_is_out_of_order_says_whether_the_plans_claimed_it(claimed: bool, words: str) -> None:
    swap = {"mechanisms": ["full", "mean"], "apart": 0.1, "alike": 4, "claimed": claimed}
    ranks: dict[str, Any] = {"real": ["mean", "full"], "foretold": ["full", "mean"], "swapped": [swap]}
    settled = {**ranks, "foretold": ["mean", "full"], "swapped": []}
    check = {"pairs": 5, "mechanisms": {}, "ranking": {"seconds": ranks, "peak_mib": settled}}
    (said,) = (note for note in check_sheet(check).notes if "out of order" in note)
    assert said.startswith("by time out of order: full and mean, 10.0% apart in the trainings")
    assert f"which stood so in 4 of 5 turns; {words}" in said
