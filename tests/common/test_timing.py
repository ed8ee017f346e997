from collections.abc import Callable
from typing import Any

import pytest
import torch

from forecast.common.timing import Load, Spread, interleave, seconds_of
from tests.benchmark.made import CPU


def passes(log: list[str], **seconds: float) -> dict[str, Callable[[], float]]:
    def one(name: str) -> Callable[[], float]:
        return lambda: (log.append(name), seconds[name])[1]

    return {name: one(name) for name in seconds}


def test_the_order_reverses_in_each_round() -> None:
    log: list[str] = []
    rounds: list[int] = []
    interleave(passes(log, a=1, b=1, c=1), least=3, most=3, seconds=0, after_round=rounds.append)
    assert "".join(log) == "abc" + "cba" + "abc"
    assert rounds == [1, 2, 3]


def test_a_short_pass_is_repeated_until_its_time_is_up_and_a_long_one_the_least_times() -> None:
    taken = interleave(passes([], short=0.25, shorter=0.001, long=60), least=3, most=9, seconds=1)
    assert {name: len(seconds) for name, seconds in taken.items()} == {"short": 4, "shorter": 9, "long": 3}
    assert taken["long"] == [60, 60, 60]


def test_without_passes_there_is_no_round() -> None:
    assert interleave({}, least=3, most=3, seconds=1) == {}


def test_the_statistics_of_five_times() -> None:
    spread = Spread.of([5.0, 1.0, 2.0, 4.0, 13.0])
    assert spread == Spread(repetitions=5, mean=5.0, median=4.0, lower=2.0, upper=5.0, shortest=1.0)


def test_a_pass_on_the_cpu_is_timed_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([10.0, 12.5])
    monkeypatch.setattr("forecast.common.timing.perf_counter", lambda: next(ticks))
    ran: list[int] = []
    assert seconds_of(lambda: ran.append(1), CPU) == 2.5
    assert ran == [1]


def test_a_pass_on_a_gpu_is_timed_by_events_after_the_device_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait for the end")

        def elapsed_time(self, end: Any) -> float:
            return 3.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("wait"))
    assert seconds_of(lambda: log.append("run"), torch.device("cuda")) == pytest.approx(0.003)
    assert log == ["wait", "record", "run", "record", "wait for the end"]


@pytest.mark.gpu
def test_a_large_product_takes_longer_than_its_launch() -> None:
    device = torch.device("cuda")
    x = torch.randn(8192, 8192, device=device)
    seconds_of(lambda: x @ x, device)
    assert seconds_of(lambda: x @ x, device) > 2 * 8192**3 / 1e15


@pytest.mark.parametrize(("waited", "other", "disturbed"), [(5.0, 9.0, True), (0.0, 9.0, False), (5.0, 0.0, False)])
def test_stored_figures_say_whether_a_stretch_was_disturbed(waited: float, other: float, disturbed: bool) -> None:
    figures = Load(10.0, 10.0, waited, other).figures("train")
    assert Load.is_disturbed(figures, "train") is disturbed
    assert not Load.is_disturbed(figures, "inference")
    assert not Load.is_disturbed(None, "train")
