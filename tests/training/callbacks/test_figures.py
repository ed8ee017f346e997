from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import ImageChops
from safetensors.torch import load_file

from forecast.common.errors import InputError
from forecast.runs.settings import Settings
from forecast.training.callbacks.figures import Figures
from forecast.training.prepare import prepare
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.boards import curve, events, images
from tests.support.small import HORIZON, changed, hourly, quick, write

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")

TAG = "1_forecasts/validation"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run with dropout, a validation every four steps, and a model that forecasts something of its own."""
    own = ["model.dropout=0.2", "model.linear_path=zero", "attention=probsparse", "training.validations_per_epoch=6.5"]
    return quick(tmp_path_factory.mktemp("figures"), *own)


@pytest.fixture(scope="module")
def drawn(config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return train(config)


def same(one: Any, other: Any) -> bool:
    return ImageChops.difference(one, other).getbbox() is None


def test_there_is_a_picture_at_each_validation_and_it_changes_with_the_model(drawn: Any) -> None:
    run, _ = drawn
    found = images(run.path, TAG)
    assert list(found) == list(curve(run.path, "val/mse"))
    assert len(found) >= 3
    pictures = list(found.values())
    assert not same(pictures[0], pictures[-1])


def test_weights_and_scores_are_the_same_digit_for_digit_without_pictures(drawn: Any, config: dict[str, Any]) -> None:
    run, result = drawn
    callbacks = {name: node for name, node in config["callbacks"].items() if name != "figures"}
    plain, without = train({**config, "callbacks": callbacks})
    assert TAG not in events(plain.path).Tags()["images"]
    for part in ("validation", "test", "model"):
        assert without[part] == result[part]
    assert (plain.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
    for name in ("train/loss", "train/gradient_norm", "val/mse"):
        assert curve(plain.path, name) == curve(run.path, name)


def test_the_windows_and_what_is_known_of_them_are_the_same_for_another_mechanism(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    prepare = Figures._prepare

    def keeping(self: Figures, data: Any) -> Any:
        batch, panels = prepare(self, data)
        kept.append((batch.origin, [line.get_ydata() for panel in panels._panels for line in panel.lines[:3]]))
        return batch, panels

    monkeypatch.setattr(Figures, "_prepare", keeping)
    other = changed(config, context_length=60, training__max_steps=1, seed=5)
    for each in (changed(config, training__max_steps=1), {**other, "attention": {"name": "mean"}}):
        train({**each, "output_dir": str(tmp_path)})
    (origins, lines), (others, other_lines) = kept
    assert torch.equal(origins, others)
    assert len(origins) == len(set(origins.tolist())) == 3
    assert len(lines) == len(other_lines)
    for line, other_line in zip(lines, other_lines, strict=True):
        np.testing.assert_allclose(np.asarray(line), np.asarray(other_line), rtol=1e-5)


def test_the_model_is_in_evaluation_mode_and_left_in_the_mode_it_was_found_in(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []
    draw = Figures.on_validation_end

    def watching(self: Figures, trainer: Any, module: ForecastTask) -> None:
        before = [each.training for each in module.modules()], torch.get_rng_state()
        draw(self, trainer, module)
        seen.append(any(before[0]))
        assert [each.training for each in module.modules()] == before[0]
        assert torch.equal(torch.get_rng_state(), before[1])

    monkeypatch.setattr(Figures, "on_validation_end", watching)
    train({**changed(config, training__max_steps=2), "output_dir": str(tmp_path)})
    assert seen
    assert not any(seen)


def test_another_logger_than_the_board_gets_no_pictures(config: dict[str, Any], tmp_path: Path) -> None:
    logger = {"_target_": "lightning.pytorch.loggers.CSVLogger", "name": "csv", "version": ""}
    run, _ = train({**changed(config, training__max_steps=1), "output_dir": str(tmp_path), "logger": logger})
    assert "test/mse" in (run.path / "csv" / "metrics.csv").read_text()
    assert not list(run.path.glob("events.out*"))
    assert load_file(run.path / "model.safetensors")


@pytest.mark.parametrize("windows", [0, -1, 1.5, True, "x"])
def test_a_number_of_windows_that_is_none_is_refused(windows: Any) -> None:
    with pytest.raises(InputError, match="windows="):
        Figures(windows)


@pytest.mark.parametrize("missing", ["ffill", "mask"])
def test_what_was_filled_is_no_line_before_the_forecast_or_after(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = range(511, 514)
    source = write(tmp_path / "hours.csv", hourly().drop(index=[*gap]))
    data = prepare(Settings.parse(quick(tmp_path, "data=csv", f"data.path={source}", f"data.missing={missing}"))).data
    panels: dict[str, Any] = {}
    monkeypatch.setattr("forecast.training.callbacks.figures.ForecastPanels", lambda **given: panels.update(given))
    batch, _ = Figures(30)._prepare(data)
    assert len(batch.origin) == 30
    assert (batch.past_observed is None) == (missing == "ffill")  # the model is told as in training
    drawn = 0
    for place, origin in enumerate(batch.origin.tolist()):
        past = {origin - HORIZON + step: value for step, value in enumerate(panels["past"][place])}
        ahead = {origin + step: value for step, value in enumerate(panels["truth"][place])}
        filled = {row for row, value in (past | ahead).items() if np.isnan(value)}
        assert filled == (past | ahead).keys() & {*gap}
        drawn += bool(past.keys() & {*gap})
    assert drawn
