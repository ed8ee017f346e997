import pytest
import torch
from torch import nn

from forecast.training.steps import Peer, inference, prepare_optimizer, training_step

INPUTS = torch.ones(4, 3)


def peer(dropout: float = 0.0, momentum: bool = True) -> Peer:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(dropout))
    made = torch.optim.AdamW(model.parameters(), lr=0.1) if momentum else torch.optim.SGD(model.parameters(), lr=0.1)
    return Peer("ours", model, made, lambda: model(INPUTS).square().mean(), lambda: model(INPUTS))


def test_a_training_step_is_forward_backward_and_update_and_leaves_no_gradient() -> None:
    trained, by_hand = peer(momentum=False), peer(momentum=False)
    training_step(trained, "fp32")()
    by_hand.loss().backward()
    with torch.no_grad():
        for parameter in by_hand.model.parameters():
            parameter -= 0.1 * parameter.grad
    for one, other in zip(trained.model.parameters(), by_hand.model.parameters(), strict=True):
        assert one.grad is None
        torch.testing.assert_close(one, other)


def test_training_and_inference_run_in_training_and_evaluation_mode() -> None:
    made = peer(dropout=0.5)
    step = training_step(made, "fp32")
    assert made.model.training
    step()
    forecast = inference(made, "fp32")
    assert not made.model.training
    output = forecast()
    assert isinstance(output, torch.Tensor)
    assert output.is_inference()


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_the_precision_applies_to_products_and_not_to_weights(precision: str, dtype: torch.dtype) -> None:
    made = peer()
    output = inference(made, precision)()
    assert isinstance(output, torch.Tensor)
    assert output.dtype == dtype
    training_step(made, precision)()
    assert {parameter.dtype for parameter in made.model.parameters()} == {torch.float32}


def test_held_bytes_include_the_optimizer_only_in_training() -> None:
    made = peer()
    assert made.num_parameters == 8
    assert made.held_bytes(training=True) == made.held_bytes(training=False) == 8 * 4
    training_step(made, "fp32")()
    assert made.held_bytes(training=False) == 8 * 4
    assert made.held_bytes(training=True) == 3 * 8 * 4 + 2 * 4  # two averages, and a count for each of two tensors


def test_the_optimizer_state_is_allocated_without_a_step() -> None:
    made = peer()
    before = [parameter.clone() for parameter in made.model.parameters()]
    prepare_optimizer(made)
    assert all(torch.equal(one, other) for one, other in zip(before, made.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in made.model.parameters())
    assert made.held_bytes(training=True) > made.held_bytes(training=False)
    assert made.optimizer.param_groups[0]["lr"] == 0.1
