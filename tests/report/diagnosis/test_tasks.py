"""The chapter on diagnostic series, from made-up results with known shares of skill."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from forecast.common.timing import Load
from forecast.report.content import make_content
from forecast.report.diagnosis import pictures
from forecast.report.diagnosis.answer import sentences
from forecast.report.diagnosis.correlations import correlation_table, correlations
from forecast.report.diagnosis.doubts import doubts
from forecast.report.diagnosis.pictures import _timed, draw_diagnosis
from forecast.report.diagnosis.tables import diagnosis_table
from forecast.report.diagnosis.tasks import diagnose
from forecast.report.html import page, rows, text
from forecast.report.phrases import MINUS
from forecast.runs.read import read_runs
from tests.report import made
from tests.support.small import compose

CONFIG = compose("experiment=diagnostic", "data.types=4", "training.precision=32-true")


def result_of(
    kind: str, mechanism: str, share: float, *, seed: int = 1, types: int = 4, rate: float = 0.001,
    validation: float | None = None, speed: float = 100.0, look_back: int = 256, data_seed: int = 0, steps: int = 1200,
    events: int | None = None, load: Load | None = None, device: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a result with this share of skill; of a control, this error above the best possible one."""
    control = kind in ("linear", "level")
    best, simple = 0.1, 1.1
    mse = best * (1 + share) if control else simple - share * (simple - best)
    result = made.result_of(
        mechanism, look_back, seed, train=speed, memory=200.0 + speed, steps=steps,
        load=None if load is None else {"train": load},
    )  # fmt: skip
    result["device"] = device or result["device"]
    config = {**CONFIG, "attention": {"name": mechanism}, "cross_attention": {"name": mechanism}, "seed": seed}
    config["data"] = {**CONFIG["data"], "kind": kind, "types": None if control else types}
    config["data"]["window_look_back"] = look_back
    config["data"]["seed"] = data_seed
    if events is not None:
        config["data"] |= {"unit": 8, "window_horizon": 8 * events}
        config["horizon"] = 8 * events
    config["training"] = {**CONFIG["training"], "max_steps": steps}
    config |= {"optimizer": {**CONFIG["optimizer"], "lr": rate}, "context_length": look_back}
    part = {"mse": mse, "simple_mse": simple, "share": None if control else share, "excess": mse / best - 1}
    diagnostic = {
        **{"kind": kind, "is_control": control, "types": None if control else types, "distance": 0, "noise": 0.2},
        **{"best_mse": best, "test": part, "validation": {**part, "mse": mse if validation is None else validation}},
    }
    if events is not None:  # results of earlier versions have no number of events
        diagnostic["events"] = events
    return {**result, "config": config, "diagnostic": diagnostic}


def write(root: Path, results: list[dict[str, Any]]) -> Path:
    for number, result in enumerate(results):
        made.write_run(root / f"run-{number}", result)
    return root


@pytest.fixture(autouse=True)
def few_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.pictures.DPI", 20)
    monkeypatch.setattr("forecast.report.diagnosis.pictures.DPI", 20)


def test_validation_chooses_the_learning_rate_and_only_its_test_scores_are_shown(tmp_path: Path) -> None:
    results = [
        result_of("recall", "full", 0.5, rate=0.001, validation=0.2),
        result_of("recall", "full", 0.9, rate=0.003, validation=0.3),  # a better test score counts for nothing
    ]
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    (cell,) = diagnosis.cells.values()
    assert (cell.rate, cell.rates) == (0.001, (0.001, 0.003))
    assert cell.mean == pytest.approx(0.5)
    assert "0.90" not in str(diagnosis_table(diagnosis).cells)


def test_a_rate_with_fewer_seeds_is_not_chosen(tmp_path: Path) -> None:
    results = [result_of("recall", "full", 0.5, rate=0.001, seed=seed, validation=0.4) for seed in (1, 2, 3)]
    results.append(result_of("recall", "full", 0.6, rate=0.003, validation=0.1))
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    (cell,) = diagnosis.cells.values()
    assert (cell.rate, cell.rates, len(cell.runs)) == (0.001, (0.001,), 3)


