"""Verdicts of a report on times from a busy machine, and on interleaved times."""

from pathlib import Path
from typing import Any

import pytest

from forecast.common.timing import Load
from forecast.report.answer import answer
from forecast.report.comparisons import compare_all
from forecast.report.content import make_content
from forecast.report.costs import (
    ALONE,
    IN_TURN,
    INFERENCE,
    PROCESSOR,
    TRAINING,
    comparable,
    crossing_words,
    front,
    times_cheaper,
    verdict,
)
from forecast.report.groups import RunGroup, groups_of
from forecast.report.html import rows
from forecast.report.pictures import draw_pictures
from forecast.report.tables import result_table, turns_table
from forecast.runs.read import read_runs
from tests.report.made import BUSY, QUIET, TRAIN_WINDOWS, errors, no_pictures, result_of, write_run, write_turns

DISTURBED = {"train": BUSY, "inference": BUSY}


def group_of(root: Path) -> RunGroup:
    (group,) = groups_of(read_runs([root]).runs)
    return group


def write_study(root: Path, *, full: Any = None, linear: Any = None) -> RunGroup:
    """Write three mechanisms at one look-back; in their own times `linear` takes half as long as `full`."""
    write_run(root / "full", result_of("full", train=100, inference=400, load=full))
    write_run(root / "linear", result_of("linear", train=200, inference=800, load=linear))
    write_run(root / "mean", result_of("mean", train=210, inference=900))
    return group_of(root)


def text_of(group: RunGroup) -> str:
    sentences, details = answer(group, compare_all(group))
    return "\n".join([*sentences, *details])


def verdicts(group: RunGroup) -> list[str]:
    full, linear = group.at("full", 512), group.at("linear", 512)
    assert full
    assert linear
    return [verdict(cost, linear, full) for cost in (TRAINING, INFERENCE)]


def test_times_of_a_quiet_machine_are_compared(tmp_path: Path) -> None:
    group = write_study(tmp_path)
    assert verdicts(group) == ["faster", "faster"]
    assert "`linear` trains 2 times faster than `full`" in text_of(group)
    assert "rocesses disturbed" not in text_of(group)
    assert turns_table(group) is None


def test_a_mechanism_whose_time_was_disturbed_is_not_called_slower(tmp_path: Path) -> None:
    for load, words in ((None, "no mechanism"), (DISTURBED, "no timed mechanism")):
        root = tmp_path / words
        write_run(root / "full", result_of("full", train=100))
        write_run(root / "probsparse", result_of("probsparse", train=101))
        write_run(root / "linear", result_of("linear", train=102, load=load))
        assert f"{words} trains clearly faster than `full`" in text_of(group_of(root))


@pytest.mark.parametrize("name", ["full", "linear"])
def test_times_of_a_busy_machine_are_not_compared(tmp_path: Path, name: str) -> None:
    group = write_study(tmp_path, **{name: DISTURBED})
    text = text_of(group)
    assert verdicts(group) == ["busy machine", "busy machine"]
    assert "times faster" not in text
    assert "times slower" not in text
    assert text.count("disturbed the timing") == 1
    assert (
        "The speed of 1 of 3 settings cannot be judged, since other processes disturbed the timing: train again "
        "on a quiet machine, or use sweep.repeat_timing=4."
    ) in text
    assert text.startswith("On etth1, horizon 96, at look-back 512, `linear` has test MSE 0.4000")
    assert (name, 512) not in comparable(group, TRAINING)
    assert (name, 512) not in front(group, INFERENCE)


def test_a_disturbed_inference_does_not_change_the_verdict_on_training(tmp_path: Path) -> None:
    group = write_study(tmp_path, linear={"inference": BUSY})
    assert verdicts(group) == ["faster", "busy machine"]
    assert "`linear` trains 2 times faster" in text_of(group)
    assert "forecasts" not in text_of(group)


def test_a_disturbed_time_is_marked_and_never_not_dominated(tmp_path: Path) -> None:
    table = result_table(write_study(tmp_path, linear=DISTURBED))
    cells = {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.cells}
    assert (cells["linear"]["train, ms/window"], cells["linear"]["infer, ms/window"]) == ("5!", "1.25!")
    assert cells["full"]["train, ms/window"] == "10"
    assert cells["linear"]["not dominated"] == "peak"
    assert any(note.startswith("!: other processes") for note in table.notes)
    assert not any(note.startswith("!") for note in result_table(write_study(tmp_path / "quiet")).notes)


