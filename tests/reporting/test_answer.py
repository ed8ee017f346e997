"""The sentences say what the numbers of their runs say, and no more."""

import re
from pathlib import Path
from typing import Any

import pytest

from forecast.reporting.answer import answer
from forecast.reporting.comparisons import compare_all
from forecast.reporting.reading import read_runs
from forecast.reporting.sections import sections_of
from tests.reporting.conftest import Made
from tests.reporting.made import errors, result_of, write_run


def said(root: Path, *settings: tuple[str, int, float, float], **more: Any) -> list[str]:
    """Give the answer over runs: mechanism, look-back, milliseconds a window in training, error against 0.4."""
    for place, (mechanism, look_back, cost, error) in enumerate(settings):
        series = errors(0.4 * error, place)
        result = result_of(mechanism, look_back, mse=float(series.mean()), train=1000 / cost, **more)
        write_run(root / str(place), result, series)
    (section,) = sections_of(read_runs([root]).runs)
    return answer(section, compare_all(section))


def test_the_answer_to_a_study_whose_truth_is_known(made: Made) -> None:
    text = "\n".join(made.chapter.answer)
    assert text.startswith(
        "On etth1, horizon 96, at look-back 2,880 `probsparse` trains 2.4 times faster than `full`, and "
    )
    assert "no difference in error is shown (99 % interval " in text
    assert "Below look-back 211 (interpolated) no mechanism trains faster and none is shown to err less" in text
    assert "there is no reason to leave `full`" in text
    assert "At look-back 96 the control `mean` is not told apart from `full`" in text
    assert re.search(r"At look-back 2,880 `full` forecasts at (8|9|10)\.\d % lower error", text)
    assert "24 runs of 500 training steps, 4 passes over the data." in text
    assert "not of converged quality" not in text
    assert "The best baseline, linear (ridge), look-back 720, 2,880, scores 0.3750" in text


def test_every_ratio_in_the_first_sentence_is_that_of_the_numbers(made: Made) -> None:
    section = made.chapter.section
    own, full = section.at("probsparse", 2880), section.at("full", 2880)
    assert own
    assert full
    times, faster, memory = map(float, re.findall(r"([\d.]+) times", made.chapter.answer[0]))
    assert times == pytest.approx(
        own.mean("speed.train_windows_per_s") / full.mean("speed.train_windows_per_s"), rel=5e-3
    )
    assert faster == pytest.approx(times, rel=0.01)
    assert memory == pytest.approx(own.mean("speed.peak_memory_mib") / full.mean("speed.peak_memory_mib"), rel=5e-3)


def test_the_fastest_that_errs_no_more_is_named_first(tmp_path: Path) -> None:
    first = said(tmp_path, ("full", 96, 10, 1), ("linear", 96, 2, 1.1), ("taylor", 96, 5, 1.0), ("mean", 96, 1, 1.2))[0]
    assert "`taylor` trains 2 times faster than `full`, and no difference in error is shown" in first


def test_where_all_faster_ones_err_more_the_first_sentence_says_by_how_much(tmp_path: Path) -> None:
    first = said(tmp_path, ("full", 96, 10, 1), ("linear", 96, 2, 1.1))[0]
    assert re.search(
        r"`linear` trains 5 times faster than `full`, at (9|10|11)\.\d % higher error \(99 % interval \+", first
    )


def test_nothing_faster_is_said_as_such(tmp_path: Path) -> None:
    sentences = said(
        tmp_path, ("full", 96, 1, 1), ("full", 720, 10, 1), ("linear", 96, 2, 1), ("linear", 720, 10.5, 0.9)
    )
    assert (
        "no mechanism trains clearly faster than `full`; the fastest of the others, `linear`, takes 1.05"
        in sentences[0]
    )
    assert "Up to look-back 720 no mechanism trains faster than `full`." in sentences


def test_a_mechanism_that_errs_less_is_a_reason_to_leave(tmp_path: Path) -> None:
    sentences = said(
        tmp_path, ("full", 96, 1, 1), ("full", 720, 20, 1), ("linear", 96, 2, 0.9), ("linear", 720, 10, 0.9)
    )
    (line,) = [each for each in sentences if each.startswith("Below look-back")]
    assert line.endswith("no mechanism trains faster, though `linear` at look-back 96 errs less.")


def test_one_that_is_faster_everywhere_has_no_crossing(tmp_path: Path) -> None:
    sentences = said(
        tmp_path, *((name, length, cost, 1) for name, cost in (("full", 9), ("linear", 3)) for length in (96, 720))
    )
    assert "From look-back 96 to 720 `linear` trains faster than `full` throughout." in sentences


@pytest.mark.parametrize(
    ("steps", "best_step", "short"), [(124, 100, True), (125, 100, False), (500, 500, True), (500, 499, False)]
)
def test_short_runs_speak_of_cost_and_name_their_steps(tmp_path: Path, steps: int, best_step: int, short: bool) -> None:
    """A pass over the 8,000 training windows is 125 steps of 64."""
    sentences = said(tmp_path, ("full", 96, 9, 1), ("linear", 96, 3, 1), steps=steps, best_step=best_step)
    assert (f"at look-back 96, after {steps} training steps, `linear`" in sentences[0]) == short
    assert ("this speaks of cost, not of converged quality (2 of 2 runs" in sentences[1]) == short
    assert "one seed each: another may fall otherwise" in sentences[1]
    assert ("1 pass over the data" in sentences[1]) == (steps == 125)


def test_a_pass_whose_last_windows_make_no_whole_step_is_a_pass(tmp_path: Path) -> None:
    for name, mse in (("full", 0.4), ("linear", 0.5)):
        result = result_of(name, mse=mse, steps=125, best_step=100)
        result["data"]["windows"]["train"] = 8031
        write_run(tmp_path / name, result)
    (section,) = sections_of(read_runs([tmp_path]).runs)
    text = "\n".join(answer(section, compare_all(section)))
    assert "2 runs of 125 training steps, 0.996 passes over the data; one seed each" in text
    assert "not of converged quality" not in text


def test_without_windows_errors_nothing_is_claimed_of_quality(tmp_path: Path) -> None:
    for name, mse, train in (("full", 0.4, 100), ("linear", 0.1, 900)):
        write_run(tmp_path / name, result_of(name, mse=mse, train=train))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    text = "\n".join(answer(section, compare_all(section)))
    assert "with test MSE 0.1000 and 0.4000, a difference that was not tested (linear: has no errors.parquet)" in text
    assert "lower error" not in text


def test_no_reference_and_no_control_are_said(tmp_path: Path) -> None:
    sentences = said(tmp_path, ("linear", 96, 2, 1), ("taylor", 96, 2, 1))
    assert sentences[0] == "On etth1, horizon 96 no run has attention=full, with which the others would be compared."
    assert any(each.startswith("There is no control: add attention=mean") for each in sentences)
