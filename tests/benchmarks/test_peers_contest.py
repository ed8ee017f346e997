import pytest
import torch
from torch import nn

from benchmarks import peers as module
from benchmarks.models import Task
from benchmarks.peers import Contest, hold, rows_of
from forecast.common.errors import NotEnoughMemory
from forecast.training.steps import Peer

TASK = Task(context_length=8, horizon=2, batch=4, channels=3)


def peer(label: str, log: list[str] | None = None, width: int = 2) -> Peer:
    model = nn.Linear(3, width)
    inputs = torch.ones(4, 3)

    def forward() -> torch.Tensor:
        if log is not None:
            log.append(label)
        output: torch.Tensor = model(inputs)
        return output

    optimizer = torch.optim.AdamW(model.parameters())
    return Peer(label, model, optimizer, lambda: forward().square().mean(), forward)


@pytest.mark.parametrize("passes", list(module.PASSES))
def test_passes_of_both_models_alternate(passes: str) -> None:
    log: list[str] = []
    contest = hold(TASK, passes, (peer("ours", log), peer("theirs", log)), ["fp32"], rounds=3)
    timed = log[-6:]  # before them: warm-up and memory
    assert timed == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert {key: len(seconds) for key, seconds in contest.seconds.items()} == {
        ("ours", "fp32"): 3,
        ("theirs", "fp32"): 3,
    }


def test_ratios_are_per_pair_and_windows_from_the_median() -> None:
    seconds = {
        ("ours", "fp32"): [1.0, 2.0, 4.0],
        ("theirs", "fp32"): [2.0, 2.0, 12.0],
        ("ours", "bf16"): [0.5, 0.5, 0.5],
        ("theirs", "bf16"): [1.0, 1.0, 1.0],
    }
    peaks = {key: 100 if key[0] == "ours" else 400 for key in seconds}
    rows = rows_of(Contest(TASK, "inference", (peer("ours"), peer("theirs", width=5)), seconds, peaks))
    assert [(row["ours_precision"], row["theirs_precision"]) for row in rows] == [
        ("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32"),
    ]  # fmt: skip
    first, _, last = rows
    assert (first["times_as_fast_least"], first["times_as_fast"], first["times_as_fast_most"]) == (1.0, 2.0, 3.0)
    assert (first["ours_median_ms"], first["theirs_median_ms"]) == (2000, 2000)
    assert (first["ours_windows_per_s"], first["pairs"]) == (2.0, 3)
    assert last["times_as_fast"] == 4.0
    assert (last["share_of_peak"], last["ours_parameters"], last["theirs_parameters"]) == (0.25, 8, 20)


def test_an_unmeasured_precision_is_not_compared() -> None:
    contest = hold(TASK, "inference", (peer("ours"), peer("theirs")), ["bf16"], rounds=1)
    assert [(row["ours_precision"], row["theirs_precision"]) for row in rows_of(contest)] == [("bf16", "bf16")]


def test_the_peak_is_the_held_memory_plus_a_pass() -> None:
    ours = peer("ours")
    contest = hold(TASK, "inference", (ours, peer("theirs")), ["fp32"], rounds=1)
    assert contest.peaks["ours", "fp32"] == 8 * 4 + 4 * 2 * 4  # weights, and the output of four rows
    trained = hold(TASK, "training step", (ours, peer("theirs")), ["fp32"], rounds=1)
    assert trained.peaks["ours", "fp32"] >= 3 * 8 * 4 + 2 * 4 + 8 * 4  # weights, two averages, counts, gradients


def test_running_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "peak_bytes", fail)
    with pytest.raises(NotEnoughMemory, match=r"^8 → 2, batch 4: not enough memory: lower --batch$"):
        hold(TASK, "inference", (peer("ours"), peer("theirs")), ["fp32"], rounds=1)
