"""Cross-fitting: the windows that calibrate intervals have selected neither training step nor mixing weight."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers.logger import DummyLogger

from forecast.common.group import ALONE
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import NUM_BLOCKS, HeldOutBlock, blocks, held_out
from forecast.evaluation.mixing import MixingSums
from forecast.evaluation.scoring import network_forecaster
from forecast.evaluation.significance import FEWEST
from forecast.runs.settings import Settings
from forecast.training.callbacks.held_out import MIXING_WEIGHT, HeldOutSelection, Start
from forecast.training.fit import fit
from forecast.training.prepare import Preparation
from tests.support.prepared import prepare
from tests.support.small import hourly, quick


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Preparation:
    return prepare(Settings.parse(quick(tmp_path_factory.mktemp("held_out_blocks"))))


def selection(prepared: Preparation, start: Start | None = None) -> HeldOutSelection:
    parts = blocks(prepared.data.parts["validation"])
    assert parts is not None
    return HeldOutSelection(parts, start, [prepared.task.state_dict()] * len(parts))


def numbers(
    prepared: Preparation, own: tuple[float, float, float], others: tuple[float, float, float], place: int = 0
) -> torch.Tensor:
    """Return e², e d and d² of each window: `own` for those that do not select for the block, `others` elsewhere."""
    windows = prepared.data.parts["validation"]
    parts = blocks(windows)
    assert parts is not None
    rows = torch.tensor([own] * len(windows), dtype=torch.float64)
    for part in (parts[place].before, parts[place].after):
        rows[part.start : part.stop] = torch.tensor(others, dtype=torch.float64)
    return rows


def validate(callback: HeldOutSelection, prepared: Preparation, step: int, windows: torch.Tensor) -> None:
    prepared.task.sums = MixingSums.zeros(0.5)
    prepared.task.window_numbers = windows
    callback.on_validation_end(SimpleNamespace(global_step=step), prepared.task)  # type: ignore[arg-type]


def test_a_block_selects_step_and_mixing_weight_by_the_other_windows(prepared: Preparation) -> None:
    callback = selection(prepared)
    validate(callback, prepared, 10, numbers(prepared, (3.0, 0.0, 1.0), (1.0, -0.5, 0.5)))
    validate(callback, prepared, 20, numbers(prepared, (0.0, 0.0, 1.0), (2.0, 0.0, 1.0)))
    validate(callback, prepared, 30, numbers(prepared, (5.0, 0.0, 1.0), (0.5, -0.1, 1.0)))
    first = callback.best[0]
    assert first.step == 30
    assert float(first.weights[MIXING_WEIGHT]) == pytest.approx(0.5 * 0.1)  # the best weight is 0.1, shrunk by 0.5
    assert first.score == pytest.approx(0.5 - 2 * 0.05 * 0.1 + 0.05**2)


@pytest.mark.parametrize("place", range(NUM_BLOCKS))
def test_a_block_does_not_change_its_own_choice(prepared: Preparation, place: int) -> None:
    choices = []
    for poison in (1.0, 1e6):
        callback = selection(prepared)
        for step, others in ((10, (2.0, -0.1, 1.0)), (20, (1.0, -0.3, 1.0)), (30, (1.5, -0.3, 1.0))):
            own = (poison * step, -poison, poison)
            validate(callback, prepared, step, numbers(prepared, own, others, place))
        choices.append(callback.best[place])
    assert choices[0].step == choices[1].step == 20
    assert choices[0].score == choices[1].score
    assert torch.equal(choices[0].weights[MIXING_WEIGHT], choices[1].weights[MIXING_WEIGHT])


def test_a_gain_that_chance_explains_does_not_replace_the_start(prepared: Preparation) -> None:
    count = len(prepared.data.parts["validation"])
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=count))
    for confidence, changed in ((0.999, False), (None, True)):
        callback = selection(prepared, Start(2 + noise, 1, confidence))
        validate(callback, prepared, 10, numbers(prepared, (1.9, 0.0, 1.0), (1.9, 0.0, 1.0)))
        better = [choice.step == 10 for choice in callback.best]
        below = [float(part.selecting(2 + noise).mean()) > 1.9 for part in callback.blocks]
        assert better == [changed and lower for lower in below]
        assert any(below)


@pytest.mark.parametrize(("overlap", "judged"), [(7, True), (8, False)])
def test_a_choice_with_fewer_blocks_is_judged_where_all_windows_have_enough(
    prepared: Preparation, overlap: int, judged: bool
) -> None:
    count = len(prepared.data.parts["validation"])
    assert (count // overlap >= FEWEST) == judged
    start = Start(2 + 0.01 * torch.from_numpy(np.random.default_rng(0).normal(size=count)), overlap, 0.9)
    callback = selection(prepared, start)
    assert all(part.selecting(start.windows).numel() // overlap < FEWEST for part in callback.blocks)
    validate(callback, prepared, 10, numbers(prepared, (1.0, 0.0, 1.0), (1.0, 0.0, 1.0)))
    assert {choice.step for choice in callback.best} == {10 if judged else 0}


def test_the_state_survives_a_checkpoint_and_refuses_another_model(prepared: Preparation) -> None:
    callback = selection(prepared)
    validate(callback, prepared, 10, numbers(prepared, (1.0, -0.5, 0.5), (3.0, 0.0, 1.0)))
    copy = selection(prepared)
    copy.load_state_dict(callback.state_dict())
    assert [choice.score for choice in copy.best] == [choice.score for choice in callback.best]
    state = callback.state_dict()
    name = next(iter(state["best"][0]["weights"]))
    state["best"][0]["weights"] = {**state["best"][0]["weights"], name: torch.zeros(3)}
    with pytest.raises(ValueError, match="do not fit"):
        copy.load_state_dict(state)
    with pytest.raises(ValueError, match="has no weights"):
        copy.load_state_dict({**callback.state_dict(), "best": callback.state_dict()["best"][1:]})


def test_blocks_with_the_same_choice_share_one_copy_of_the_weights(prepared: Preparation) -> None:
    callback = selection(prepared)
    validate(callback, prepared, 10, numbers(prepared, (1.0, -0.5, 0.5), (3.0, 0.0, 1.0)))
    first, second = (choice.weights for choice in callback.best[:2])
    shared = [name for name in first if name != MIXING_WEIGHT]
    assert shared
    assert all(first[name].data_ptr() == second[name].data_ptr() for name in shared)


def test_blocks_with_the_same_step_and_mixing_weight_share_one_dictionary(prepared: Preparation) -> None:
    callback = selection(prepared)
    alike = (1.0, -0.5, 0.5)
    validate(callback, prepared, 10, numbers(prepared, alike, alike))
    assert {float(choice.weights[MIXING_WEIGHT]) for choice in callback.best} == {0.5}
    assert len({id(choice.weights) for choice in callback.best}) == 1


def test_a_block_is_forecast_by_the_weights_of_its_fold(prepared: Preparation) -> None:
    network, windows = prepared.network.eval(), prepared.data.parts["validation"]
    parts = blocks(windows)
    assert parts is not None
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    shifted = [
        {name: tensor + 0.1 * place if tensor.is_floating_point() else tensor for name, tensor in before.items()}
        for place in range(len(parts))
    ]
    held_out_blocks = [HeldOutBlock(part, weights) for part, weights in zip(parts, shifted, strict=True)]
    kept = held_out(network_forecaster(network), network, windows, held_out_blocks, 64, ALONE)
    assert kept is not None
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert kept.residuals.positions.tolist() == list(range(len(windows)))
    for part, weights in zip(parts, shifted, strict=True):
        network.load_state_dict(weights)
        whole = evaluate(network_forecaster(network), windows, 64, keep_residuals=True).residuals
        assert whole is not None
        own = kept.residuals.within(part.held_out).values
        expected = torch.from_numpy(whole)[part.held_out.start : part.held_out.stop]
        torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-4)
    network.load_state_dict(before)


@pytest.mark.slow
def test_targets_of_the_last_block_do_not_change_the_weights_of_its_fold(tmp_path: Path) -> None:
    found = []
    for poison in (0.0, 500.0):
        table = hourly(1000)[["date", "load"]]
        path = tmp_path / f"{poison:.0f}" / "table.csv"
        path.parent.mkdir()
        words = ["data=csv", f"data.path={path}", "model.linear_path=zero"]
        table.to_csv(path, index=False)
        plain = prepare(Settings.parse(quick(tmp_path, *words)))
        windows = plain.data.parts["validation"]
        parts = blocks(windows)
        assert parts is not None
        first = int(windows.starts[parts[-1].held_out.start]) + windows.context_length
        stop = plain.data.split.validation.stop
        table.loc[first : stop - 1, "load"] += poison * np.arange(stop - first)
        table.to_csv(path, index=False)
        again = prepare(Settings.parse(quick(tmp_path, *words, "training.validations_per_epoch=8")))
        fitted = fit(again, path.parent / "checkpoints", [DummyLogger()])
        assert fitted.held_out_blocks is not None
        found.append(fitted.held_out_blocks)
    clean, poisoned = found
    assert all(torch.equal(tensor, poisoned[-1].weights[name]) for name, tensor in clean[-1].weights.items())
    assert not all(torch.equal(tensor, poisoned[0].weights[name]) for name, tensor in clean[0].weights.items())
