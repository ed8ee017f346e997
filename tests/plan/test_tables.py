from dataclasses import replace

import pytest

from forecast.plan.candidates import Candidate
from forecast.plan.estimates import Row, estimate
from forecast.plan.tables import plan_table
from tests.plan.made import MIB, PACE, measured, settings_of

FACTS = {"data": "etth1", "context_length": 20, "horizon": 10, "batch": 10, "steps": 250, "memory_gib": 1.0,
         "room_gib": 1.0}  # fmt: skip


def row_of(label: str, *trainings: float) -> Row:
    """Return the row of a mechanism with these training seconds by round, and the same numbers of MiB."""
    config = {"training": {"batch_size": 10, "evaluation_batch_size": 4}, "context_length": 20}
    paces = [replace(PACE, step=0.0, wait=0.0, between=0.0, first=seconds - 16) for seconds in trainings]
    answers = [measured(pace=pace, peak_mib=peak) for pace, peak in zip(paces, trainings, strict=True)]
    row = estimate(Candidate(label, settings_of(config)), answers, 400 * MIB)
    assert row["training_rounds"] == pytest.approx(trainings)
    return row


def notes(*rows: Row, rounds: int = 3) -> str:
    return "\n".join(plan_table(rows, {**FACTS, "rounds": rounds}).notes)


@pytest.mark.parametrize(
    ("middle", "chain"),
    [
        ((4.5, 5.5, 6.5), "mean < taylor ≈ linear < full"),
        ((2.5, 5.5, 9.5), "mean ≈ taylor ≈ linear ≈ full"),  # overlaps all others
        ((4.5, 5.5, 7.5), "mean < taylor ≈ linear ≈ full"),
        ((5.1, 5.5, 6.9), "mean < taylor < linear < full"),
    ],
)
def test_mechanisms_are_ordered_by_time_and_memory_with_their_certainty(middle: tuple[float, ...], chain: str) -> None:
    others = {"full": (9, 8, 7), "linear": middle, "mean": (1, 2, 3), "taylor": (3.5, 4, 5)}
    text = notes(*(row_of(label, *(20 + seconds for seconds in trainings)) for label, trainings in others.items()))
    assert f"training: {chain}; peak: {chain}; " in text
    assert ("<: less in every round" in text) == ("<" in chain)
    assert ("≈: order uncertain, rounds overlap" in text) == ("≈" in chain)


def test_a_mechanism_with_an_unknown_figure_is_not_ordered_by_it() -> None:
    rows = [row_of("full", 29, 28, 27), {**row_of("mean", 21, 22, 23), "peak_mib": None, "peak_rounds": None}]
    assert "training: mean < full; <: less in every round\n" in notes(*rows)


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_rounds_and_single_mechanisms_are_not_compared(rounds: int) -> None:
    both = [row_of("full", *[29.0] * rounds), row_of("mean", *[21.0] * rounds)]
    assert "the mechanisms are not compared: that needs at least 3 rounds" in notes(*both, rounds=rounds)
    assert "training: mean" not in notes(*both, rounds=rounds)
    assert "not compared" not in notes(both[0], rounds=rounds)


@pytest.mark.parametrize(
    ("trainings", "cell"),
    [((70.0, 90.0, 61.0), "1.02 to 1.5 min"), ((50.0, 61.0, 55.0), "50 s to 1.02 min"), ((50.0, 50.01), "50 s")],
)
def test_the_minimum_and_maximum_over_rounds_are_shown(trainings: tuple[float, ...], cell: str) -> None:
    table = plan_table([row_of("full", *trainings)], {**FACTS, "rounds": 3})
    assert table.cells[0][table.headings.index("min to max")] == cell


def test_disturbed_rounds_are_named_and_trainings_are_not_ordered() -> None:
    busy = {**row_of("mean", 21, 22, 23), "disturbed_rounds": 2}
    text = notes(row_of("full", 29, 28, 27), busy)
    assert "busy machine: other processes used the processors in rounds of mean (2); " in text
    assert "training: mean < full" not in text
    assert "peak:" in text
    assert "busy machine" not in notes(row_of("full", 29, 28, 27), row_of("mean", 21, 22, 23))
    answers = [measured(disturbed=disturbed) for disturbed in (True, False, None, True)]
    assert (
        estimate(Candidate("mean", settings_of({"training": {"evaluation_batch_size": 8}})), answers, 2**40)[
            "disturbed_rounds"
        ]
        == 2
    )


def test_a_suggested_batch_is_named_or_not_measured_on_a_gpu() -> None:
    row = row_of("full", 5.0, 5.0, 5.0)
    assert "less than 10 % faster: not measured on a GPU" in notes(row)
    assert "less than 10 % faster: full 1,024" in notes(row | {"suggested_batch": 1024})


def test_the_start_of_a_training_is_named_with_its_size_rate_and_steps() -> None:
    start = {"kind": "pretrained", "run": None, "weights": "998b6d22ea", "pretrained_on": "generated series only"}
    row = {**row_of("full", 29, 28, 27), "parameters": 969_808}
    facts = {**FACTS, "rounds": 3, "start_from": start, "learning_rate": 0.0003, "train": 5000}
    text = plan_table([row], facts).notes[0]
    assert text == (
        "start: the pretrained network 998b6d22; its architecture has 969,808 parameters; learning rate 0.0003; "
        "250 steps, 0.5 passes over the data"
    )
    assert "start" not in plan_table([row], {**FACTS, "rounds": 3, "start_from": None}).notes[0]