def test_the_interval_is_that_of_students_t_over_the_seeds(tmp_path: Path) -> None:
    shares = [0.5, 0.6, 0.9]
    results = [result_of("recall", "linear", share, seed=seed) for seed, share in enumerate(shares, 1)]
    (cell,) = diagnose(read_runs([write(tmp_path, results)]).runs).cells.values()
    low, high = stats.ttest_1samp(shares, 0).confidence_interval(0.95)
    assert (cell.mean - cell.half, cell.mean + cell.half) == pytest.approx((low, high))


def test_the_answer_names_the_mechanism_to_take_its_price_and_where_skill_is_lost(tmp_path: Path) -> None:
    results = [
        result_of("recall", "full", 0.99, types=4, speed=50),
        result_of("recall", "linear", 0.97, types=4, speed=200),
        result_of("recall", "mean", 0.01, types=4, speed=400),
        result_of("recall", "full", 0.98, types=16, speed=50),
        result_of("recall", "linear", 0.30, types=16, speed=200),
        result_of("recall", "mean", 0.0, types=16, speed=400),
        result_of("linear", "full", 0.012),
        result_of("linear", "mean", 0.008),
    ]
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    few, many, curve, control = sentences(diagnosis)
    assert few == (
        "`recall`, 4 types: share of the achievable skill `full` 0.99, `linear` 0.97 and `mean` 0.01; take `linear`: "
        "5 ms a window and a peak of 400 MiB in training, 4 times as fast as `full`."
    )
    assert many.endswith("take `full`: 20 ms a window and a peak of 250 MiB in training.")
    assert curve == (
        "`recall`, with 4 and 16 types: the share of the achievable skill first falls below 0.5 at 4 with `mean` "
        "and at 16 with `linear`; it stays at 0.5 or above with `full`."
    )
    assert control == (
        "Control `linear`: the errors lie above the best possible one by `mean` 0.8 % and `full` 1.2 %; the better of "
        "last value and ridge by 1000.0 %. Attention has nothing to find here."
    )


def test_the_number_of_events_is_a_size_although_the_horizon_follows_it(tmp_path: Path) -> None:
    shares = {("full", 4): 0.99, ("full", 16): 0.98, ("probsparse", 4): 0.9, ("probsparse", 16): 0.2}
    results = [result_of("events", name, share, types=16, events=n) for (name, n), share in shares.items()]
    few, many, curve = sentences(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert few.startswith("`events`, 16 types, 4 events ahead: share of the achievable skill `full` 0.99")
    assert many.startswith("`events`, 16 types, 16 events ahead: ")
    assert curve == (
        "`events`, 16 types, with 4 and 16 events in the horizon: the share of the achievable skill first falls below "
        "0.5 at 16 with `probsparse`; it stays at 0.5 or above with `full`."
    )


def test_a_curve_on_which_no_mechanism_loses_half_says_so(tmp_path: Path) -> None:
    shares = {("full", 4): 0.99, ("full", 16): 0.98, ("linear", 4): 0.9, ("linear", 16): 0.6}
    results = [result_of("recall", name, share, types=n) for (name, n), share in shares.items()]
    *_, curve = sentences(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert curve.endswith("the share of the achievable skill stays at 0.5 or above with `full` and `linear`.")


def test_one_horizon_of_several_lengths_has_no_curve_against_its_single_event(tmp_path: Path) -> None:
    results = [result_of("recall", "full", 0.9) for _ in range(2)]
    for result, horizon in zip(results, (8, 16), strict=True):
        result["config"]["horizon"] = result["config"]["data"]["window_horizon"] = horizon
    assert not list(diagnose(read_runs([write(tmp_path, results)]).runs).curves())


def test_overlapping_intervals_leave_the_choice_open(tmp_path: Path) -> None:
    shares = {"full": (0.97, 0.98, 0.99), "linear": (0.98, 0.98, 0.5), "mean": (0.04, 0.03, 0.05)}
    results = [
        result_of("recall", name, share, seed=seed) for name, own in shares.items() for seed, share in enumerate(own, 1)
    ]
    choice, doubt = sentences(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert "take `full`: " in choice
    assert doubt == "`recall`, 4 types: more seeds may show that `linear` is as good."


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"device": "Another processor, 8 threads"}, "the training times are those of different machines or batches"),
        ({"load": made.BUSY}, "other processes disturbed the training times"),
    ],
)
def test_times_that_cannot_be_compared_do_not_choose(tmp_path: Path, second: dict[str, Any], why: str) -> None:
    results = [
        result_of("recall", "full", 0.99, speed=50),
        result_of("recall", "linear", 0.98, speed=200, **second),
        result_of("recall", "mean", 0.01),
    ]
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    (choice,) = sentences(diagnosis)
    assert choice.endswith(f"; take `full` ({why}).")
    assert any("!" in row[-2] for row in diagnosis_table(diagnosis).cells) == ("load" in second)


