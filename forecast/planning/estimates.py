"""What a plan says of each mechanism: the answers of its process, worked out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median, median_low
from typing import Any

from forecast.benchmarking.search import MEMORY
from forecast.planning.answer import AGAIN, MEASURE, SMALL, STEP, Answer, Ask
from forecast.planning.candidates import Candidate
from forecast.planning.pace import Pace

Row = dict[str, Any]
Put = Callable[[Ask, str], Answer]
"""Puts a question about the mechanism of that label."""

FIELDS = (
    *("loop_seconds", "wait_seconds", "validation_seconds", "epoch_seconds", "training_seconds", "training_rounds"),
    *("result_seconds", "peak_mib", "peak_rounds", "steps_timed", "largest_batch", "batch_bound"),
    *("largest_look_back", "look_back_bound", "trials"),
)
"""The keys of a row beside `mechanism` and `why`; None where not known."""

ROUNDS = {"training_seconds": "training_rounds", "peak_mib": "peak_rounds"}
"""Of these the row that is the median of others keeps what each of them had."""


def measure(candidate: Candidate, put: Put, seconds: float, memory: int, first: Answer | None = None) -> Answer:
    """Have a mechanism measured; at small sizes, for its memory alone, where it does not fit as it is.

    After a `first` time its steps alone are measured: what that found of other sizes stays.
    """
    if candidate.config is None:
        return Answer(f"refused: {candidate.why}")
    if first is not None:
        again = put(Ask(AGAIN, candidate.config, seconds, memory), candidate.label)
        return replace(again, footprint=first.footprint, longest=first.longest)
    answer = put(Ask(MEASURE, candidate.config, seconds, memory), candidate.label)
    if not answer.why.startswith(MEMORY):
        return answer
    small = put(Ask(SMALL, candidate.config, seconds, memory), candidate.label)
    return replace(small, why=answer.why)


def estimate(candidate: Candidate, answer: Answer, memory: int) -> Row:
    """Give the row of a mechanism; `memory` is what a training may take, in bytes."""
    row: Row = {"mechanism": candidate.label, "why": answer.why, **dict.fromkeys(FIELDS)}
    if answer.length is None or candidate.config is None:
        return row
    if answer.pace is not None:
        row |= _times(answer, answer.pace)
    if answer.footprint is not None and answer.longest is not None:
        row |= _sizes(candidate.config["training"], answer, memory)
    if answer.peak_mib is not None and answer.peak_mib * 2**20 > memory:
        row["why"] = f"{MEMORY}: its peak is {answer.peak_mib / 2**10:,.2f} GiB"
    return row


def try_sizes(candidate: Candidate, row: Row, put: Put, memory: int) -> list[Row]:
    """Give what became of a step at the largest batch, and of one at the largest look-back."""
    config = candidate.config
    if config is None:
        return []
    changed: dict[str, dict[str, Any]] = {}
    if row["largest_batch"]:
        changed["batch"] = {"training": {**config["training"], "batch_size": row["largest_batch"]}}
    if row["largest_look_back"]:
        changed["look-back"] = {"context_length": row["largest_look_back"]}
    trials = []
    for size, change in changed.items():
        answer = put(Ask(STEP, {**config, **change}, 0.0, memory), candidate.label)
        trials.append({"size": size, "peak_mib": answer.peak_mib, "why": answer.why})
    return trials


def middle(rows: Sequence[Row]) -> Row:
    """Give the median of a mechanism's rows, of whole numbers the lower of two; what is no number is the last's.

    What is in ROUNDS has its values by row too, None where one of them does not know it.
    """
    kept = {rounds: [row[key] for row in rows] for key, rounds in ROUNDS.items()}
    last = {**rows[-1], **{rounds: None if None in values else values for rounds, values in kept.items()}}
    for key in last:
        values = [row[key] for row in rows]
        if all(type(each) is int for each in values):
            last[key] = median_low(values)
        elif all(type(each) in (int, float) for each in values):
            last[key] = median(values)
    return last


def always_less(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Tell whether every round of the one lies below every round of the other; of a round alone that says nothing."""
    return min(len(ones), len(others)) > 1 and max(ones) < min(others)


def _times(answer: Answer, pace: Pace) -> Row:
    assert answer.length is not None
    length = answer.length
    return {
        "loop_seconds": pace.loop,
        "wait_seconds": pace.wait,
        "validation_seconds": pace.validation_seconds(length),
        "epoch_seconds": pace.epoch_seconds(length),
        "training_seconds": pace.training_seconds(length),
        "result_seconds": pace.result_seconds(length),
        "peak_mib": answer.peak_mib,
        "steps_timed": answer.steps,
    }


def _sizes(training: dict[str, Any], answer: Answer, memory: int) -> Row:
    footprint, length = answer.footprint, answer.length
    assert footprint is not None
    assert length is not None
    assert answer.longest is not None
    evaluation = min(int(training["evaluation_batch_size"]), max(length.validation, length.test))
    batch = footprint.largest_batch(evaluation, memory, length.train)
    look_back = footprint.largest_look_back(length.batch, evaluation, memory, answer.longest)
    return {
        "largest_batch": batch,
        "batch_bound": "data" if batch == length.train else "memory",
        "largest_look_back": look_back,
        "look_back_bound": "data" if look_back == answer.longest else "memory",
    }
