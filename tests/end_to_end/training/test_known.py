"""A training with covariates of every role: resumed, from a mapped table, in two processes."""

from pathlib import Path
from typing import Any

import pytest

from forecast.runs.run import Run
from forecast.training.train import train
from tests.support.covariates import KNOWN, PAST, ROLES, table
from tests.support.interruptions import assert_same, train_in_two_parts
from tests.support.small import changed, quick, write


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run of 12 steps with every role; its categories become unknown at random."""
    folder = tmp_path_factory.mktemp("known")
    words = ["data=csv", f"data.path={write(folder / 'table.csv', table())}", *ROLES, "data.perfect_foresight=[wind]"]
    return quick(folder / "outputs", *words, "training.validations_per_epoch=8", "model.linear_path=zero")


@pytest.fixture(scope="module")
def whole(config: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Return the complete run."""
    return train(config)


def test_the_result_names_the_roles(whole: tuple[Run, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    data = whole[1]["data"]
    assert data["known_covariates"] == KNOWN
    assert data["past_covariates"] == PAST
    assert data["channels"] == ["load", "oil", "air"]  # `state` is a category, no channel
    assert data["static_covariates"] == ["region", "size"]
    from forecast.runs.summary import notes, summary

    (line,) = [line for line in notes(whole[1]) if "foresight" in line]
    assert line == "perfect foresight of wind: measured values, not forecasts of them"
    assert line in summary(whole[1])


def test_a_resumed_run_has_the_results_of_a_complete_run(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(*train_in_two_parts(config, tmp_path, 7, monkeypatch), whole)


def test_a_mapped_table_gives_identical_scores(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path
) -> None:
    run, result = train(changed({**config, "output_dir": str(tmp_path)}, training__data_placement="mapped"))
    assert result["test"] == whole[1]["test"]
    assert (run.path / "model.safetensors").read_bytes() == (whole[0].path / "model.safetensors").read_bytes()
