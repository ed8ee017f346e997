"""Estimates of a plan for each mechanism, from the answers of its measuring process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median, median_low
from typing import Any

from forecast.benchmark.limits import MEMORY
from forecast.plan.candidates import Candidate
from forecast.plan.messages import AGAIN, MEASURE, SMALL, STEP, Answer, Request

Row = dict[str, Any]
Send = Callable[[Request, str], Answer]
"""Sends a request for the mechanism with this label and returns the answer."""

FIELDS = (
    *("loop_seconds", "wait_seconds", "validation_seconds", "epoch_seconds", "training_seconds", "training_rounds"),
    *("result_seconds", "peak_mib", "peak_rounds", "steps_timed", "largest_batch", "batch_bound"),
    *("suggested_batch", "largest_look_back", "look_back_bound", "trials", "disturbed_rounds", "parameters"),
)
"""Keys of a row besides `mechanism` and `why`; None if unknown."""

BY_ROUND = {"training_seconds": "training_rounds", "peak_mib": "peak_rounds"}
"""Keys of medians, with the keys of their values by round."""


def measure(candidate: Candidate, send: Send, seconds: float, memory: int, first: Answer | None = None) -> Answer:
    """Measure a mechanism; if it does not fit into memory, measure its memory at small sizes.

    After a `first` answer only the steps are timed again; the other results stay.
    """
    if candidate.config is None:
        return Answer(f"refused: {candidate.why}")
    if first is not None:
        again = send(Request(AGAIN, candidate.config, seconds, memory), candidate.label)
        kept = {key: getattr(first, key) for key in ("length", "footprint", "longest", "suggested_batch")}
        return replace(again, **kept)
    answer = send(Request(MEASURE, candidate.config, seconds, memory), candidate.label)
    if not answer.why.startswith(MEMORY):
        return answer
    small = send(Request(SMALL, candidate.config, seconds, memory), candidate.label)
    return replace(small, why=answer.why)


def estimate(candidate: Candidate, answers: Sequence[Answer], memory: int) -> Row:
    """Return a mechanism's row: medians over its rounds, and the values by round for the keys in BY_ROUND.

    A median is None if a round lacks the value; for integers it is the lower median. `memory` is the limit of a
    training in bytes.
    """
    rounds = [_round(candidate, answer, memory) for answer in answers]
    row: Row = {"mechanism": candidate.label}
    row |= {key: _median([values[key] for values in rounds]) for key in rounds[-1]}
    for key, by_round in BY_ROUND.items():
        row[by_round] = None if row[key] is None else [values[key] for values in rounds]
    row["disturbed_rounds"] = sum(answer.disturbed is True for answer in answers)
    peak = row["peak_mib"]
    if peak is not None and peak * 2**20 > memory:
        row["why"] = f"{MEMORY}: its peak is {peak / 2**10:,.2f} GiB, and the limit {memory / 2**30:,.2f} GiB"
    return row


def try_sizes(candidate: Candidate, row: Row, send: Send, memory: int) -> list[Row]:
    """Return the outcomes of a step at the largest batch and of a step at the largest look-back."""
    config = candidate.config
    if config is None:
        return []
    changed: dict[str, dict[str, Any]] = {}
    if row["largest_batch"]:
        changed["batch"] = {"training": {**config["training"], "batch_size": row["largest_batch"]}}
    if row["largest_look_back"]:
        length = row["largest_look_back"]
        changed["look-back"] = {"context_length": length}
        if "window_look_back" in config.get("data", {}):  # generated windows follow the look-back
            changed["look-back"]["data"] = {**config["data"], "window_look_back": length}
    trials = []
    for size, change in changed.items():
        answer = send(Request(STEP, {**config, **change}, 0.0, memory), candidate.label)
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
            "parameters": answer.parameters,
        }
    if footprint is not None and answer.longest is not None:
        wanted = int(candidate.config["training"]["evaluation_batch_size"])
        evaluation = min(wanted, max(length.validation, length.test))
        batch = footprint.largest_batch(evaluation, memory, length.train)
        look_back = footprint.largest_look_back(length.batch, evaluation, memory, answer.longest)
        row |= {
            "largest_batch": batch,
            "suggested_batch": answer.suggested_batch,
            "batch_bound": "data" if batch == length.train else "memory",
            "largest_look_back": look_back,
            "look_back_bound": "data" if look_back == answer.longest else "memory",
        }
    return row


def _median(values: Sequence[Any]) -> Any:
    """Return the median of numbers, None if one is None, and the last value if not all are numbers."""
    if None in values:
        return None
    if all(type(value) is int for value in values):
        return median_low(values)
    return median(values) if all(type(value) in (int, float) for value in values) else values[-1]
