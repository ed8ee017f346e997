"""What a plan says of each mechanism: the answers of its process, worked out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median, median_low
from typing import Any

from forecast.benchmark.limits import MEMORY
from forecast.plan.candidates import Candidate
from forecast.plan.messages import AGAIN, MEASURE, SMALL, STEP, Answer, Ask

Row = dict[str, Any]
Put = Callable[[Ask, str], Answer]
"""Puts a question about the mechanism of that label."""

FIELDS = (
    *("loop_seconds", "wait_seconds", "validation_seconds", "epoch_seconds", "training_seconds", "training_rounds"),
    *("result_seconds", "peak_mib", "peak_rounds", "steps_timed", "largest_batch", "batch_bound"),
    *("largest_look_back", "look_back_bound", "trials", "disturbed_rounds"),
)
"""The keys of a row beside `mechanism` and `why`; None where not known."""

BY_ROUND = {"training_seconds": "training_rounds", "peak_mib": "peak_rounds"}
"""Keys of medians, and of what each round had of them."""


def measure(candidate: Candidate, put: Put, seconds: float, memory: int, first: Answer | None = None) -> Answer:
    """Measure a mechanism, or its memory at small sizes if it does not fit.

    After a `first` answer only its steps are timed; the other results stay.
    """
    if candidate.config is None:
        return Answer(f"refused: {candidate.why}")
    if first is not None:
        again = put(Ask(AGAIN, candidate.config, seconds, memory), candidate.label)
        return replace(again, length=first.length, footprint=first.footprint, longest=first.longest)
    answer = put(Ask(MEASURE, candidate.config, seconds, memory), candidate.label)
    if not answer.why.startswith(MEMORY):
        return answer
    small = put(Ask(SMALL, candidate.config, seconds, memory), candidate.label)
    return replace(small, why=answer.why)


def estimate(candidate: Candidate, answers: Sequence[Answer], memory: int) -> Row:
    """Return a mechanism's row: medians over its rounds, and each round's value for the keys in BY_ROUND.

    The median of whole numbers is the lower of two; it is None where a round lacks the value. `memory` is the
    limit of a training in bytes.
    """
    rounds = [_round(candidate, answer, memory) for answer in answers]
    row: Row = {"mechanism": candidate.label, **{key: _middle([each[key] for each in rounds]) for key in rounds[-1]}}
    for key, by_round in BY_ROUND.items():
        row[by_round] = None if row[key] is None else [each[key] for each in rounds]
    row["disturbed_rounds"] = sum(answer.disturbed is True for answer in answers)
    peak = row["peak_mib"]
    if peak is not None and peak * 2**20 > memory:
        row["why"] = f"{MEMORY}: its peak is {peak / 2**10:,.2f} GiB"
    return row


def try_sizes(candidate: Candidate, row: Row, put: Put, memory: int) -> list[Row]:
    """Return what became of a step at the largest batch, and of one at the largest look-back."""
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


def _round(candidate: Candidate, answer: Answer, memory: int) -> Row:
    row: Row = {"why": answer.why, **dict.fromkeys(FIELDS)}
    length, pace, footprint = answer.length, answer.pace, answer.footprint
    if length is None or candidate.config is None:
        return row
    if pace is not None:
        row |= {
            "loop_seconds": pace.loop,
            "wait_seconds": pace.wait,
            "validation_seconds": pace.validation_seconds(length),
            "epoch_seconds": pace.epoch_seconds(length),
            "training_seconds": pace.training_seconds(length),
            "result_seconds": pace.result_seconds(length),
            "peak_mib": answer.peak_mib,
            "steps_timed": answer.steps,
        }
    if footprint is not None and answer.longest is not None:
        wanted = int(candidate.config["training"]["evaluation_batch_size"])
        evaluation = min(wanted, max(length.validation, length.test))
        batch = footprint.largest_batch(evaluation, memory, length.train)
        look_back = footprint.largest_look_back(length.batch, evaluation, memory, answer.longest)
        row |= {
            "largest_batch": batch,
            "batch_bound": "data" if batch == length.train else "memory",
            "largest_look_back": look_back,
            "look_back_bound": "data" if look_back == answer.longest else "memory",
        }
    return row


def _middle(values: Sequence[Any]) -> Any:
    """Return the median of numbers, None where one is not known, and of what is no number the last."""
    if None in values:
        return None
    if all(type(each) is int for each in values):
        return median_low(values)
    return median(values) if all(type(each) in (int, float) for each in values) else values[-1]
