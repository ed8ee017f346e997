"""Pictures and histograms of a finished run in TensorBoard."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lightning.pytorch.loggers.logger import DummyLogger

from forecast.training import outcome
from forecast.training.fit import Fit
from forecast.training.outcome import log_figures
from forecast.training.tensorboard.figures import DPI, WIDTH
from forecast.training.tensorboard.logger import Board
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.boards import events
from tests.support.pictures import drawing
from tests.support.small import quick

PLACES = ["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"]


def test_errors_maps_and_the_last_probe_are_drawn_at_the_last_step(tiny_run: TinyRun) -> None:
    logged = events(tiny_run.path)
    tags = logged.Tags()["images"]
    drawn = ["2_errors/test_by_horizon_step", "2_errors/validation_by_hour_of_day", "probe/heads"]
    for tag in [*drawn, *(tag for tag in tags if tag.startswith("attention/"))]:
        (picture,) = logged.Images(tag)
        assert picture.step == tiny_run.result["model"]["steps"]
        assert 300 < picture.width <= WIDTH * DPI  # TensorBoard drops pixels of wider pictures
    assert {tag for tag in tags if tag.startswith("attention/")} <= {f"attention/{place}" for place in PLACES}


@pytest.mark.slow
def test_without_a_test_split_the_pictures_name_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, object] = {}
    for name in ("draw_step_errors", "draw_step_coverage", "draw_reliability"):
        original = getattr(outcome, name)

        def noted(*arguments: Any, name: str = name, original: Any = original) -> np.ndarray:
            drawn[name] = arguments[1] if len(arguments) > 1 else set(arguments[0])
            return original(*arguments)

        monkeypatch.setattr(outcome, name, noted)
    words = ["data.split={train: 0.7, validation: 0.3, test: 0}", "training.max_steps=1"]
    with drawing("log_figures"):
        run, _ = train(quick(tmp_path, *words))
    split = "validation"
    assert drawn["draw_step_errors"] == split
    assert drawn["draw_step_coverage"] == split
    assert drawn["draw_reliability"] == {split, f"ridge, {split}"}
    assert "2_errors/validation_by_horizon_step" in events(run.path).Tags()["images"]


def test_the_residual_histogram_counts_every_measured_step(tiny_run: TinyRun) -> None:
    (entry,) = events(tiny_run.path).Histograms("validation/residuals")
    counted = entry.histogram_value
    windows = tiny_run.result["data"]["windows"]["validation"]
    assert counted.num == windows * 12 * 2
    mse = tiny_run.result["validation"]["scaled"]["mse"]
    assert math.isclose(counted.sum_squares / counted.num, mse, rel_tol=1e-4)


def test_the_time_of_the_final_pictures_counts_as_logging(tmp_path: Path, monkeypatch: Any) -> None:
    fit = Fit(5, 5, {"fit_seconds": 10.0, "logging_share": 0.01}, "finished", None)
    board = Board(str(tmp_path))

    def draw(board: Board, *_: object) -> None:
        board.clock.seconds += 1.0

    monkeypatch.setattr(outcome, "_draw", draw)
    nothing: Any = SimpleNamespace()
    share = log_figures([board], fit, nothing, nothing, {}).speed["logging_share"]
    assert 0.11 <= share < 0.2
    assert log_figures([DummyLogger()], fit, nothing, nothing, {}) is fit
