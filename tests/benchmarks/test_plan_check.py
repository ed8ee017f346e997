"""A plan compared with real trainings, from the command line to its tables and its file."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import plan_check
from benchmarks.plan_check import Pair, check_table, compare, main, rank
from forecast.common.errors import Interrupted
from forecast.plan import clock, planner, worker
from forecast.plan.messages import Answer, Request
from forecast.training.sweep.isolated import Failure, JobFailed
from forecast.training.train import train
from tests.plan.made import LENGTH, PACE, measured
from tests.support.small import QUICK, SIMULATED, SMALL

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def check(*words: str) -> int:
    fixed = [*SIMULATED, *QUICK, *SMALL["patch_informer"], "--threads", "1", "--memory-gib", "2", "--quiet"]
    return main([*fixed, *words])


def result_of(steps: int, seconds: float, peak: float) -> dict[str, Any]:
    return {"speed": {"fit_seconds": seconds, "peak_memory_mib": peak}, "model": {"steps": steps}}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Replace the processes, with `linear` twice as fast as `full`; return the list of requests and trainings."""
    seen: list[tuple[str, str]] = []

    def pace_of(label: str) -> Any:
        return replace(PACE, step=0.2) if label == "linear" else PACE

    def request_child(request: Request, label: str, limit: float) -> Answer:
        seen.append((label, request.what))
        return measured(pace=pace_of(label))

    def train_apart(config: dict[str, Any], folder: Path, argv: list[str]) -> dict[str, Any]:
        label, steps = config["attention"]["name"], int(config["training"]["max_steps"])
        seen.append((label, "train"))
        return result_of(steps, pace_of(label).fit_seconds(LENGTH, steps) / 1.25, 400.0)

    monkeypatch.setattr(planner, "request_child", request_child)
    monkeypatch.setattr(plan_check, "train_apart", train_apart)
    return seen