def test_a_busy_machine_still_gives_the_processor_time_and_a_pick(tmp_path: Path, monkeypatch: Any) -> None:
    """`taylor` uses a quarter of the processor time of `full`, and has its error; `linear` uses less and is worse."""
    used = {"full": 200.0, "linear": 20.0, "taylor": 50.0, "mean": 10.0}
    for number, (name, cpu) in enumerate(used.items()):
        series = errors(0.5 if name == "linear" else 0.4, number)
        load = {"train": Load(50.0, cpu, 35.0, 38.0), "inference": BUSY}
        write_run(
            tmp_path / name, result_of(name, mse=float(series.mean()), load=load, memory=612 + 5 * number), series
        )
    group = group_of(tmp_path)
    full, taylor = group.at("full", 512), group.at("taylor", 512)
    assert full
    assert taylor
    assert times_cheaper(PROCESSOR, taylor, full) == 4
    first, second, *_ = answer(group, compare_all(group)).sentences
    assert "`taylor` and `full` are statistically indistinguishable" in first
    time = "training `taylor` takes 0.25 times the processor time of `full`"
    assert second == f"At look-back 512, {time} (A processor, 2 threads, float32)."
    monkeypatch.setattr("forecast.report.pictures._trade_off", lambda *_: b"")
    assert [name for name, _, _ in draw_pictures(group)] == ["error-processor"]
    table = result_table(group)
    cells = {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.cells}
    assert (cells["taylor"]["train, CPU ms/window"], cells["linear (ridge)"]["train, CPU ms/window"]) == ("10", "")


def test_the_processor_time_of_a_gpu_is_no_cost_of_training(tmp_path: Path) -> None:
    for name in ("full", "linear"):
        write_run(tmp_path / name, {**result_of(name, load=DISTURBED), "device": "A GPU"})
    assert "processor time" not in text_of(group_of(tmp_path))


def test_a_disturbed_time_makes_no_crossing(tmp_path: Path) -> None:
    for look_back, train in ((96, 50), (720, 200)):
        load = {"train": BUSY} if look_back == 720 else None
        write_run(tmp_path / f"full{look_back}", result_of("full", look_back, train=100))
        write_run(tmp_path / f"linear{look_back}", result_of("linear", look_back, train=train, load=load))
    assert crossing_words(group_of(tmp_path), "linear", TRAINING) == "not up to 96"


def test_interleaved_times_replace_those_of_a_busy_machine(tmp_path: Path) -> None:
    """Interleaved, `linear` takes twice as long as `full`; the runs' own times say the opposite."""
    write_study(tmp_path, full=DISTURBED, linear=DISTURBED)
    write_turns(
        tmp_path, {("full", 512): [10, 11, 10, 12, 10], ("linear", 512): [20, 22, 20, 24, 26], ("mean", 512): [8] * 5}
    )
    group = group_of(tmp_path)
    assert verdicts(group) == ["slower", "slower"]
    assert "rocesses disturbed" not in text_of(group)
    assert comparable(group, TRAINING) == {("full", 512): 10, ("linear", 512): 22, ("mean", 512): 8}
    assert comparable(group, INFERENCE)["linear", 512] == 11
    table = turns_table(group)
    assert table
    cells = {row[0]: row for row in table.cells}
    assert cells["linear"][2:6] == ["22 (20 to 26)", "5!", "0.5 (0.385 to 0.5)", "slower"]
    assert cells["full"][2:6] == ["10 (10 to 12)", "10!", "", ""]


@pytest.mark.parametrize(
    ("linear", "expected"),
    [
        ([8, 8, 8, 8, 8], "faster"),
        ([8, 8, 8, 8, 10.5], "not clearly"),  # one round disagrees
        ([9.5, 9.5, 9.5, 9.5, 9.5], "not clearly"),  # within the margin
        ([12, 12, 12, 12, 12], "slower"),
    ],
)
def test_rounds_must_agree_and_differ_by_the_margin(tmp_path: Path, linear: list[float], expected: str) -> None:
    write_study(tmp_path)
    write_turns(tmp_path, {("full", 512): [10] * 5, ("linear", 512): linear})
    assert verdicts(group_of(tmp_path))[0] == expected


