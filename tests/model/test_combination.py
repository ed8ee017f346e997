from pathlib import Path

import numpy as np
import pytest
import torch

from forecast.data.windows import Batch
from forecast.evaluation.evaluate import evaluate
from forecast.runs.checkpoint import newest_checkpoint
from forecast.runs.settings import Settings
from forecast.training.prepare import Preparation
from forecast.training.train import train
from tests.support.prepared import prepare
from tests.support.small import SIMULATED, hourly, quick, write

WEIGHTED = [*SIMULATED, "model.linear_path=weighted", "model.dropout=0"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Preparation:
    return prepare(Settings.parse(quick(tmp_path_factory.mktemp("made") / "outputs", *WEIGHTED)))


def some(made: Preparation) -> Batch:
    return made.data.parts["train"].batch(torch.arange(16))


def test_the_mixing_weight_interpolates_linear_path_and_encoder_decoder(made: Preparation) -> None:
    batch, network = some(made), made.network.eval()
    inputs = (batch.past, batch.past_known, batch.future_known, batch.past_observed)
    decoded, linear = network.forward_apart(*inputs)
    assert not torch.allclose(decoded, linear, atol=1e-2)
    torch.testing.assert_close(linear, network.forward_linear_path(*batch[:4]))
    for share, expected in ((0.0, linear), (1.0, decoded), (0.25, 0.25 * decoded + 0.75 * linear)):
        network.combination.mixing_weight.fill_(share)  # type: ignore[operator]
        torch.testing.assert_close(network(*inputs), expected)
    network.combination.mixing_weight.fill_(0)  # type: ignore[operator]


def test_the_two_forecasts_have_independent_gradients(made: Preparation) -> None:
    batch, task = some(made), made.task
    task.network.train()
    decoded, linear = task.network.forward_apart(*batch[:4])
    path = task.network.linear_path.weight  # type: ignore[union-attr]
    others = task.network.encoder.layers[0].feed_forward[0].weight  # type: ignore[index]
    apart = [
        torch.autograd.grad(task.loss(decoded, batch.future, None), others)[0],
        torch.autograd.grad(task.loss(linear, batch.future, None), path)[0],
    ]
    together = torch.autograd.grad(task.training_loss(batch), (others, path))
    torch.testing.assert_close(list(together), apart)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0, 0.1])
def test_the_path_keeps_the_closed_form_only_at_learning_rate_0(rate: float, tmp_path: Path) -> None:
    config = quick(tmp_path / "outputs", *WEIGHTED, f"training.linear_path_rate={rate}", "optimizer.lr=0.01")
    run, _ = train(config)
    last = newest_checkpoint(run.checkpoints)
    assert last is not None
    path, start = last["network"]["network.linear_path.weight"], prepare(Settings.parse(config)).linear_maps.start
    assert start is not None
    assert torch.equal(path, start.weight) == (rate == 0)


@pytest.mark.slow
@pytest.mark.parametrize("helps", [False, True])
def test_the_chosen_mean_is_never_worse_than_the_closed_form_on_validation(helps: bool, tmp_path: Path) -> None:
    table, look_back = hourly(), 12  # half a day tells the closed form little, the calendar's hour the other one much
    if not helps:  # four series with a day in them and hardly any noise: a linear map hardly misses
        hour, look_back = 2 * np.pi * np.arange(len(table)) / 24, 48
        noise = np.random.default_rng(0).normal(0, 0.01, (4, len(table)))
        table = table[["date"]].assign(**{f"series {turn}": np.sin(hour + turn) + noise[turn] for turn in range(4)})
    days = ["data=csv", f"data.path={write(tmp_path / 'days.csv', table)}", f"context_length={look_back}"]
    learnt = ["training.linear_path_rate=0", "training.max_steps=60", "optimizer.lr=0.01"]
    words = [*days, *WEIGHTED[len(SIMULATED) :], *learnt]
    run, result = train(quick(tmp_path / "outputs", *words))
    share = run.load_model().mixing_weight
    assert share == result["model"]["mixing_weight"]
    assert share is not None
    assert (share > 0) == helps
    model, path = (row["validation"]["scaled"]["mse"] for row in (result, result["linear_path"]))
    assert (share > 0) == (result["model"]["best_step"] > 0)
    assert model < path if share else model == path


def test_the_score_that_selects_a_step_is_that_of_the_stored_mean(tmp_path: Path) -> None:
    made = prepare(Settings.parse(quick(tmp_path / "outputs", *WEIGHTED)))
    task = made.task
    for batch in made.data.val_dataloader():
        with torch.no_grad():
            task.validation_step(batch, 0)
    sums = task.sums
    task.log = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    task.on_validation_epoch_end()
    assert sums is not None
    scores = evaluate(lambda batch: made.network.eval()(*batch[:4]), made.data.parts["validation"], 64).sums.scaled()
    assert sums.scaled() == pytest.approx({name: scores[name] for name in ("mse", "mae")}, rel=1e-5)
