"""How a time budget is spent, with trainings that only take their time."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.runs.ensemble import with_members
from forecast.runs.run import TIME_BUDGET
from forecast.training import time_budget
from forecast.training.options import Options
from forecast.training.time_budget import check_budget, parse_budget, spend


class Trainings:
    """Trainings of `seconds` for each `max_steps`, which score `mse` of their steps, on a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float, mse: dict[int, float], best: float = 1) -> None:
        self.now, self.seconds, self.mse, self.best = 0.0, seconds, mse, best
        self.ran: list[tuple[int, int]] = []
        self.limits: list[str] = []
        self.scored: dict[str, Any] = {}
        monkeypatch.setattr(time_budget, "train", self.train)
        monkeypatch.setattr(time_budget, "score_members", lambda *runs, **more: self.scored.update(more))
        monkeypatch.setattr(time_budget, "follow_table", lambda settings: (settings, None))
        series = SimpleNamespace(ids=None)
        monkeypatch.setattr(time_budget, "load_source", lambda data: SimpleNamespace(series=series))
        monkeypatch.setattr(time_budget.time, "monotonic", lambda: self.now)

    def train(self, settings: Any, *, folder: Path, source: Any) -> tuple[None, dict[str, Any]]:
        steps = settings.training.max_steps
        self.ran.append((settings.seed, steps))
        self.limits.append(settings.training.max_time)
        self.now += self.seconds * steps / 10
        folder.mkdir()
        model = {"steps": steps, "best_step": round(self.best * steps)}
        return None, {"model": model, "status": "finished", "validation": {"scaled": {"mse": self.mse[steps]}}}


def spent(seconds: float, place: Path) -> None:
    settings = Options.of({"training": {"max_steps": 10}}).settings(place / "table.parquet")[0]
    spend(seconds, 0.0, settings, place)


def test_steps_are_doubled_while_validation_improves_and_then_seeds_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = Trainings(monkeypatch, 10, {10: 0.5, 20: 0.4, 40: 0.45})
    spent(200, tmp_path)
    assert trainings.ran[:3] == [(1, 10), (1, 20), (1, 40)]
    assert trainings.ran[3:] == [(2, 20), (3, 20), (4, 20), (5, 20), (6, 20), (7, 20)]
    assert trainings.limits[0] == "00:00:02:30"
    facts = trainings.scored["time_budget"]
    assert [each["kept"] for each in facts["trainings"]] == [False, True, False, *[True] * 6]
    assert {path.name for path in tmp_path.iterdir()} == {"seed-1-longer-1", *(f"seed-{n}" for n in range(2, 8))}
    assert facts["summary"].endswith("7 seeds of 20 steps kept")


def test_a_training_that_fills_the_budget_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = Trainings(monkeypatch, 10, {10: 0.5})
    spent(15, tmp_path)
    assert trainings.ran == [(1, 10)]
    assert with_members([tmp_path]) == [tmp_path / "seed-1"]
    assert read_json(tmp_path / "seed-1" / TIME_BUDGET)["trainings"][0]["kept"]


def test_equal_starts_are_not_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = Trainings(monkeypatch, 1, {10: 0.5}, best=0)
    spent(60, tmp_path)
    assert trainings.ran == [(1, 10)]


def test_a_budget_is_a_time_and_excludes_what_it_decides() -> None:
    assert [parse_budget(value) for value in ("2min", "1h 30min", 90, timedelta(minutes=1))] == [120, 5400, 90, 60]
    for wrong in ("soon", -1, "1s", "NaT"):
        with pytest.raises(InputError, match="time_budget="):
            parse_budget(wrong)
    limited = Options.of({"training": {"max_time": "00:00:01:00"}}).settings(Path("t.parquet"))[0]
    with pytest.raises(InputError, match="time_budget sets it"):
        check_budget(limited, 1)
    with pytest.raises(InputError, match="ensemble=2: time_budget chooses"):
        check_budget(limited, 2)
