"""A search with Optuna: it minimizes the objective, continues after failed jobs, and shows no test score."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from forecast.common.errors import InputError
from tests.support.sweeps import command

NEEDED = "it needs the extra: pip install -e '.[optuna]'"
pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # Optuna 2 uses what later packages call deprecated

OPTUNA = ["hydra/sweeper=optuna", "hydra.sweeper.sampler.seed=1", "sweep.name=s"]
DROPOUT = "model.dropout=interval(0.0,0.5)"


@pytest.fixture(autouse=True)
def optuna() -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason=NEEDED)
    pytest.importorskip("optuna", reason=NEEDED, exc_type=ImportError)


def test_the_best_trial_has_the_least_objective(fake: Any, returned: list[float | None], tmp_path: Path) -> None:
    fake(lambda config: (config["model"]["dropout"] - 0.2) ** 2 + config["model"]["encoder_layers"])
    words = [*OPTUNA, "hydra.sweeper.n_trials=6", DROPOUT, "model.encoder_layers=choice(1,2)"]
    assert command(tmp_path, *words).code == 0
    best = yaml.safe_load((tmp_path / "sweeps" / "s" / "optimization_results.yaml").read_text())
    assert len(returned) == 6
    assert best["best_value"] == min(value for value in returned if value is not None)
    assert set(best["best_params"]) == {"model.dropout", "model.encoder_layers"}


@pytest.mark.parametrize("kept", [1, 0])
def test_a_search_continues_after_failed_jobs(
    fake: Any, returned: list[float | None], tmp_path: Path, kept: int
) -> None:
    def training(config: dict[str, Any]) -> float:
        if len(returned) >= kept:
            raise InputError("not so")
        return 0.5

    fake(training)
    ended = command(tmp_path, *OPTUNA, "hydra.sweeper.n_trials=3", DROPOUT)
    assert ended.code == 1
    assert returned == [*[0.5] * kept, *[None] * (3 - kept)]
    assert sum("not so" in line for line in ended.errors) == 3 - kept
    assert "Traceback" not in ended.both.getvalue()


def test_a_search_without_an_objective_ends_with_one_line(fake: Any, tmp_path: Path) -> None:
    fake(lambda config: float("nan"))
    ended = command(tmp_path, *OPTUNA, "hydra.sweeper.n_trials=2", DROPOUT)
    assert ended.code == 2
    assert ended.errors[-1].startswith("error: hydra/sweeper: ")


def test_a_search_shows_no_test_score(tmp_path: Path) -> None:
    words = ["hydra.sweeper.n_trials=2", "model.d_model=choice(8,16)", "training.max_steps=2"]
    ended = command(tmp_path, *OPTUNA, *words)
    assert ended.code == 0
    jobs = pd.read_csv(tmp_path / "sweeps" / "s" / "jobs.csv")
    assert jobs["validation_mse"].is_monotonic_increasing
    assert not [column for column in jobs if column.startswith("test") or column == "skill"]
    output = ended.both.getvalue()
    assert "val. MSE" in output
    assert "test MSE" not in output
    assert "skill" not in output
