"""The sentences say what the numbers of their runs say, and no more."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from forecast.report.answer import answer
from forecast.report.comparisons import compare_all
from forecast.report.content import make_content
from forecast.report.phrases import MINUS, signed
from forecast.report.sections import sections_of
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import errors, no_pictures, result_of, write_run


def said(root: Path, *settings: tuple[str, int, float, float], **more: Any) -> list[str]:
    """Return the answer over runs: mechanism, look-back, milliseconds a window in training, error against 0.4."""
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
    assert re.search(
        r"no difference in error is shown \([+\N{MINUS SIGN}]\d\.\d+ %, 99 % interval \N{MINUS SIGN}", text
    )
    assert (
        "At look-back 96 no mechanism (the control aside) trains clearly faster than `full`, forecasts clearly faster, "
        "takes clearly less memory or is shown to err less: there is no reason to leave `full`."
    ) in text
    assert (
        "Clearly faster to train than `full`: "
        "`linear` at look-back 720 and 2,880 (its time falls below that of `full` near 211, interpolated); "
        "`probsparse` at look-back 2,880 (its time falls below that of `full` near 1,200, interpolated)."
    ) in text
    assert "At look-back 96 the control `mean` is not told apart from `full`" in text
    assert re.search(r"At look-back 2,880 `full` forecasts at (8|9|10)\.\d % lower error", text)
    assert re.search(
        r"fastest to train: `(full|linear|probsparse)` at look-back \d+, "
        r"[\d.]+ times faster at [+\N{MINUS SIGN}]\d\.\d+ % MSE \(99\.9848 % int",
        text,
    )
    assert "36 runs of 500 training steps, 4 passes over the data." in text
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
    (line,) = [each for each in sentences if each.startswith("At look-back 96 and 720 no mechanism trains clearly")]
    assert line.endswith("than `full`, though `linear` at look-back 720 errs less.")


def test_a_mechanism_that_errs_less_is_a_reason_to_leave(tmp_path: Path) -> None:
    sentences = said(
        tmp_path, ("full", 96, 1, 1), ("full", 720, 20, 1), ("linear", 96, 2, 0.9), ("linear", 720, 10, 0.9)
    )
    (line,) = [each for each in sentences if "no mechanism trains clearly" in each]
    assert line == (
        "At look-back 96 no mechanism trains clearly faster than `full`, though `linear` at look-back 96 errs less."
    )


@pytest.mark.parametrize(
    ("more", "does"), [({"inference": 800}, "forecasts clearly faster"), ({"memory": 350}, "takes clearly less memory")]
)
def test_what_forecasts_faster_or_takes_less_is_a_reason_to_leave(tmp_path: Path, more: dict, does: str) -> None:
    for place, (mechanism, look_back) in enumerate((name, at) for name in ("full", "linear") for at in (96, 720)):
        write_run(tmp_path / str(place), result_of(mechanism, look_back, **(more if mechanism == "linear" else {})))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    text = "\n".join(answer(section, compare_all(section)))
    assert f"though `linear` at look-back 96 {does} and `linear` at look-back 720 {does}." in text
    assert "no reason to leave" not in text


def test_nothing_is_said_of_look_backs_that_were_not_measured(tmp_path: Path) -> None:
    """`linear` is faster at 96 and not at 720, `taylor` faster at 720 alone; neither was run at 2,880."""
    sentences = said(
        tmp_path,
        *(("full", 96, 10, 1), ("full", 720, 30, 1), ("full", 2880, 200, 1)),
        *(("linear", 96, 6, 1), ("linear", 720, 36, 1), ("taylor", 720, 12, 1)),
    )
    assert "Clearly faster to train than `full`: `linear` at look-back 96; `taylor` at look-back 720." in sentences
    assert not any("no mechanism trains" in each for each in sentences)
    assert sentences[0].startswith("On etth1, horizon 96, at look-back 720 `taylor` trains 2.5 times faster")


def test_one_that_is_faster_everywhere_has_no_crossing(tmp_path: Path) -> None:
    sentences = said(
        tmp_path, *((name, length, cost, 1) for name, cost in (("full", 9), ("linear", 3)) for length in (96, 720))
    )
    assert "Clearly faster to train than `full`: `linear` at look-back 96 and 720, wherever it was timed." in sentences


@pytest.mark.parametrize(
    ("steps", "best_step", "short"), [(124, 100, True), (125, 100, False), (500, 500, True), (500, 499, False)]
)
def test_short_runs_speak_of_cost_and_name_their_steps(tmp_path: Path, steps: int, best_step: int, short: bool) -> None:
    """A pass over the 8,000 training windows is 125 steps of 64."""
    sentences = said(tmp_path, ("full", 96, 9, 1), ("linear", 96, 3, 1), steps=steps, best_step=best_step)
    assert (f"at look-back 96, after {steps} training steps, `linear`" in sentences[0]) == short
    assert ("this speaks of cost, not of converged quality (2 of 2 runs" in sentences[1]) == short
    assert ("2 of 2 runs made less than one pass over their data)" in sentences[1]) == (steps == 124)
    assert ("2 of 2 runs were best at the last step that was validated)" in sentences[1]) == (steps == best_step)
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


def test_steps_are_named_of_the_runs_that_the_sentence_is_about(tmp_path: Path) -> None:
    for place, (name, look_back, steps) in enumerate((("full", 96, 100), ("full", 720, 5000), ("linear", 720, 5000))):
        result = result_of(name, look_back, steps=steps, best_step=90, train=900 if name == "linear" else 100)
        write_run(tmp_path / str(place), result)
    (section,) = sections_of(read_runs([tmp_path]).runs)
    assert "at look-back 720 `linear` trains 9 times faster" in answer(section, compare_all(section))[0]


def test_one_seed_is_said_wherever_there_is_but_one(tmp_path: Path) -> None:
    for name, seed in (("full", 1), ("full", 2), ("linear", 1)):
        write_run(tmp_path / f"{name}{seed}", result_of(name, seed=seed))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    told = answer(section, compare_all(section))[1]
    assert told.endswith("; 1 of 2 settings have one seed: another may fall otherwise.")


def test_forecasts_that_no_attention_has_a_part_in_are_named(tmp_path: Path) -> None:
    for name in ("full", "linear", "mean"):
        write_run(tmp_path / name, result_of(name, share=0.0), errors(0.4, 1))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    text = "\n".join(answer(section, compare_all(section)))
    assert (
        "In 3 of 3 settings validation gave the encoder-decoder no weight: `full` at look-back 512, `linear` at "
        "look-back 512 and `mean` at look-back 512 forecast by the linear path alone, and no attention had a "
        "part in it."
    ) in text
    assert "was not tested against the control `mean`: both forecasts are the linear path's." in text
    assert "self-attention" not in text


def test_without_full_the_others_are_held_against_the_control(tmp_path: Path) -> None:
    sentences = said(tmp_path, ("linear", 96, 2, 1), ("mean", 96, 1, 1.2), ("taylor", 96, 2, 1.2))
    assert any(each.startswith("At look-back 96 `linear` forecasts at") for each in sentences)
    assert any(
        each.startswith("At look-back 96 the control `mean` is not told apart from `taylor`") for each in sentences
    )


def test_why_there_is_no_ratio_of_times_is_said(tmp_path: Path) -> None:
    def first(name: str, *results: dict[str, Any]) -> str:
        for place, result in enumerate(results):
            write_run(tmp_path / name / str(place), result)
        (section,) = sections_of(read_runs([tmp_path / name]).runs)
        return answer(section, compare_all(section))[0]

    untimed = result_of("linear")
    untimed["speed"]["train_windows_per_s"] = None
    assert "at a look-back that `full` was trained at" in first("apart", result_of(), result_of("linear", 96))
    assert "training was not timed: a run's first steps are not" in first("few", result_of(), untimed)
    assert "what ran on other devices" in first("devices", result_of(), {**result_of("linear"), "device": "A GPU"})
    variants = (result_of(config={"loss": loss}) for loss in ("mse", "huber"))
    assert "no mechanism was trained to compare with" in first("variants", *variants)


def test_what_is_left_out_is_named_in_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", no_pictures)
    write_run(tmp_path / "linear", result_of("linear"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "failed.json").write_text('{"error": "killed by SIGKILL", "job": "attention=full"}')
    (chapter,) = make_content("a study", read_runs([tmp_path])).chapters
    assert chapter.answer[-1].startswith("Not in the report: full (failed")


@pytest.mark.parametrize(
    ("value", "told"),
    [(7.34, "+7.3"), (-0.96, "-1.0"), (-0.02, "-0.02"), (0.004, "+0.004"), (-1e-12, "+0.0"), (float("nan"), "-")],
)
def test_a_sign_is_never_lost_to_rounding(value: float, told: str) -> None:
    assert signed(value) == (told if math.isnan(value) else told.replace("-", MINUS))


def test_no_reference_and_no_control_are_said(tmp_path: Path) -> None:
    sentences = said(tmp_path, ("linear", 96, 2, 1), ("taylor", 96, 2, 1))
    assert sentences[0] == "On etth1, horizon 96 no run has attention=full, with which the others would be compared."
    assert any(each.startswith("There is no control: add attention=mean") for each in sentences)


@pytest.mark.parametrize("what", ["inference not measured", "another on a GPU"])
def test_nothing_is_said_against_leaving_of_what_was_not_measured(what: str, tmp_path: Path) -> None:
    names = ("full", "linear", "taylor") if what == "another on a GPU" else ("full", "linear")
    for place, (mechanism, look_back) in enumerate((name, at) for name in names for at in (96, 720)):
        result = result_of(mechanism, look_back)
        if mechanism == "taylor":
            result["device"] = "A GPU"
        elif mechanism == "linear" and len(names) == 2:
            result["speed"]["inference_windows_per_s"] = None
        write_run(tmp_path / str(place), result, errors(0.4, place))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    text = "\n".join(answer(section, compare_all(section)))
    assert (
        "At look-back 96 and 720 no mechanism trains clearly faster than `full`, and not everything could be compared"
        in text
    )
    assert "no reason to leave" not in text


def test_an_interval_that_may_be_too_narrow_is_told_as_such(tmp_path: Path) -> None:
    """Of 700 windows a fifth is less than the two overlaps of 96 that a block is to have."""
    for place, (name, level) in enumerate((("full", 0.4), ("linear", 0.6))):
        result = result_of(name, mse=level, train=100 * (1 + place), windows=700)
        write_run(tmp_path / name, result, errors(level, place, count=700))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    first = answer(section, compare_all(section))[0]
    assert re.search(r"higher error \(99 % interval [^)]* %, perhaps too narrow: few windows\)", first)


def test_the_ridges_own_look_back_is_the_one_that_it_is_told_by(tmp_path: Path) -> None:
    """It is fitted on 2,048 steps at most."""
    for look_back, linear in ((96, 0.39), (2880, 0.375)):
        result = result_of("full", look_back, linear=linear)
        write_run(tmp_path / str(look_back), {**result, "linear_fit": {"look_back": min(look_back, 2048)}})
    (section,) = sections_of(read_runs([tmp_path]).runs)
    assert any(
        each.startswith("The best baseline, linear (ridge), look-back 2,048, scores 0.3750")
        for each in answer(section, compare_all(section))
    )
