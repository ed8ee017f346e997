from collections.abc import Callable
from dataclasses import replace

import pytest

from forecast.plan.candidates import Candidate
from forecast.plan.estimates import estimate, measure, try_sizes
from forecast.plan.messages import Answer, Ask
from tests.plan.made import FOOTPRINT, LENGTH, MIB, measured, settings_of

CONFIG = {"training": {"batch_size": 10, "evaluation_batch_size": 4}, "context_length": 20}
CANDIDATE = Candidate("full", settings_of(CONFIG))
MEMORY = 401 * MIB


def answering(asked: list[Ask], **answers: Answer) -> Callable[[Ask, str], Answer]:
    def put(ask: Ask, label: str) -> Answer:
        assert label == "full"
        asked.append(ask)
        return answers[ask.what]

    return put


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


def test_a_training_that_passes_the_memory_says_so() -> None:
    assert estimate(CANDIDATE, [measured()], 200 * MIB)["why"] == "memory: its peak is 0.29 GiB"


def test_what_does_not_fit_is_measured_at_small_sizes_for_what_does() -> None:
    asked: list[Ask] = []
    small = Answer(length=LENGTH, footprint=FOOTPRINT, longest=60)
    answer = measure(CANDIDATE, answering(asked, measure=Answer("memory: none left"), small=small), 1.0, MEMORY)
    row = estimate(CANDIDATE, [answer], MEMORY)
    assert [ask.what for ask in asked] == ["measure", "small"]
    assert (row["why"], row["epoch_seconds"], row["largest_batch"]) == ("memory: none left", None, 15)


def test_after_the_first_time_the_steps_alone_are_measured() -> None:
    asked: list[Ask] = []
    put = answering(asked, again=measured(footprint=None, longest=None, peak_mib=310.0))
    again = measure(CANDIDATE, put, 1.0, MEMORY, measured())
    assert [ask.what for ask in asked] == ["again"]
    assert again == measured(peak_mib=310.0)


def test_what_is_refused_is_not_measured_again() -> None:
    asked: list[Ask] = []
    answer = measure(CANDIDATE, answering(asked, measure=Answer("refused: cannot")), 1.0, MEMORY)
    assert estimate(CANDIDATE, [answer], MEMORY)["why"] == "refused: cannot"
    assert len(asked) == 1
    assert measure(Candidate("mean", None, "no such option"), answering(asked), 1.0, MEMORY).why.startswith("refused")
    assert len(asked) == 1


def test_the_largest_sizes_are_tried_each_by_itself() -> None:
    asked: list[Ask] = []
    row = estimate(CANDIDATE, [measured()], MEMORY)
    trials = try_sizes(CANDIDATE, row, answering(asked, step=Answer(peak_mib=390.0)), MEMORY)
    assert [trial["size"] for trial in trials] == ["batch", "look-back"]
    assert {trial["peak_mib"] for trial in trials} == {390.0}
    sizes = [(ask.config["training"]["batch_size"], ask.config["context_length"]) for ask in asked]
    assert sizes == [(15, 20), (10, 30)]


def test_several_rounds_give_their_median_and_what_each_had() -> None:
    peaks, longest = (300.0, 310.0, 370.0), (20, 60, 10)
    answers = [measured(peak_mib=peak, longest=rows) for peak, rows in zip(peaks, longest, strict=True)]
    row = estimate(CANDIDATE, answers, MEMORY)
    assert (row["peak_mib"], row["peak_rounds"]) == (310, [*peaks])
    assert [estimate(CANDIDATE, [each], MEMORY)["largest_look_back"] for each in answers] == [20, 30, 10]
    assert row["largest_look_back"] == 20
    assert row["training_rounds"] == [row["training_seconds"]] * 3


@pytest.mark.parametrize(("peaks", "why"), [((300, 310, 410), ""), ((410, 420, 300), "memory: its peak is 0.40 GiB")])
def test_the_peak_that_is_shown_says_whether_a_training_fits(peaks: tuple[float, ...], why: str) -> None:
    assert estimate(CANDIDATE, [measured(peak_mib=peak) for peak in peaks], MEMORY)["why"] == why


def test_what_failed_in_a_later_round_has_no_times_but_the_sizes_of_the_first() -> None:
    asked: list[Ask] = []
    failed = measure(CANDIDATE, answering(asked, again=Answer("time: too long")), 1.0, MEMORY, measured())
    row = estimate(CANDIDATE, [measured(), failed], MEMORY)
    assert row["why"] == "time: too long"
    assert [row[key] for key in ("epoch_seconds", "training_rounds", "peak_mib", "peak_rounds")] == [None] * 4
    assert (row["largest_batch"], row["largest_look_back"]) == (15, 30)


def test_no_more_windows_are_evaluated_at_once_than_a_part_has() -> None:
    """A thousand would take 2,000 MiB; of 100 and 50 there are 200."""
    config = {**CONFIG, "training": {"batch_size": 10, "evaluation_batch_size": 1000}}
    answer = measured(length=replace(LENGTH, validation=100, test=50))
    assert estimate(Candidate("full", settings_of(config)), [answer], MEMORY)["largest_batch"] == 15
    answer = measured(length=replace(LENGTH, validation=100, test=151))
    assert estimate(Candidate("full", settings_of(config)), [answer], MEMORY)["largest_batch"] == 0
