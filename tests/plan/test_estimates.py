from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forecast.plan.candidates import Candidate
from forecast.plan.estimates import estimate, measure, try_sizes
from forecast.plan.messages import Answer, Request
from tests.plan.made import FOOTPRINT, LENGTH, MIB, measured, settings_of

CONFIG = {"training": {"batch_size": 10, "evaluation_batch_size": 4}, "context_length": 20}
CANDIDATE = Candidate("full", settings_of(CONFIG))
MEMORY = 401 * MIB


def answering(requests: list[Request], **answers: Answer) -> Callable[[Request, str], Answer]:
    def send(request: Request, label: str) -> Answer:
        assert label == "full"
        requests.append(request)
        return answers[request.what]

    return send


def test_a_row_has_times_peak_and_the_largest_sizes() -> None:
    row = estimate(CANDIDATE, [measured()], MEMORY)
    assert (row["mechanism"], row["why"]) == ("full", "")
    assert row["epoch_seconds"] == pytest.approx(106)
    assert row["peak_mib"] == 300
    assert (row["largest_batch"], row["batch_bound"]) == (15, "memory")
    assert (row["largest_look_back"], row["look_back_bound"]) == (30, "memory")
    roomy = estimate(CANDIDATE, [measured()], 2**50)
    assert (roomy["largest_batch"], roomy["batch_bound"]) == (LENGTH.train, "data")
    assert (roomy["largest_look_back"], roomy["look_back_bound"]) == (60, "data")


def test_a_training_above_the_memory_limit_has_a_reason() -> None:
    assert estimate(CANDIDATE, [measured()], 200 * MIB)["why"] == "memory: its peak is 0.29 GiB, and the limit 0.20 GiB"


def test_a_mechanism_that_does_not_fit_is_measured_at_small_sizes() -> None:
    requests: list[Request] = []
    small = Answer(length=LENGTH, footprint=FOOTPRINT, longest=60)
    send = answering(requests, measure=Answer("memory: none left"), small=small)
    answer = measure(CANDIDATE, send, 1.0, MEMORY)
    row = estimate(CANDIDATE, [answer], MEMORY)
    assert [request.what for request in requests] == ["measure", "small"]
    assert (row["why"], row["epoch_seconds"], row["largest_batch"]) == ("memory: none left", None, 15)


def test_later_rounds_measure_only_the_steps() -> None:
    requests: list[Request] = []
    send = answering(requests, again=measured(footprint=None, longest=None, peak_mib=310.0))
    again = measure(CANDIDATE, send, 1.0, MEMORY, measured(suggested_batch=64))
    assert [request.what for request in requests] == ["again"]
    assert again == measured(peak_mib=310.0, suggested_batch=64)
    assert estimate(CANDIDATE, [again], MEMORY)["suggested_batch"] == 64


def test_a_refused_mechanism_is_not_measured_at_small_sizes() -> None:
    requests: list[Request] = []
    answer = measure(CANDIDATE, answering(requests, measure=Answer("refused: cannot")), 1.0, MEMORY)
    assert estimate(CANDIDATE, [answer], MEMORY)["why"] == "refused: cannot"
    assert len(requests) == 1
    assert measure(Candidate("mean", None, "no such option"), answering(requests), 1.0, MEMORY).why.startswith(
        "refused"
    )
    assert len(requests) == 1


def test_the_largest_batch_and_look_back_are_tried_separately() -> None:
    requests: list[Request] = []
    row = estimate(CANDIDATE, [measured()], MEMORY)
    trials = try_sizes(CANDIDATE, row, answering(requests, step=Answer(peak_mib=390.0)), MEMORY)
    assert [trial["size"] for trial in trials] == ["batch", "look-back"]
    assert {trial["peak_mib"] for trial in trials} == {390.0}
    sizes = [(request.config["training"]["batch_size"], request.config["context_length"]) for request in requests]
    assert sizes == [(15, 20), (10, 30)]


def test_a_row_of_several_rounds_has_medians_and_the_values_of_each_round() -> None:
    peaks, longest = (300.0, 310.0, 370.0), (20, 60, 10)
    answers = [measured(peak_mib=peak, longest=rows) for peak, rows in zip(peaks, longest, strict=True)]
    row = estimate(CANDIDATE, answers, MEMORY)
    assert (row["peak_mib"], row["peak_rounds"]) == (310, [*peaks])
    assert [estimate(CANDIDATE, [answer], MEMORY)["largest_look_back"] for answer in answers] == [20, 30, 10]
    assert row["largest_look_back"] == 20
    assert row["training_rounds"] == [row["training_seconds"]] * 3


@pytest.mark.parametrize(("peaks", "why"), [((300, 310, 410), ""), ((410, 420, 300), "memory: its peak is 0.40 GiB")])
def test_the_median_peak_decides_whether_a_training_fits(peaks: tuple[float, ...], why: str) -> None:
    row = estimate(CANDIDATE, [measured(peak_mib=peak) for peak in peaks], MEMORY)
    assert row["why"].partition(",")[0] == why


def test_a_failure_in_a_later_round_keeps_only_the_sizes_of_the_first() -> None:
    requests: list[Request] = []
    failed = measure(CANDIDATE, answering(requests, again=Answer("time: too long")), 1.0, MEMORY, measured())
    row = estimate(CANDIDATE, [measured(), failed], MEMORY)
    assert row["why"] == "time: too long"
    assert [row[key] for key in ("epoch_seconds", "training_rounds", "peak_mib", "peak_rounds")] == [None] * 4
    assert (row["largest_batch"], row["largest_look_back"]) == (15, 30)


def test_an_evaluation_batch_has_at_most_the_windows_of_a_split() -> None:
    """A batch of 1,000 windows would need 2,000 MiB; the splits have at most 100 or 151."""
    config = {**CONFIG, "training": {"batch_size": 10, "evaluation_batch_size": 1000}}
    answer = measured(length=replace(LENGTH, validation=100, test=50))
    assert estimate(Candidate("full", settings_of(config)), [answer], MEMORY)["largest_batch"] == 15
    answer = measured(length=replace(LENGTH, validation=100, test=151))
    assert estimate(Candidate("full", settings_of(config)), [answer], MEMORY)["largest_batch"] == 0


def test_a_generated_series_follows_the_look_back_that_is_tried() -> None:
    row = {"largest_batch": None, "largest_look_back": 40}
    sent: list[dict[str, Any]] = []

    def send(request: Request, _: str) -> Answer:
        sent.append(request.config)
        return measured()

    config = {"context_length": 20, "training": {}, "data": {"kind": "recall", "window_look_back": 20}}
    try_sizes(Candidate("full", settings_of(config)), row, send, 2**30)
    assert (sent[0]["context_length"], sent[0]["data"]) == (40, {"kind": "recall", "window_look_back": 40})
