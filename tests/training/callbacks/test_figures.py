from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import ImageChops
from safetensors.torch import load_file

from forecast.common.errors import InputError
from forecast.data.windows import SeriesRows, Windows
from forecast.runs.settings import Settings
from forecast.training.callbacks.figures import Figures, _chosen
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.boards import curve, events, images
from tests.support.kept import kept_run
from tests.support.pictures import drawing
from tests.support.prepared import prepare
from tests.support.small import HORIZON, changed, hourly, quick, write

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")

TAG = "1_forecasts/validation"


@pytest.fixture(scope="module", autouse=True)
def _forecasts_drawn() -> Iterator[None]:
    """Draw the forecasts at each validation, and no other picture."""
    with drawing("ForecastPanels"):
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run with dropout, a validation every four steps, and a model without a linear start."""
    own = ["model.dropout=0.2", "model.linear_path=zero", "attention=probsparse", "training.validations_per_epoch=6.5"]
    return quick(tmp_path_factory.mktemp("figures"), *own)


@pytest.fixture(scope="module")
def pictured(config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return kept_run("pictured", lambda folder: train({**config, "output_dir": str(folder / "outputs")}))


def same(one: Any, other: Any) -> bool:
    return ImageChops.difference(one, other).getbbox() is None


def test_each_validation_has_a_picture_that_changes_with_the_model(pictured: Any) -> None:
    run, _ = pictured
    pictures_by_step = images(run.path, TAG)
    assert list(pictures_by_step) == list(curve(run.path, "val/mse"))
    assert len(pictures_by_step) >= 3
    pictures = list(pictures_by_step.values())
    assert not same(pictures[0], pictures[-1])


@pytest.mark.exhaustive
def test_weights_and_scores_are_identical_without_pictures(pictured: Any, config: dict[str, Any]) -> None:
    run, result = pictured
    callbacks = {name: node for name, node in config["callbacks"].items() if name != "figures"}
    plain, without = train({**config, "callbacks": callbacks})
    assert TAG not in events(plain.path).Tags()["images"]
    for part in ("validation", "test", "model"):
        assert without[part] == result[part]
    assert (plain.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
    for name in ("train/loss", "train/gradient_norm", "val/mse"):
        assert curve(plain.path, name) == curve(run.path, name)


@pytest.mark.slow
def test_the_windows_are_the_same_for_another_mechanism(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    prepare = Figures._prepare

    def record(self: Figures, data: Any) -> Any:
        batch, panels = prepare(self, data)
        drawn.append((batch.origin, [line.get_ydata() for panel in panels._panels for line in panel.lines[:3]]))
        return batch, panels

    monkeypatch.setattr(Figures, "_prepare", record)
    other = changed(config, context_length=60, training__max_steps=1, seed=5)
    for variant in (changed(config, training__max_steps=1), {**other, "attention": {"name": "mean"}}):
        train({**variant, "output_dir": str(tmp_path)})
    (origins, lines), (others, other_lines) = drawn
    assert torch.equal(origins, others)
    assert len(origins) == len(set(origins.tolist())) == 3
    assert len(lines) == len(other_lines)
    for line, other_line in zip(lines, other_lines, strict=True):
        np.testing.assert_allclose(np.asarray(line), np.asarray(other_line), rtol=1e-5)


@pytest.mark.slow
def test_drawing_restores_modes_and_random_state(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    was_training = []
    draw = Figures.on_validation_end

    def check(self: Figures, trainer: Any, module: ForecastTask) -> None:
        before = [each.training for each in module.modules()], torch.get_rng_state()
        draw(self, trainer, module)
        was_training.append(any(before[0]))
        assert [each.training for each in module.modules()] == before[0]
        assert torch.equal(torch.get_rng_state(), before[1])

    monkeypatch.setattr(Figures, "on_validation_end", check)
    train({**changed(config, training__max_steps=2), "output_dir": str(tmp_path)})
    assert was_training
    assert not any(was_training)


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_other_loggers_get_no_pictures(config: dict[str, Any], tmp_path: Path) -> None:
    logger = {"_target_": "lightning.pytorch.loggers.CSVLogger", "name": "csv", "version": ""}
    run, _ = train({**changed(config, training__max_steps=1), "output_dir": str(tmp_path), "logger": logger})
    assert "test/mse" in (run.path / "csv" / "metrics.csv").read_text()
    assert not list(run.path.glob("events.out*"))
    assert load_file(run.path / "model.safetensors")


@pytest.mark.parametrize("windows", [0, -1, 1.5, True, "x"])
def test_an_invalid_number_of_windows_is_refused(windows: Any) -> None:
    with pytest.raises(InputError, match="windows="):
        Figures(windows)


@pytest.mark.parametrize("missing", ["ffill", "mask"])
def test_filled_values_are_not_drawn(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gap = range(511, 514)
    source = write(tmp_path / "hours.csv", hourly().drop(index=[*gap]))
    data = prepare(Settings.parse(quick(tmp_path, "data=csv", f"data.path={source}", f"data.missing={missing}"))).data
    panels: dict[str, Any] = {}
    monkeypatch.setattr("forecast.training.callbacks.figures.ForecastPanels", lambda **given: panels.update(given))
    batch, _ = Figures(30)._prepare(data)
    assert len(batch.origin) == 30
    assert (batch.past_observed is None) == (missing == "ffill")  # the model sees the mask as in training
    drawn = 0
    for place, origin in enumerate(batch.origin.tolist()):
        past = {origin - HORIZON + step: value for step, value in enumerate(panels["past"][place])}
        ahead = {origin + step: value for step, value in enumerate(panels["truth"][place])}
        filled = {row for row, value in (past | ahead).items() if np.isnan(value)}
        assert filled == (past | ahead).keys() & {*gap}
        drawn += bool(past.keys() & {*gap})
    assert drawn


def test_nine_series_of_a_panel_are_drawn_at_the_last_date() -> None:
    series, step = torch.arange(20).repeat(3), torch.arange(3).repeat_interleave(20)
    values = torch.zeros(60, 1)
    windows = Windows(values, values, torch.arange(60), 0, 0, 1, panel=SeriesRows(series, step, torch.arange(20)))
    chosen = _chosen(windows, 3)
    assert len(set(series[chosen].tolist())) == len(chosen) == 9
    assert set(step[chosen].tolist()) == {2}
    assert len(_chosen(replace(windows, panel=None), 3)) == 3
