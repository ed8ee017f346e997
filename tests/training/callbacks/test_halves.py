"""Selection by validation halves: the windows that calibrate intervals have selected neither step nor mixing weight."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers.logger import DummyLogger

from forecast.common.group import ALONE
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import Folds, held_out
from forecast.evaluation.holdout import halves as halves_of
from forecast.evaluation.mixing import MixingSums
from forecast.evaluation.scoring import network_forecaster
from forecast.runs.settings import Settings
from forecast.training.callbacks.halves import SHARE, HalfSelection, Start
from forecast.training.fit import fit
from forecast.training.prepare import Preparation, prepare
from tests.support.small import hourly, quick


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Preparation:
    return prepare(Settings.parse(quick(tmp_path_factory.mktemp("halves"))))


def selection(prepared: Preparation, start: Start | None = None) -> HalfSelection:
    halves = halves_of(prepared.data.parts["validation"])
    assert halves is not None
    return HalfSelection(halves, start, prepared.task.state_dict())


def numbers(prepared: Preparation, early: tuple[float, float, float], late: tuple[float, float, float]) -> torch.Tensor:
    """Return e², e d and d² of each window: one triple before the middle, the other after it."""
    count = len(prepared.data.parts["validation"])
    rows = [early] * (count // 2) + [late] * (count - count // 2)
    return torch.tensor(rows, dtype=torch.float64)


def validate(callback: HalfSelection, prepared: Preparation, step: int, windows: torch.Tensor) -> None:
    prepared.task.sums = MixingSums.zeros(0.5)
    prepared.task.window_numbers = windows
    callback.on_validation_end(SimpleNamespace(global_step=step), prepared.task)  # type: ignore[arg-type]


def test_each_half_selects_step_and_mixing_weight_by_its_own_windows(prepared: Preparation) -> None:
    callback = selection(prepared)
    validate(callback, prepared, 10, numbers(prepared, (1.0, -0.5, 0.5), (3.0, 0.0, 1.0)))
    validate(callback, prepared, 20, numbers(prepared, (2.0, 0.0, 1.0), (1.0, -0.2, 1.0)))
    early, late = callback.best["early"], callback.best["late"]
    assert (early.step, late.step) == (10, 20)
    assert float(early.weights[SHARE]) == pytest.approx(0.5 * 1.0)  # the best weight is 1, shrunk by 0.5
    assert float(late.weights[SHARE]) == pytest.approx(0.5 * 0.2)
    assert early.score == pytest.approx(1.0 - 0.5 + 0.5 * 0.25)


@pytest.mark.parametrize("half", ["early", "late"])
def test_the_other_half_does_not_change_a_choice(prepared: Preparation, half: str) -> None:
    choices = []
    for poison in (1.0, 1e6):
        callback = selection(prepared)
        for step, own in ((10, (2.0, -0.1, 1.0)), (20, (1.0, -0.3, 1.0)), (30, (1.5, -0.3, 1.0))):
            other = (poison * step, -poison, poison)
            pair = (own, other) if half == "early" else (other, own)
            validate(callback, prepared, step, numbers(prepared, *pair))
        choices.append(callback.best[half])
    assert choices[0].step == choices[1].step == 20
    assert choices[0].score == choices[1].score
    assert torch.equal(choices[0].weights[SHARE], choices[1].weights[SHARE])


def test_a_gain_that_chance_explains_does_not_replace_the_start(prepared: Preparation) -> None:
    count = len(prepared.data.parts["validation"])
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=count))
    for confidence, step in ((0.9, 0), (None, 10)):
        callback = selection(prepared, Start(2 + noise, 4, confidence))
        validate(callback, prepared, 10, numbers(prepared, (1.99, 0.0, 1.0), (1.99, 0.0, 1.0)) - 0.01)
        half = callback.best["early"]
        assert half.step == (step if half.score < float((2 + noise)[: len(callback.halves.early)].mean()) else 0)


def test_the_state_survives_a_checkpoint_and_refuses_another_model(prepared: Preparation) -> None:
    callback = selection(prepared)
    validate(callback, prepared, 10, numbers(prepared, (1.0, -0.5, 0.5), (3.0, 0.0, 1.0)))
    copy = selection(prepared)
    copy.load_state_dict(callback.state_dict())
    assert copy.best["late"].score == callback.best["late"].score
    state = callback.state_dict()
    name = next(iter(state["best"]["early"]["weights"]))
    state["best"]["early"]["weights"] = {**state["best"]["early"]["weights"], name: torch.zeros(3)}
    with pytest.raises(ValueError, match="do not fit"):
        copy.load_state_dict(state)


def test_a_half_is_forecast_by_the_weights_that_the_other_half_selected(prepared: Preparation) -> None:
    network, windows = prepared.network.eval(), prepared.data.parts["validation"]
    halves = halves_of(windows)
    assert halves is not None
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    other = {name: tensor + 0.1 if tensor.is_floating_point() else tensor for name, tensor in before.items()}
    kept = held_out(network_forecaster(network), network, windows, Folds(halves, before, other), 64, ALONE)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    late = evaluate(network_forecaster(network), halves.select(windows)[1], 64, keep_residuals=True).residuals
    assert kept.late is not None
    assert np.array_equal(kept.late.values.numpy(), late)
    network.load_state_dict(other)
    early = evaluate(network_forecaster(network), halves.select(windows)[0], 64, keep_residuals=True).residuals
    network.load_state_dict(before)
    assert np.array_equal(kept.early.values.numpy(), early)


def test_targets_of_the_late_half_do_not_change_what_the_early_half_selects(tmp_path: Path) -> None:
    found = []
    for poison in (0.0, 500.0):
        table = hourly(700)[["date", "load"]]
        path = tmp_path / f"{poison:.0f}" / "table.csv"
        path.parent.mkdir()
        words = ["data=csv", f"data.path={path}", "model.linear_path=zero"]
        table.to_csv(path, index=False)
        plain = prepare(Settings.parse(quick(tmp_path, *words)))
        halves = halves_of(plain.data.parts["validation"])
        assert halves is not None
        windows = halves.select(plain.data.parts["validation"])[1]
        first = int(windows.starts[0]) + windows.context_length
        stop = plain.data.split.validation.stop
        table.loc[first : stop - 1, "load"] += poison * np.arange(stop - first)
        table.to_csv(path, index=False)
        again = prepare(Settings.parse(quick(tmp_path, *words, "training.validations_per_epoch=8")))
        fitted = fit(again, path.parent / "checkpoints", DummyLogger())
        assert fitted.folds is not None
        found.append(fitted)
    clean, poisoned = found
    assert clean.folds is not None
    assert poisoned.folds is not None
    assert all(torch.equal(tensor, poisoned.folds.early[name]) for name, tensor in clean.folds.early.items())
