"""The sentences of a report agree with the numbers of its runs, are few and are short."""

import math
import re
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from forecast.report.answer import Answer, answer
from forecast.report.comparisons import baselines_of, compare_all
from forecast.report.content import make_content
from forecast.report.costs import COSTS, front
from forecast.report.groups import groups_of
from forecast.report.phrases import MINUS, signed
from forecast.report.pictures import draw_pictures
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import BUSY, errors, no_pictures, result_of, write_run

LONGEST = 25
"""Maximum number of words in a sentence; a name between backticks is one word."""


def answer_of(root: Path) -> Answer:
    (group,) = groups_of(read_runs([root]).runs)
    return answer(group, compare_all(group))


def everything(root: Path) -> list[str]:
    """Return all sentences on the runs in `root`."""
    sentences, details = answer_of(root)
    return [*sentences, *details]


def write_runs(
    root: Path, *settings: tuple[str, int, float, float], seeds: tuple[int, ...] = (1,), **more: Any
) -> Path:
    """Write runs: mechanism, look-back, milliseconds per window in training, error relative to 0.4."""
    for number, ((mechanism, look_back, cost, error), seed) in enumerate(product(settings, seeds)):
        series = errors(0.4 * error, number)
        result = result_of(mechanism, look_back, seed, mse=float(series.mean()), train=1000 / cost, **more)
        write_run(root / str(number), result, series)
    return root


def write_results(root: Path, *results: dict[str, Any]) -> Path:
    """Write runs without the errors of their windows."""
    for number, result in enumerate(results):
        write_run(root / str(number), result)
    return root


def num_words(sentence: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in re.sub(r"`[^`]*`", "name", sentence).split())


PAIR = (("full", 96, 9, 1), ("linear", 96, 3, 1))
FIVE = (
    *(("full", 96, 10, 1), ("full", 720, 30, 1)),
    *(("linear", 96, 12, 1.1), ("linear", 720, 15, 1.1), ("mean", 720, 1, 2)),
)

