from dataclasses import replace

import pytest

from forecast.plan.candidates import Candidate
from forecast.plan.estimates import Row, estimate
from forecast.plan.tables import plan_table
from tests.plan.made import MIB, PACE, measured, settings_of

FACTS = {"data": "etth1", "context_length": 20, "horizon": 10, "batch": 10, "steps": 250, "memory_gib": 1.0,
         "room_gib": 1.0}  # fmt: skip


def row_of(label: str, *trainings: float) -> Row:
    """Return the row of a mechanism whose training took so many seconds, by round, and a MiB for each."""
    config = {"training": {"batch_size": 10, "evaluation_batch_size": 4}, "context_length": 20}
    paces = [replace(PACE, step=0.0, wait=0.0, between=0.0, first=each - 16) for each in trainings]
    answers = [measured(pace=pace, peak_mib=each) for pace, each in zip(paces, trainings, strict=True)]
    row = estimate(Candidate(label, settings_of(config)), answers, 400 * MIB)
    assert row["training_rounds"] == pytest.approx(trainings)
    return row


def notes(*rows: Row, rounds: int = 3) -> str:
    return "\n".join(plan_table(rows, {**FACTS, "rounds": rounds}).notes)


@pytest.mark.parametrize(
    ("middle", "chain"),
    [
        ((4.5, 5.5, 6.5), "mean < taylor ≈ linear < full"),
        ((2.5, 5.5, 9.5), "mean ≈ taylor ≈ linear ≈ full"),  # reaches over what is apart
        ((4.5, 5.5, 7.5), "mean < taylor ≈ linear ≈ full"),
        ((5.1, 5.5, 6.9), "mean < taylor < linear < full"),
    ],
)
def test_mechanisms_stand_by_time_and_memory_as_far_as_the_rounds_tell(middle: tuple[float, ...], chain: str) -> None:
    others = {"full": (9, 8, 7), "linear": middle, "mean": (1, 2, 3), "taylor": (3.5, 4, 5)}
    said = notes(*(row_of(label, *(20 + each for each in trainings)) for label, trainings in others.items()))
    assert f"training: {chain}; peak: {chain}; " in said
    assert ("<: in every round" in said) == ("<" in chain)
    assert ("≈: in no certain order, since rounds overlap" in said) == ("≈" in chain)


def test_what_is_not_known_of_a_mechanism_is_in_no_order() -> None:
    apart = [row_of("full", 29, 28, 27), {**row_of("mean", 21, 22, 23), "peak_mib": None, "peak_rounds": None}]
    assert "training: mean < full; <: in every round\n" in notes(*apart)


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_rounds_tell_nothing_apart_and_one_mechanism_is_in_no_order(rounds: int) -> None:
    both = [row_of("full", *[29.0] * rounds), row_of("mean", *[21.0] * rounds)]
    assert "which of two mechanisms takes less, fewer than 3 rounds do not tell" in notes(*both, rounds=rounds)
    assert "training: mean" not in notes(*both, rounds=rounds)
    assert "do not tell" not in notes(both[0], rounds=rounds)


@pytest.mark.parametrize(
    ("trainings", "cell"),
    [((70.0, 90.0, 61.0), "1.02 to 1.5 min"), ((50.0, 61.0, 55.0), "50 s to 1.02 min"), ((50.0, 50.01), "50 s")],
)
def test_the_rounds_are_shown_from_the_least_to_the_most(trainings: tuple[float, ...], cell: str) -> None:
    table = plan_table([row_of("full", *trainings)], {**FACTS, "rounds": 3})
    assert table.cells[0][table.headings.index("of the rounds")] == cell


def test_rounds_on_a_busy_machine_are_named_and_put_no_training_before_another() -> None:
    busy = {**row_of("mean", 21, 22, 23), "disturbed_rounds": 2}
    said = notes(row_of("full", 29, 28, 27), busy)
    assert "busy machine: other processes took processors in rounds of mean (2); " in said
    assert "training: mean < full" not in said
    assert "peak:" in said
    assert "busy machine" not in notes(row_of("full", 29, 28, 27), row_of("mean", 21, 22, 23))
    answers = [measured(disturbed=each) for each in (True, False, None, True)]
    assert (
        estimate(Candidate("mean", settings_of({"training": {"evaluation_batch_size": 8}})), answers, 2**40)[
            "disturbed_rounds"
        ]
        == 2
    )
