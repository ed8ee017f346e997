"""The batch that a plan suggests for a GPU."""

from pathlib import Path

import pytest

from forecast.plan.worker import smallest_fast_batch, windows_per_second
from forecast.runs.settings import Settings
from tests.support.prepared import prepare
from tests.support.small import quick


@pytest.mark.parametrize(("most", "batch"), [(1000, 256), (255, 128), (0, 32)])
def test_a_batch_is_doubled_while_windows_per_second_grow_by_a_tenth_and_it_fits(most: int, batch: int) -> None:
    """A step takes 1 ms to launch, and 5 µs a window from 200 windows on."""

    def rate(windows: int) -> float:
        return windows / max(1e-3, 5e-6 * windows)

    assert smallest_fast_batch(rate, 32, most) == batch


def test_the_rate_of_a_batch_is_that_of_training_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare(Settings.parse(quick(tmp_path)))
    monkeypatch.setattr("forecast.plan.worker.LEAST", 1)
    assert windows_per_second(made, 4) > 0