@pytest.mark.parametrize(
    ("speeds", "rounds", "taken"),
    [
        ((330, 250), ([1.0] * 5, [0.8] * 5), "take `linear`: 0.8 ms a window and a peak of 450 MiB in training, 1.25 "
         "times as fast as `full`."),
        ((250, 330), ([1.0] * 5, [0.95] * 5), "take `full`: 1 ms a window and a peak of 450 MiB in training."),
        ((250, 330), ([1.0] * 5, [0.5, 0.5, 0.5, 0.5, 1.1]), "take `full`: 1 ms a window and a peak of 450 MiB in "
         "training."),
        ((100, 102), None, "take `full`: 10 ms a window and a peak of 300 MiB in training."),
        ((100, 125), None, "take `linear`: 8 ms a window and a peak of 325 MiB in training, 1.25 times as fast as "
         "`full`."),
    ],
)  # fmt: skip
def test_a_mechanism_is_taken_for_its_speed_only_if_it_is_clearly_faster(
    tmp_path: Path, speeds: tuple[int, int], rounds: tuple[list[float], list[float]] | None, taken: str
) -> None:
    """Times in turn count before those of the runs."""
    names = ("full", "linear")
    results = [result_of("recall", name, 0.99, speed=speed) for name, speed in zip(names, speeds, strict=True)]
    write(tmp_path, results)
    if rounds is not None:
        made.write_turns(tmp_path, {(name, 256): times for name, times in zip(names, rounds, strict=True)})
    (choice,) = sentences(diagnose(read_runs([tmp_path]).runs))
    assert choice.endswith(taken)


def test_the_same_seed_on_two_devices_makes_two_arms(tmp_path: Path) -> None:
    results = [result_of("recall", "full", 0.5), result_of("recall", "full", 0.9, device="A GPU")]
    results.append(result_of("recall", "full", 0.7, types=8))  # has the name of its device, as at 4 types
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    ((_, tasks),) = diagnosis.curves()
    assert {diagnosis.at(task, "full, A processor, 2 threads") is None for task in tasks} == {False}
    assert sorted((cell.arm, round(cell.mean, 6)) for cell in diagnosis.cells.values()) == [
        ("full, A GPU", 0.9),
        ("full, A processor, 2 threads", 0.5),
        ("full, A processor, 2 threads", 0.7),
    ]


