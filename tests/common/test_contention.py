"""Disturbed timings, measured with simulated clocks."""

import math
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from forecast.common import timing as module
from forecast.common.timing import UNKNOWN, Load, load_since, read_load


class Machine:
    """A machine of two processors: its clock, its count of processor time, and the waiting of a process's threads."""

    def __init__(self, folder: Path) -> None:
        self.stat, self.tasks = folder / "stat", folder / "task"
        self.now = self.cpu = self.busy = 0.0
        self.waited: dict[str, float] = {"1": 0.0, "2": 0.0}
        self.write()

    def run(self, wall: float, cpu: float, others: float = 0.0, **waited: float) -> None:
        """Let time go by in which this process and others use the processors; `waited` by thread, as `t1=0.5`."""
        self.now, self.cpu, self.busy = self.now + wall, self.cpu + cpu, self.busy + cpu + others
        for thread, seconds in waited.items():
            self.waited[thread[1:]] = self.waited.get(thread[1:], 0.0) + seconds
        self.write()

    def write(self) -> None:
        ticks = 100 * (500 + self.busy)
        self.stat.write_text(f"cpu  {ticks:.0f} 0 0 7000 300 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
        for thread, seconds in self.waited.items():
            (self.tasks / thread).mkdir(parents=True, exist_ok=True)
            (self.tasks / thread / "schedstat").write_text(f"123 {seconds * 1e9:.0f} 9\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(module, "_STAT", made.stat)
    monkeypatch.setattr(module, "_TASKS", made.tasks)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: made.now, process_time=lambda: made.cpu))
    monkeypatch.setattr(module.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    return made


def test_a_process_that_takes_a_processor_from_two_threads_disturbs_them(machine: Machine) -> None:
    before = read_load()
    machine.run(10, 13, 7, t1=4, t2=3)
    load = load_since(before)
    assert (load.wall_seconds, load.cpu_seconds, load.waited_seconds) == (10, 13, 7)
    assert load.other_cpu_seconds == pytest.approx(7)
    assert (load.others, load.waiting) == (pytest.approx(0.7), pytest.approx(0.7))
    assert load.disturbed is True


def test_every_kind_of_time_but_idle_and_waiting_for_disks_is_busy(machine: Machine) -> None:
    counts = {"user": 1, "nice": 20, "system": 300, "idle": 4000, "iowait": 50000, "irq": 6e5, "softirq": 7e6}
    machine.stat.write_text(f"cpu  {' '.join(f'{count:.0f}' for count in counts.values())} 80000000 0 0\n")
    assert module._busy_seconds() == (1 + 20 + 300 + 6e5 + 7e6 + 8e7) / 100


def test_a_process_on_a_free_processor_does_not_disturb_a_thread(machine: Machine) -> None:
    before = read_load()
    machine.run(10, 9.9, 10, t1=0.2)
    assert load_since(before).disturbed is False


def test_threads_that_wait_for_one_another_on_a_quiet_machine_are_not_disturbed(machine: Machine) -> None:
    before = read_load()
    machine.run(10, 19.5, 0.3, t1=5, t2=5, t3=5)
    assert load_since(before).disturbed is False


def test_a_new_thread_counts_and_an_ended_thread_subtracts_nothing(machine: Machine) -> None:
    before = read_load()
    machine.run(10, 12, 7, t7=2)
    (machine.tasks / "2" / "schedstat").unlink()
    machine.waited.pop("2")
    assert load_since(before).waited_seconds == pytest.approx(2)


@pytest.mark.parametrize(("cpu", "others", "disturbed"), [(12, 7.5, True), (9.9, 5, False), (19.5, 0.3, False)])
def test_without_the_threads_waiting_a_machine_in_full_use_is_disturbed(
    machine: Machine, cpu: float, others: float, disturbed: bool
) -> None:
    for thread in machine.waited:  # as a kernel writes it that does not count
        (machine.tasks / thread / "schedstat").write_text("0 0 0\n")
    machine.waited.clear()
    before = read_load()
    machine.run(10, cpu, others)
    load = load_since(before)
    assert math.isnan(load.waited_seconds)
    assert load.disturbed is disturbed


def test_without_proc_the_load_average_decides_and_without_both_the_load_is_unknown(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_STAT", "_TASKS"):
        monkeypatch.setattr(module, name, tmp_path / "absent")
    monkeypatch.setattr(module.os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    before = read_load()
    machine.run(10, 13)
    assert load_since(before).other_cpu_seconds == 17
    assert load_since(before).disturbed is True
    monkeypatch.delattr(module.os, "getloadavg")
    before = read_load()
    machine.run(10, 13)
    assert load_since(before).disturbed is None


def test_loads_add_up_and_an_unknown_summand_makes_the_sum_unknown() -> None:
    assert Load(1, 2, 3, 4) + Load(10, 20, 30, 40) == Load(11, 22, 33, 44)
    assert (Load(1, 2, 3, 4) + UNKNOWN).disturbed is None
    assert Load() + Load(1, 2, 3, 4) == Load(1, 2, 3, 4)


def test_a_load_is_restored_from_its_figures(machine: Machine) -> None:
    load = Load(10, 13, 7, 8)
    figures = load.figures("train")
    assert Load.of(figures, "train") == load
    assert figures["train_disturbed"] is True
    assert all(math.isnan(value) for value in Load().figures("train").values())
    assert Load.of({}, "train").disturbed is None


def test_the_load_of_this_system_is_read() -> None:
    before = read_load()
    thread = threading.Thread(target=lambda: sum(range(2_000_000)))
    thread.start()
    thread.join()
    load = load_since(before)
    assert load.cpu_seconds > 0
    assert not load.others < 0  # NaN where the system does not tell
    assert not load.waited_seconds < 0