CASES: dict[str, Callable[[Path], Path]] = {
    "faster": lambda root: write_runs(root, *PAIR),
    "faster with more error": lambda root: write_runs(root, *FIVE),
    "nothing faster": lambda root: write_runs(root, ("full", 96, 3, 1), ("linear", 96, 9, 1), ("mean", 96, 2, 1)),
    "short": lambda root: write_runs(root, *PAIR, ("mean", 96, 1, 1.1), steps=100, best_step=100),
    "no reference": lambda root: write_runs(root, ("linear", 96, 2, 1), ("mean", 96, 1, 1.2), ("taylor", 96, 2, 1.2)),
    "no control": lambda root: write_runs(root, ("linear", 96, 2, 1), ("taylor", 96, 2, 1)),
    "single run": lambda root: write_runs(root, ("full", 96, 2, 1)),
    "few windows": lambda root: write_runs(root, *FIVE, windows=2000),
    "not tested": lambda root: write_results(root, result_of("full"), result_of("linear", mse=0.1, train=900)),
    "busy": lambda root: write_results(
        root, result_of("full"), result_of("linear", load={"train": BUSY, "inference": BUSY}), result_of("mean")
    ),
    "linear path": lambda root: write_runs(root, *PAIR, ("mean", 96, 1, 1), mixing_weight=0.0),
    "other device": lambda root: write_results(root, result_of(), {**result_of("linear"), "device": "A GPU"}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_answer_has_three_to_five_short_sentences(case: str, tmp_path: Path) -> None:
    sentences, details = answer_of(CASES[case](tmp_path))
    assert 3 <= len(sentences) <= 5
    assert not set(sentences) & set(details)
    assert_short([*sentences, *details])


@pytest.mark.parametrize(
    ("steps", "status", "is_said"), [(900, "out of time", True), (510, "out of time", False), (900, "finished", False)]
)
def test_the_answer_says_that_a_time_limit_gave_slower_mechanisms_fewer_steps(
    steps: int, status: str, is_said: bool, tmp_path: Path
) -> None:
    slow, fast = (
        {**result_of(name, steps=count), "status": status} for name, count in (("full", 500), ("mean", steps))
    )
    sentences, _ = answer_of(write_results(tmp_path, slow, fast))
    sentence = (
        f"`training.max_time` ended trainings: `full` made 500 steps and `mean` {steps}, so errors compare equal "
        "times, not equal trainings."
    )
    assert (sentence in sentences) is is_said
    assert_short(sentences)


def assert_short(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        assert sentence.endswith("."), sentence
        assert not re.search(r"\. ", sentence), sentence
        assert num_words(sentence) <= LONGEST, sentence


def test_the_answer_to_a_study_with_known_differences(made: Made) -> None:
    speed, quality, lowest, control, equal = made.chapter.answer
    assert re.fullmatch(
        r"On etth1, horizon 96, at look-back 2,880, `probsparse` trains 2\.4 times faster than `full` "
        r"\(A processor, 2 threads, float32; 2\.35 to 2\.45 over the seeds\)\.",
        speed,
    )
    number = r"[+\N{MINUS SIGN}]\d+\.\d+"
    assert re.fullmatch(
        rf"`probsparse` and `full` are statistically indistinguishable \({number} % MSE, 99 % interval {number} to "
        rf"{number} %\)\.",
        quality,
    )
    assert re.fullmatch(
        r"The lowest test MSE is 0\.39\d\d ± 0\.00\d\d \(`\w+` at look-back [\d,]+\); the best baseline, linear "
        r"\(ridge\), look-back 720, 2,880, has 0\.3750\.",
        lowest,
    )
    assert re.fullmatch(
        r"At look-back 2,880, `full` has (8|9|10)\.\d % lower error than the control `mean` "
        rf"\(99 % interval {number} to {number} %\)\.",
        control,
    )
    assert re.fullmatch(
        r"Statistically indistinguishable from the lowest and fastest to train, control aside: "
        r"`(full|linear|probsparse)` at "
        rf"look-back \d+, [\d.]+ times faster \({number} % MSE, 99\.98 % interval {number} to {number} %\)\.",
        equal,
    )
    assert_short([*made.chapter.answer, *made.chapter.details])
    details = "\n".join(made.chapter.details)
    assert "36 runs of 500 training steps, 4 passes over the training data." in details
    assert "too short" not in details


def test_the_headline_names_the_fastest_without_more_error(tmp_path: Path) -> None:
    runs = (("full", 96, 10, 1), ("linear", 96, 2, 1.1), ("taylor", 96, 5, 1.0), ("mean", 96, 1, 1.2))
    first, second, *_ = answer_of(write_runs(tmp_path, *runs)).sentences
    assert "`taylor` trains 2 times faster than `full` (A processor, 2 threads, float32)." in first
    assert second.startswith("`taylor` and `full` are statistically indistinguishable (")


def test_a_faster_mechanism_with_more_error_has_its_difference(tmp_path: Path) -> None:
    first, second, *_ = answer_of(write_runs(tmp_path, ("full", 96, 10, 1), ("linear", 96, 2, 1.1))).sentences
    assert "`linear` trains 5 times faster than `full` (A processor, 2 threads, float32)." in first
    assert re.match(r"`linear` has (9|10|11)\.\d % higher error than `full` \(99 % interval \+", second)


def test_without_a_faster_mechanism_the_fastest_is_named(tmp_path: Path) -> None:
    runs = (("full", 96, 1, 1), ("full", 720, 10, 1), ("linear", 96, 2, 1), ("linear", 720, 10.5, 0.9))
    sentences = everything(write_runs(tmp_path, *runs, seeds=(1, 2, 3)))
    assert sentences[0].endswith(
        "at look-back 720, no mechanism trains clearly faster than `full` (A processor, 2 threads, float32)."
    )
    assert sentences[1].startswith("The fastest of the others, `linear`, takes 1.05 times as long")


@pytest.mark.parametrize(
    ("steps", "best_step", "short"), [(124, 100, True), (125, 100, False), (500, 500, True), (500, 499, False)]
)
def test_trainings_too_short_to_judge_errors_are_named(tmp_path: Path, steps: int, best_step: int, short: bool) -> None:
    """A pass over the 8,000 training windows is 125 steps of 64."""
    sentences = everything(write_runs(tmp_path, *PAIR, steps=steps, best_step=best_step))
    text = "\n".join(sentences[:5])
    assert sentences[1].startswith(f"After {steps} training steps, `linear` and `full` are") == short
    assert ("2 of 2 trainings were too short to judge errors (2 " in text) == short
    assert ("(2 below one pass): train longer, at least 125 steps." in text) == (steps == 124)
    assert ("(2 still improving): train longer." in text) == (steps == best_step)
    assert "2 of 2 settings have one seed: another seed may differ." in sentences
    assert any(" 1 pass over the training data." in sentence for sentence in sentences) == (steps == 125)


def test_a_run_that_stopped_early_is_not_too_short(tmp_path: Path) -> None:
    results = [result_of(name, mse=mse, steps=100, best_step=100) for name, mse in (("full", 0.4), ("linear", 0.5))]
    results[0]["status"] = "stopped early"
    text = "\n".join(everything(write_results(tmp_path / "one", *results)))
    assert "1 of 2 trainings was too short to judge errors (1 below one pass, 1 still improving)" in text  # of `linear`
    results[1]["status"] = "stopped early"
    assert "too short" not in "\n".join(everything(write_results(tmp_path / "both", *results)))


def test_a_pair_of_which_one_run_is_too_short_says_after_how_many_steps(tmp_path: Path) -> None:
    for number, (name, cost, best_step) in enumerate((("full", 9, 499), ("linear", 3, 500))):
        series = errors(0.4, number)
        options = {"train": 1000 / cost, "steps": 500, "best_step": best_step}
        write_run(tmp_path / name, result_of(name, mse=float(series.mean()), **options), series)
    assert everything(tmp_path)[1].startswith("After 500 training steps, `linear` and `full` are")


def test_a_last_incomplete_step_does_not_make_a_pass_incomplete(tmp_path: Path) -> None:
    results = [result_of(name, mse=mse, steps=125, best_step=100) for name, mse in (("full", 0.4), ("linear", 0.5))]
    for result in results:
        result["data"]["windows"]["train"] = 8031
    sentences = everything(write_results(tmp_path, *results))
    assert "2 runs of 125 training steps, 99.6 % of one pass over the training data." in sentences
    assert "too short" not in "\n".join(sentences)


def test_without_window_errors_no_difference_is_claimed(tmp_path: Path) -> None:
    write_run(tmp_path / "full", result_of("full"))
    write_run(tmp_path / "linear", result_of("linear", mse=0.1, train=900))
    sentences = everything(tmp_path)
    assert sentences[1] == "`linear` has test MSE 0.1000, `full` 0.4000, not tested: linear: has no errors.parquet."
    assert "lower error" not in "\n".join(sentences)


def test_the_number_of_steps_is_that_of_the_compared_runs(tmp_path: Path) -> None:
    pairs = (("full", 96, 100), ("full", 720, 5000), ("linear", 720, 5000))
    results = (
        result_of(name, look_back, steps=steps, best_step=90, train=900 if name == "linear" else 100)
        for name, look_back, steps in pairs
    )
    sentences = everything(write_results(tmp_path, *results))
    assert "at look-back 720, `linear` trains 9 times faster" in sentences[0]
    assert sentences[1].startswith("`linear` has test MSE")


def test_settings_with_one_seed_are_counted(tmp_path: Path) -> None:
    sentences = everything(
        write_results(tmp_path, result_of("full"), result_of("full", seed=2), result_of("linear", seed=1))
    )
    assert "1 of 2 settings have one seed: another seed may differ." in sentences


def test_forecasts_without_attention_in_some_settings_are_counted(tmp_path: Path) -> None:
    for name in ("full", "linear", "mean"):
        write_run(tmp_path / name, result_of(name, mixing_weight=0.5 if name == "linear" else 0.0), errors(0.4, 1))
    text = "\n".join(everything(tmp_path))
    assert "void" not in text
    assert "In 2 of 3 settings, validation gave the encoder-decoder no weight: attention has no part in their" in text


@pytest.mark.parametrize(
    "no_weight",
    [{"mixing_weight": 0.0}, {"config": {"model.linear_path": "ridge"}, "best_step": 0}],
    ids=["mixing weight", "untrained sum"],
)
def test_without_any_weight_of_attention_the_comparison_is_void(tmp_path: Path, no_weight: dict[str, Any]) -> None:
    for name in ("full", "linear", "mean"):
        write_run(tmp_path / name, result_of(name, **no_weight), errors(0.4, 1))
    sentences, details = answer_of(tmp_path)
    assert sentences[0] == (
        "On etth1, horizon 96, the comparison of attention is void: validation gave the encoder-decoder no weight in "
        "any setting, so no forecast uses attention."
    )
    assert not any("indistinguishable" in sentence or "not tested" in sentence for sentence in sentences)
    assert (
        "Forecast by the linear path alone: `full` at look-back 512, `linear` at look-back 512 and `mean` at look-back "
        "512."
    ) in details
    assert "self-attention" not in "\n".join([*sentences, *details])


def test_a_comparison_in_which_only_the_control_has_weight_is_void_first(tmp_path: Path) -> None:
    """The linear paths differ slightly, since each was trained beside another mechanism."""
    for number, name in enumerate(("full", "probsparse", "linear", "mean")):
        series = errors(0.38, 1) * (1 + 1e-4 * number)
        mixing_weight = 0.04 if name == "mean" else 0.0
        write_run(tmp_path / name, result_of(name, mse=float(series.mean()), mixing_weight=mixing_weight), series)
    sentences, details = answer_of(tmp_path)
    assert sentences[0] == (
        "On etth1, horizon 96, the comparison of attention is void: validation gave the encoder-decoder weight only in "
        "the control, so no other forecast uses attention."
    )
    assert sentences[1] == (
        "Take linear (ridge), nothing is gained here: it has test MSE 0.3800, the best model, `full`, has 0.3790."
    )
    paths = ("`full` and", "`probsparse` and", "`linear` and")
    assert not any("indistinguishable" in each and each.startswith(paths) for each in [*sentences, *details])
    assert_short([*sentences, *details])


@pytest.mark.parametrize(("ridge", "taken"), [(0.399, True), (0.401, False)])
def test_a_report_says_to_take_a_baseline_that_no_model_beats(ridge: float, taken: bool, tmp_path: Path) -> None:
    write_results(tmp_path, *(result_of(name, mse=0.4, linear=ridge) for name in ("full", "linear")))
    sentence = (
        "Take linear (ridge), nothing is gained here: it has test MSE 0.3990, the best model, `full`, has 0.4000."
    )
    assert (sentence in everything(tmp_path)) == taken
    short = [result_of(name, mse=0.4, linear=0.1, steps=30, best_step=10) for name in ("full", "linear")]
    assert "nothing is gained" not in "\n".join(everything(write_results(tmp_path / "short", *short)))


def test_an_attention_without_weight_is_not_judged_against_the_control(tmp_path: Path) -> None:
    write_run(tmp_path / "full", result_of("full", mixing_weight=0.0, mse=0.4), errors(0.4, 1))
    write_run(tmp_path / "mean", result_of("mean", mixing_weight=0.5, mse=0.5), errors(0.5, 2))
    text = "\n".join(everything(tmp_path))
    assert "At look-back 512, validation gave `full` no weight: its error tells nothing about self-attention." in text
    assert "the control `mean` (" not in text


def test_no_mechanism_is_fastest_of_all_where_each_has_a_reference_of_its_own(tmp_path: Path) -> None:
    for width, speed in ((32, 100.0), (64, 60.0)):
        for name in ("full", "probsparse"):
            config = {"model.d_model": width}
            write_run(
                tmp_path / f"{name}-{width}",
                result_of(name, config=config, train=speed),
                errors(0.4, width + len(name)),
            )
    text = "\n".join(everything(tmp_path))
    reference = "the `full` with the same other options (A processor, 2 threads, float32)"
    assert f"no mechanism trains clearly faster than {reference}." in text
    assert "Nearest to it, `probsparse, " in text
    assert "The fastest of the others" not in text


def test_a_comparison_that_a_short_validation_made_void_says_so(tmp_path: Path) -> None:
    for name in ("full", "linear"):
        result = result_of(name, mixing_weight=0.0, best_step=0)
        result["model"]["validation_blocks"] = 6
        write_run(tmp_path / name, result, errors(0.4, 1))
    assert answer_of(tmp_path).sentences[0] == (
        "On etth1, horizon 96, the comparison of attention is void: validation is too short to accept a training, so "
        "no forecast uses attention."
    )


@pytest.mark.parametrize(("mse", "beaten"), [(0.41, False), (0.45, True)])
def test_a_clearly_better_baseline_is_the_first_sentence(tmp_path: Path, mse: float, beaten: bool) -> None:
    """The baseline's error is 0.38; a ratio of 1.1 counts."""
    for name in ("full", "linear"):
        level = mse if name == "full" else 0.5
        write_run(tmp_path / name, result_of(name, mse=level), errors(level, 1))
    sentences, details = answer_of(tmp_path)
    first = (
        "On etth1, horizon 96, every model is worse than linear (ridge): the best, `full`, has test MSE 0.4500 against "
        "0.3800 (+18.4 %)."
    )
    assert (sentences[0] == first) == beaten
    assert any(sentence.startswith("The lowest test MSE is") for sentence in sentences) != beaten
    assert any(sentence.startswith("The lowest test MSE is") for sentence in details) == beaten


def test_short_trainings_follow_a_decision_at_once(tmp_path: Path) -> None:
    results = [result_of(name, mixing_weight=0.0, mse=0.6, steps=30, best_step=10) for name in ("full", "linear")]
    sentences = answer_of(write_results(tmp_path, *results)).sentences
    assert "the comparison of attention is void" in sentences[0]
    assert sentences[1].startswith("Every model is worse than linear (ridge)")
    assert sentences[2] == (
        "2 of 2 trainings were too short to judge errors (2 below one pass): train longer, at least 125 steps."
    )


def test_a_mechanism_without_clear_benefit_names_its_difference_from_the_control(tmp_path: Path) -> None:
    runs = (("full", 96, 2, 1), ("mean", 96, 1, 1.0001), ("taylor", 96, 2, 1.0))
    sentences = everything(write_runs(tmp_path, *runs))
    found = (
        r"At look-back 96, attention shows no clear benefit: `full` has [\d.]+ % (lower|higher) error than the control"
    )
    assert any(re.match(found, sentence) for sentence in sentences)
    assert any(sentence.startswith("The control `mean` weights all positions equally") for sentence in sentences)


def test_without_the_reference_mechanisms_are_compared_with_the_control(tmp_path: Path) -> None:
    sentences = everything(write_runs(tmp_path, ("linear", 96, 2, 1), ("mean", 96, 1, 1.2), ("taylor", 96, 2, 1.2)))
    control = r"At look-back 96, `linear` has \d+\.\d % lower error than the control `mean` \(99 % interval"
    assert any(re.match(control, sentence) for sentence in sentences)


def test_missing_time_ratios_have_a_reason(tmp_path: Path) -> None:
    def first(name: str, *results: dict[str, Any]) -> str:
        return everything(write_results(tmp_path / name, *results))[0]

    untimed = result_of("linear")
    untimed["speed"]["train_windows_per_s"] = None
    assert "trained at a look-back of `full`" in first("look-backs", result_of(), result_of("linear", 96))
    assert "training was not timed: timing skips the first steps" in first("few", result_of(), untimed)
    assert "devices, batches or other conditions differ" in first(
        "devices", result_of(), {**result_of("linear"), "device": "A GPU"}
    )
    variants = (result_of(config={"loss": loss}) for loss in ("mse", "huber"))
    assert "all runs have attention=full; the tables compare their other options" in first("variants", *variants)


def test_folders_left_out_are_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", no_pictures)
    write_run(tmp_path / "linear", result_of("linear"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "failed.json").write_text('{"error": "killed by SIGKILL", "job": "attention=full"}')
    (chapter,) = make_content("a study", read_runs([tmp_path])).chapters
    assert "The table Left out lists 1 item that the report does not compare." in chapter.answer
    assert chapter.details[-1].startswith("Not in the report: full (failed")


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.34, "+7.3"), (-0.96, "-1.0"), (-0.02, "-0.02"), (0.004, "+0.004"), (-1e-12, "+0.0"), (float("nan"), "-")],
)
def test_a_sign_is_never_lost_to_rounding(value: float, text: str) -> None:
    assert signed(value) == (text if math.isnan(value) else text.replace("-", MINUS))


def test_a_missing_reference_and_a_missing_control_are_mentioned(tmp_path: Path) -> None:
    sentences = everything(write_runs(tmp_path, ("linear", 96, 2, 1), ("taylor", 96, 2, 1)))
    assert sentences[0] == "On etth1, horizon 96, no run has attention=full, the reference of all comparisons."
    assert any(sentence.startswith("There is no control: add attention=mean") for sentence in sentences)


def test_an_interval_that_may_be_too_narrow_is_marked(tmp_path: Path) -> None:
    """A fifth of 700 windows is less than two overlaps of 96, the minimum of a block."""
    for number, (name, level) in enumerate((("full", 0.4), ("linear", 0.6))):
        result = result_of(name, mse=level, train=100 * (1 + number), windows=700)
        write_run(tmp_path / name, result, errors(level, number, count=700))
    assert re.search(r"higher error .*\(99 % interval [^)]* %, perhaps too narrow\)", everything(tmp_path)[1])


def test_the_ridge_is_labelled_with_its_own_look_back(tmp_path: Path) -> None:
    """Its look-back is at most 2,048."""
    results = (result_of("full", look_back, linear=linear) for look_back, linear in ((96, 0.39), (2880, 0.375)))
    write_results(
        tmp_path,
        *({**result, "linear_fit": {"look_back": min(result["config"]["context_length"], 2048)}} for result in results),
    )
    sentences = everything(tmp_path)
    assert any("the best baseline, linear (ridge), look-back 2,048, has 0.3750." in sentence for sentence in sentences)


def test_settings_on_different_windows_have_no_ranking_by_mean_error(tmp_path: Path) -> None:
    results = [result_of("full", mse=0.33, linear=0.34), result_of("linear", mse=0.31, linear=0.27, windows=1500)]
    (first, *others), details = answer_of(write_results(tmp_path, *results))
    text = " ".join([first, *others, *details])
    assert "Settings were scored on different test windows: their errors cannot be compared." in text
    assert "Every model is worse" not in text
    assert "The lowest test MSE" not in text


def test_different_windows_leave_the_paired_comparison(tmp_path: Path) -> None:
    for name, count in (("full", 2000), ("linear", 1500)):
        series = errors(0.4, 1, count=count)
        write_run(tmp_path / name, result_of(name, mse=float(series.mean()), windows=count), series)
    assert (
        "Settings were scored on different test windows: only the table Compared window by window compares them."
        in everything(tmp_path)
    )


def test_baselines_with_other_known_inputs_have_names_of_their_own(tmp_path: Path) -> None:
    for name, known, linear in (("with", ["air"], 0.3), ("without", [], 0.38)):
        result = result_of(config={"data.known_covariates": known}, linear=linear)
        write_run(tmp_path / name, result, errors(0.4, 1))
    (group,) = groups_of(read_runs([tmp_path]).runs)
    labels = [baseline.label for baseline in baselines_of(group) if "ridge" in baseline.label]
    assert len(set(labels)) == len(labels) == 2


def test_a_baseline_on_request_is_named_unless_it_has_fewer_windows(tmp_path: Path) -> None:
    result = result_of(mse=0.4)
    naive = {"seasonal_naive_there": {"scaled": {"mse": 0.6}}}
    row = result["baselines"]["linear"]
    result["baselines"] |= {
        "trees": {part: {"scaled": {"mse": 0.3, "mae": 0.1}, "original": {"mse": 1.0, "mae": 1.0}} for part in row},
        "theta": {part: {**row[part], "scaled": {"mse": 0.15, "mae": 0.1}, **naive} for part in row}
        | {"windows": {"validation": 90, "test": 100}},
    }
    write_run(tmp_path / "full", result, errors(0.4, 1))
    text = " ".join(everything(tmp_path))
    assert "the best baseline, gradient-boosted trees, has 0.3" in text
    assert "theta" not in text
    (group,) = groups_of(read_runs([tmp_path]).runs)
    skills = {baseline.label: baseline.skill for baseline in baselines_of(group)}
    assert skills["theta, 100 windows"] == pytest.approx(1 - 0.15 / 0.6)


def test_settings_with_other_test_windows_have_no_front(tmp_path: Path) -> None:
    for name, windows in (("full", 2000), ("linear", 1500)):
        result = result_of(name, windows=windows, train={"full": 100.0, "linear": 300.0}[name])
        write_run(tmp_path / name, result, errors(0.4, 1, count=windows))
    (group,) = groups_of(read_runs([tmp_path]).runs)
    assert not group.same_windows
    assert all(front(group, cost) == [] for cost in COSTS)
    assert len([*draw_pictures(group)]) > 0