def test_a_task_that_nobody_solves_recommends_nothing(tmp_path: Path) -> None:
    results = [result_of("lag", name, share) for name, share in (("full", 0.02), ("mean", -0.01))]
    (sentence,) = sentences(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert sentence == (
        f"`lag`, 4 lags: no mechanism finds it (`full` 0.02 and `mean` {MINUS}0.01 of the achievable skill)."
    )


@pytest.mark.slow
def test_the_report_has_the_chapter_its_pictures_and_a_row_per_cell(tmp_path: Path) -> None:
    results = [
        result_of("recall", name, share / types, types=types, look_back=look_back, seed=seed)
        for name, share in (("full", 4.0), ("mean", 0.1))
        for types in (4, 8)
        for look_back in (256, 512)
        for seed in (1, 2)
    ]
    results += [result_of("level", "full", 0.01), made.result_of("full"), made.result_of("mean")]
    content = make_content("a report", read_runs([write(tmp_path, results)]))
    first, second = content.chapters
    assert [first.title, second.title] == ["Diagnostic series", "etth1, horizon 96"]
    names = [picture.file for picture in first.pictures]
    assert names[0] == "report-skill-map.png"
    assert len(names) == len(set(names)) == 1 + 2 + 2 + 2  # the map, skill by types, by look-back, and times
    assert all(picture.png.startswith(b"\x89PNG") for picture in first.pictures)
    table = [row for row in rows(content) if row.get("kind") is not None]
    assert len(table) == 2 * 2 * 2 + 1
    shares = sorted({row["share_of_skill"] for row in table if row["kind"] == "recall"})
    assert shares == pytest.approx([0.0125, 0.025, 0.5, 1.0])
    (control,) = [row for row in table if row["kind"] == "level"]
    assert (control["share_of_skill"], control["excess_error"]) == (None, pytest.approx(0.01))
    assert control["half_interval"] is None
    assert "## Diagnostic series" in text(content)
    document = page(content)
    assert re.search(r"<h2>Diagnostic series</h2>", document)
    assert document.count("<img") >= len(names)


def test_the_probe_is_compared_with_the_loss_of_skill(tmp_path: Path) -> None:
    """The distance orders the mechanisms as their loss does, the entropy the other way round; a NaN is left out.

    The control, whose loss and numbers are the largest by its definition, is left out too.
    """
    results = []
    for number, (name, share) in enumerate([("full", 1.0), ("probsparse", 0.9), ("linear", 0.8), ("taylor", 0.7)]):
        for types in (4, 8, 15):  # with 15, nobody finds anything
            for seed in (1, 2):
                found = share if types < 15 else 0.04 * share
                result = result_of("recall", name, found - 0.01 * seed, seed=seed, types=types)
                rank = number + 0.1 * seed
                layer = {"keys": 9, "distance": [rank, rank + 2, None], "entropy": [1 - rank / 10], "found": None}
                result["probe"] = {"layers": {"encoder.0.self": layer, "decoder.0.self": {**layer, "keys": 1}}}
                results.append(result)
                control = result_of("recall", "mean", -0.01 * seed, seed=seed, types=types)
                layer = {"keys": 9, "distance": [9.0], "entropy": [1.0], "found": None}
                control["probe"] = {"layers": {"encoder.0.self": layer}}
                results.append(control)
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    ranks = {(each.measure, each.place): [round(rank, 6) for rank in each.ranks] for each in correlations(diagnosis)}
    assert ranks == {("distance", "self"): [1.0, 1.0], ("entropy", "self"): [-1.0, -1.0]}
    table = correlation_table(diagnosis)
    assert table is not None
    assert table.cells[0] == ["distance from softmax attention", "self-attention", "+1.00", "+1.00 to +1.00", "2", "2"]


def test_a_longer_training_of_another_look_back_keeps_the_names_of_the_arms(tmp_path: Path) -> None:
    results = [
        result_of("recall", name, 0.5, look_back=look_back, steps=steps)
        for name in ("full", "mean")
        for look_back, steps in ((256, 1200), (512, 400))
    ]
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    assert diagnosis.arms == ["full", "mean"]
    assert (diagnosis.reference, diagnosis.control) == ("full", "mean")
    ((size, tasks),) = diagnosis.curves()
    assert (size, [task.look_back for task in tasks]) == ("look_back", [256, 512])
    assert "256 and 512 steps of look-back (trainings of 400 to 1,200 steps): " in sentences(diagnosis)[-1]


def test_series_of_other_seeds_have_other_names_and_curves(tmp_path: Path) -> None:
    results = [
        result_of("recall", "full", 0.5, types=types, data_seed=data_seed) for types in (4, 15) for data_seed in (0, 1)
    ]
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    assert len({diagnosis.name(task) for task in diagnosis.tasks}) == 4
    assert [[task.types for task in tasks] for _, tasks in diagnosis.curves()] == [[4, 15], [4, 15]]


def test_seeds_of_an_optimizer_without_a_learning_rate_are_one_choice(tmp_path: Path) -> None:
    results = [result_of("recall", "full", 0.5, seed=seed, validation=seed / 10) for seed in (1, 2, 3)]
    for result in results:
        del result["config"]["optimizer"]["lr"]
    (cell,) = diagnose(read_runs([write(tmp_path, results)]).runs).cells.values()
    assert (len(cell.runs), cell.rate, cell.rates) == (3, None, (None,))


def test_the_map_darkens_with_less_skill(tmp_path: Path) -> None:
    import io

    from PIL import Image

    from forecast.report.diagnosis.pictures import draw_diagnosis

    def picture(share: float, place: str) -> np.ndarray:
        results = [result_of("recall", "full", share), result_of("recall", "mean", share)]
        _, _, png = next(draw_diagnosis(diagnose(read_runs([write(tmp_path / place, results)]).runs)))
        return np.asarray(Image.open(io.BytesIO(png)).convert("L"), dtype=float)

    assert picture(0.95, "high").mean() > picture(0.05, "low").mean() + 10


def test_one_mechanism_has_one_name_on_all_series(tmp_path: Path) -> None:
    """On each series alone the factor distinguishes nothing; along a curve it does."""
    results = [result_of("recall", "probsparse", 0.5, types=types) for types in (4, 8)]
    for result, factor in zip(results, (1, 5), strict=True):
        result["config"]["attention"] = result["config"]["cross_attention"] = {"name": "probsparse", "factor": factor}
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    assert sorted(diagnosis.arms) == ["probsparse, factor=1", "probsparse, factor=5"]


def test_options_that_no_name_tells_are_listed(tmp_path: Path) -> None:
    results = [result_of("recall", name, 0.9, types=types, seed=seed) for name in ("full", "linear") for types in (4, 8)
               for seed in (1, 2)]  # fmt: skip
    for result in results:
        model = {**result["config"]["model"], "d_model": 64 if result["config"]["attention"]["name"] == "full" else 32}
        size = 16 * result["diagnostic"]["types"]
        result["config"] |= {"model": model, "training": {**result["config"]["training"], "batch_size": size}}
    few, many, curve = doubts(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert few == (
        "`recall`, 4 types: these options differ between the mechanisms: `model.d_model` (64 with `full`; 32 with "
        "`linear`)."
    )
    assert many.startswith("`recall`, 8 types: these options differ")
    assert curve == (
        "`recall` against types: the points of the curve differ in these options too: "
        "`training.batch_size` (64 at 4; 128 at 8)."
    )


def test_equal_runs_of_two_seeds_leave_no_doubt_and_one_seed_does(tmp_path: Path) -> None:
    results = [result_of("recall", name, 0.9, seed=seed) for name in ("full", "mean") for seed in (1, 2)]
    assert doubts(diagnose(read_runs([write(tmp_path / "two", results)]).runs)) == []
    single = [result for result in results if result["seed"] == 1]
    assert doubts(diagnose(read_runs([write(tmp_path / "one", single)]).runs)) == [
        "2 of 2 cells of the map have one seed: another seed may differ."
    ]


def test_a_mechanism_that_was_still_learning_is_named(tmp_path: Path) -> None:
    results = [result_of("recall", "full", 0.1, seed=seed) for seed in (1, 2)]
    results[1]["model"]["best_step"] = results[1]["model"]["steps"]
    assert doubts(diagnose(read_runs([write(tmp_path, results)]).runs)) == [
        "`recall`, 4 types: more steps may help `full`: the validation error was still falling at the end."
    ]


def test_a_learning_rate_that_lost_a_seed_is_named(tmp_path: Path) -> None:
    results = [
        result_of("recall", name, 0.9, rate=rate, seed=seed)
        for name in ("full", "linear")
        for rate in (0.003, 0.01)
        for seed in (1, 2)
    ]
    del results[-1]
    assert doubts(diagnose(read_runs([write(tmp_path, results)]).runs)) == [
        "`recall`, 4 types: the learning rates to choose from were unequal: `full` 0.003 and 0.01; `linear` 0.003 "
        "(without 0.01, of fewer seeds)."
    ]


def test_the_control_is_never_taken(tmp_path: Path) -> None:
    near = [result_of("lag", name, share) for name, share in (("taylor", 0.06), ("linear", 0.05), ("mean", 0.03))]
    (sentence,) = sentences(diagnose(read_runs([write(tmp_path / "near", near)]).runs))
    assert sentence.endswith("; no mechanism is clearly better than the control `mean`.")
    far = [
        result_of("lag", name, share, speed=speed) for name, share, speed in (("full", 0.5, 50), ("mean", 0.44, 500))
    ]
    (sentence,) = sentences(diagnose(read_runs([write(tmp_path / "far", far)]).runs))
    assert "; take `full`" in sentence


def test_a_share_just_below_zero_has_no_sign(tmp_path: Path) -> None:
    results = [result_of("lag", name, share) for name, share in (("full", 0.9), ("mean", -0.003))]
    (sentence,) = sentences(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert "`full` 0.90 and `mean` 0.00;" in sentence


def test_a_curve_says_where_an_interval_includes_half(tmp_path: Path) -> None:
    shares = {(4, 1): 0.99, (4, 2): 0.99, (15, 1): 0.99, (15, 2): 0.1}
    results = [result_of("recall", "full", share, types=types, seed=seed) for (types, seed), share in shares.items()]
    *_, curve = sentences(diagnose(read_runs([write(tmp_path, results)]).runs))
    assert curve.endswith("stays at 0.5 or above with `full`; its interval includes 0.5 at 15 with `full`.")


def test_a_share_far_below_zero_is_within_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    lowest = []
    monkeypatch.setattr(pictures, "png", lambda panel, **_: lowest.append(panel.get_ylim()[0]) or b"")
    results = [result_of("recall", "full", share, types=types) for share, types in ((0.9, 4), (-0.4, 8))]
    list(pictures.draw_diagnosis(diagnose(read_runs([write(tmp_path, results)]).runs)))
    assert lowest[0] < -0.4


@pytest.mark.parametrize(
    ("load", "device", "drawn"),
    [(None, None, {("full", 256), ("full", 512), ("linear", 256), ("linear", 512)}), (made.BUSY, None, None),
     (None, "B GPU", {("full", 256), ("full", 512), ("linear", 256)})],
)  # fmt: skip
def test_only_undisturbed_times_of_one_device_are_drawn(
    load: Load | None, device: str | None, drawn: set[tuple[str, int]] | None, tmp_path: Path
) -> None:
    results = [
        result_of(
            "recall", name, 0.5, look_back=at, load=load, device=device if (name, at) == ("linear", 512) else None
        )
        for name in ("full", "linear")
        for at in (256, 512)
    ]
    diagnosis = diagnose(read_runs([write(tmp_path, results)]).runs)
    assert diagnosis is not None
    timed = _timed(diagnosis, diagnosis.tasks)
    assert {(cell.setting.mechanism, cell.task.look_back) for cell in timed} == (drawn or set())
    assert any(name.startswith("skill-time") for name, *_ in draw_diagnosis(diagnosis)) == (drawn is not None)