def test_plans_and_trainings_alternate_and_give_ratios_and_rankings(
    requests: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--mechanisms", "full", "linear", "--rounds", "2", "--check-steps", "30", "--confirm"]
    assert check(*words, "--output", str(tmp_path / "plan.json")) == 0
    assert [what for _, what in requests[:8]] == ["measure", "train"] * 2 + ["train", "again"] * 2
    assert [label for label, _ in requests[:8]] == ["full"] * 2 + ["linear"] * 4 + ["full"] * 2
    written = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert written["command"].startswith("python -m benchmarks.plan_check data=synthetic")
    for compared in written["check"]["mechanisms"].values():
        assert compared["seconds"]["ratios"] == pytest.approx([1.25, 1.25])
        assert compared["peak_mib"]["ratios"] == pytest.approx([0.75, 0.75])
    ranking = written["check"]["ranking"]["seconds"]
    assert ranking == {"planned": ["linear", "full"], "real": ["linear", "full"], "swapped": []}
    printed = " ".join(capsys.readouterr().out.split())
    assert "order by time, trained: linear < full; planned: linear < full" in printed
    assert "one step at batch" in printed


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (JobFailed(Failure("horizon 0: too short", "InputError", 2)), 2, "a training ended without a result: horizon"),
        (JobFailed(Failure("the disk is full", "OSError", 4)), 4, "a training ended without a result: the disk"),
        (Interrupted("the same command resumes it", 15), 143, "nothing was written"),
        (SystemExit(130), 130, "nothing was written"),
    ],
)
def test_an_unfinished_training_ends_the_check_in_one_line(
    end: BaseException,
    code: int,
    words: str,
    requests: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def train_apart(*_: Any) -> None:
        raise end

    monkeypatch.setattr(plan_check, "train_apart", train_apart)
    assert check("--mechanisms", "full") == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.exhaustive
def test_a_real_plan_and_a_real_training_have_similar_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_here(request: Request, label: str, limit: float) -> Answer:
        return Answer.of(json.loads(json.dumps(worker.answer_request(**json.loads(json.dumps(asdict(request)))))))

    monkeypatch.setattr(planner, "request_child", answer_here)
    monkeypatch.setattr(plan_check, "train_apart", lambda config, folder, argv: train(config, folder=folder)[1])
    monkeypatch.setattr(
        worker, "limit_process", lambda _: None
    )  # else the later tests in this process would be limited
    monkeypatch.setattr(clock, "LEAST", 16)
    monkeypatch.chdir(tmp_path)
    words = ["--mechanisms", "mean", "--seconds", "0", "--rounds", "2", "--check-steps", "6"]
    assert check(*words, "--output", "plan.json") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    mean = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["check"]["mechanisms"]["mean"]
    assert mean["peak_mib"]["median"] == pytest.approx(1, abs=0.2)
    assert mean["seconds"]["real"] > 0


def pair(planned: float, real: float) -> Pair:
    return Pair({"seconds": planned, "peak_mib": 1.0}, {"seconds": real, "peak_mib": 1.0})


def test_a_plan_is_evaluated_at_the_steps_of_the_training() -> None:
    made = Pair.of(measured(), result_of(60, seconds=50.0, peak=600.0))
    assert made.planned == {"seconds": PACE.fit_seconds(LENGTH, 60), "peak_mib": 300.0}
    assert made.planned["seconds"] == pytest.approx(4 + 60 + 2 * 3 + 1)
    assert made.real == {"seconds": 50.0, "peak_mib": 600.0}


@pytest.mark.parametrize(("third", "within"), [(1.25, True), (1.26, False), (0.75, True), (0.74, False)])
def test_the_median_ratio_decides(third: float, within: bool) -> None:
    pairs = [pair(0.1, 1), pair(2 * third, 2), pair(9, 1)]
    compared = compare(pairs, "seconds")
    assert compared["ratios"] == [0.1, third, 9]
    assert (compared["median"], compared["within"]) == (third, within)
    assert (compared["real"], compared["reals"]) == (1, [1, 2, 1])
    assert compared["plans"] == [0.1, 2 * third, 9]


@pytest.mark.parametrize(("highest", "claimed"), [(9.4, True), (9.6, False)])
def test_a_wrongly_ranked_pair_is_listed_with_its_difference(highest: float, claimed: bool) -> None:
    compared = {
        "full": {"planned": 10.0, "real": 9.0, "reals": [9.0, 8.0, 12.0], "plans": [10.0, 9.5, 11.0]},
        "mean": {"planned": 2.0, "real": 2.0, "reals": [2.0, 2.0, 2.0], "plans": [2.0, 2.0, 2.0]},
        "taylor": {"planned": 9.0, "real": 9.9, "reals": [9.9, 10.0, 9.5], "plans": [9.0, 8.0, highest]},
    }
    ranks = rank(compared)
    assert ranks["planned"] == ["mean", "taylor", "full"]
    assert ranks["real"] == ["mean", "full", "taylor"]
    (swap,) = ranks["swapped"]
    assert swap["mechanisms"] == ["full", "taylor"]
    assert swap["apart"] == pytest.approx(0.1)
    assert (swap["alike"], swap["turns"], swap["claimed"]) == (2, 3, claimed)


@pytest.mark.parametrize(
    ("claimed", "words"),
    [(True, "all plans had the wrong order"), (False, "the plans marked the order as uncertain")],
)
def test_a_wrong_order_is_shown_with_the_certainty_of_the_plans(claimed: bool, words: str) -> None:
    swap = {"mechanisms": ["full", "mean"], "apart": 0.1, "alike": 4, "turns": 5, "claimed": claimed}
    ranks: dict[str, Any] = {"real": ["mean", "full"], "planned": ["full", "mean"], "swapped": [swap]}
    settled = {**ranks, "planned": ["mean", "full"], "swapped": []}
    result = {"pairs": 5, "mechanisms": {}, "ranking": {"seconds": ranks, "peak_mib": settled}}
    (note,) = (note for note in check_table(result).notes if "wrong order by" in note)
    assert note.startswith("wrong order by time: full and mean, 10.0 % apart in the trainings")
    assert f"in this order in 4 of 5 rounds; {words}" in note