def test_disturbed_rounds_are_left_out_and_too_few_others_give_no_verdict(tmp_path: Path) -> None:
    times = {("full", 512): [10.0] * 5, ("linear", 512): [5.0, 5.0, 5.0, 50.0, 50.0]}
    write_study(tmp_path, full=DISTURBED, linear=DISTURBED)
    write_turns(tmp_path, times, disturbed=[3, 4])
    group = group_of(tmp_path)
    full, linear = group.at("full", 512), group.at("linear", 512)
    assert full
    assert linear
    assert times_cheaper(TRAINING, linear, full) == 2
    assert verdicts(group) == ["faster", "faster"]
    write_turns(tmp_path, times, disturbed=[2, 3, 4])
    group = group_of(tmp_path)
    assert verdicts(group) == ["busy machine", "busy machine"]
    assert "disturbed the timing: run the same command again on a quiet machine." in text_of(group)


def test_interleaved_times_of_different_sweeps_are_not_compared(tmp_path: Path) -> None:
    for name, time in (("full", 10.0), ("linear", 2.0)):
        write_run(tmp_path / name / "run", result_of(name, train=100))
        write_turns(tmp_path / name, {(name, 512): [time] * 5})
    assert verdicts(group_of(tmp_path))[0] == "not clearly"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"settings": [{"key": "a", "why": null}]}', '{"settings": 3}'])
def test_a_damaged_timing_file_is_named_and_ignored(tmp_path: Path, content: str) -> None:
    write_study(tmp_path)
    (tmp_path / "timing.json").write_text(content)
    assert turns_table(group_of(tmp_path)) is None
    ((name, why),) = read_runs([tmp_path]).left_out
    assert (name, why.split(":")[0]) == ("timing.json", "damaged")


def test_a_timing_file_with_an_edited_number_is_ignored(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_turns(tmp_path, {("full", 512): [10.0] * 5, ("linear", 512): [20.0] * 5})
    assert verdicts(group_of(tmp_path)) == ["slower", "slower"]
    path = tmp_path / "timing.json"
    path.write_text(path.read_text().replace("20.0", "21.0"))
    assert verdicts(group_of(tmp_path)) == ["faster", "faster"]
    assert [name for name, _ in read_runs([tmp_path]).left_out] == ["timing.json"]


def test_the_csv_has_means_over_seeds_of_the_windows_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", no_pictures)
    for seed, steps in ((1, 100), (2, 300)):
        write_run(tmp_path / str(seed), result_of(seed=seed, steps=steps), errors(0.4, seed))
    row, *_ = rows(make_content("", read_runs([tmp_path])))
    batch = result_of()["config"]["training"]["batch_size"]
    assert (row["steps"], row["windows_seen"], row["passes"]) == (200, 200 * batch, 200 * batch / TRAIN_WINDOWS)


def test_the_csv_has_the_verdict_of_each_setting_and_its_basis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", no_pictures)
    write_study(tmp_path, linear={"train": BUSY, "inference": QUIET})

    def row() -> dict[str, Any]:
        all_rows = rows(make_content("", read_runs([tmp_path])))
        return next(row for row in all_rows if row["mechanism"] == "linear")

    alone = row()
    assert (alone["train_disturbed"], alone["train_against_full"], alone["train_against_full_basis"]) == (
        True,
        "busy machine",
        "",
    )
    assert (alone["inference_against_full"], alone["inference_against_full_basis"]) == ("faster", ALONE)
    write_turns(tmp_path, {("full", 512): [10.0] * 5, ("linear", 512): [5.0, 4.0, 5.0, 5.0, 5.0]})
    timed = row()
    assert timed["train_cost"] == 5
    assert (timed["train_in_turn"], timed["train_rounds"], timed["train_against_full_times"]) == (5, 5, 2)
    assert (timed["train_against_full_low"], timed["train_against_full_high"]) == (2, 2.5)
    assert (timed["train_against_full"], timed["train_against_full_basis"]) == ("faster", IN_TURN)
