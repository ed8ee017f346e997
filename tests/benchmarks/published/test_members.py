from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest

from benchmarks.published import contest, members
from benchmarks.published.choices import PARTS
from benchmarks.published.contest import Entry, Recipe
from benchmarks.published.lanes import Commands
from benchmarks.published.tasks import LEVELS, TASKS, Task, seasonal_naive, windows_of
from tests.benchmarks.published.test_contest import TASK, table, train_here
from tests.conftest import LIGHTNING
from tests.support.small import QUICK, SMALL


def test_the_windows_lie_before_the_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dates = pd.date_range("2020", periods=60_000, freq="h", name="date")
    frame = pd.DataFrame({"OT": 1.0, **dict.fromkeys(TASKS["epf_de"].known, 1.0)}, dates)
    monkeypatch.setattr(members, "data_folder", Path)
    monkeypatch.setitem(
        cast("dict[str, Task]", TASKS), "epf_de", replace(TASKS["epf_de"], files=(), read=lambda: frame)
    )
    entry = members.entry_of("epf_de", "started", tmp_path)
    assert (len(entry.table), entry.task.windows) == (PARTS["epf_de"].rows, 100)
    assert entry.task.cutoffs(entry.table)[-1] == PARTS["epf_de"].rows - 24


def test_the_loss_of_a_point_forecast_is_its_scaled_error() -> None:
    entry = Entry(TASK, table(), "started", Path())
    pasts = [past for past, _ in windows_of(entry.task, entry.table)]

    def naive(number: int) -> np.ndarray:
        return np.repeat(seasonal_naive(pasts[number], 24, 24)[..., None], len(LEVELS), -1)

    scores = [
        np.abs(future - naive(number)[..., 0]).mean(0) / np.abs(past[24:] - past[:-24]).mean(0)
        for number, (past, future) in enumerate(windows_of(entry.task, entry.table))
    ]
    assert members.sql(entry, naive) == pytest.approx(np.mean(scores))


@pytest.mark.filterwarnings(*LIGHTNING)
def test_each_training_and_their_mean_have_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tuple(word for word in QUICK if not word.startswith("horizon="))
    monkeypatch.setitem(contest.RECIPES, "quick", Recipe((*SMALL["patch_informer"], *words), seeds=2))
    monkeypatch.setattr(Commands, "run", train_here)
    monkeypatch.setattr(contest, "LANES", 1)  # trainings in one process share its random state
    one, two, mean = members.rows_of(Entry(TASK, table(), "quick", tmp_path))
    assert [one["member"], two["member"], mean["member"]] == ["seed=1", "seed=2", "mean"]
    losses = [float(str(row["SQL"])) for row in (one, two, mean)]
    assert losses[0] != losses[1]
    assert losses[2] <= (losses[0] + losses[1]) / 2 + 1e-4  # the loss is convex
