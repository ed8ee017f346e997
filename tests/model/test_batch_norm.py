"""Batch norm in one process equals torch's; tests/training/parallel/test_ranks.py trains with several."""

import pytest
import torch
from torch import nn

from forecast.model.batch_norm import BatchNorm


@pytest.mark.parametrize("training", [True, False])
def test_in_one_process_batch_norm_equals_torch_exactly(training: bool) -> None:
    torch.manual_seed(0)
    features = torch.randn(5, 4, 9)
    ours, torchs = BatchNorm(4).train(training), nn.BatchNorm1d(4).train(training)
    for _ in range(3):
        assert torch.equal(ours(features), torchs(features))
    assert list(ours.state_dict()) == list(torchs.state_dict())
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, torchs.state_dict()[name])


def test_over_two_processes_batch_norm_equals_torch_on_the_joint_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes with the same half each equal one process with that half twice."""
    torch.manual_seed(0)
    half = torch.randn(5, 4, 9)
    ours, torchs = BatchNorm(4), nn.BatchNorm1d(4)
    monkeypatch.setattr("forecast.model.batch_norm._is_distributed", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: tensor.mul_(2))
    mine, whole = half.clone().requires_grad_(), torch.cat([half, half]).requires_grad_()
    actual, expected = ours(mine), torchs(whole)
    torch.testing.assert_close(actual, expected[:5])
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, torchs.state_dict()[name])
    weights = torch.randn(5, 4, 9)
    (actual * weights).sum().backward()
    (expected * torch.cat([weights, weights])).sum().backward()
    torch.testing.assert_close(mine.grad, whole.grad[:5])
    torch.testing.assert_close(2 * ours.weight.grad, torchs.weight.grad)


@pytest.mark.parametrize("processes", [1, 2])
def test_hidden_tokens_do_not_count_in_the_statistics(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process has the same tokens; torch's batch norm gets the visible ones of all processes."""
    torch.manual_seed(0)
    tokens, mask = torch.randn(5, 9, 4), torch.rand(5, 9) > 0.4
    ours, torchs = BatchNorm(4), nn.BatchNorm1d(4)
    monkeypatch.setattr("forecast.model.batch_norm._is_distributed", lambda: processes > 1)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: processes)
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: tensor.mul_(processes))
    expected = torchs(torch.cat([tokens[mask]] * processes))[: int(mask.sum())]
    normed = ours(tokens.transpose(1, 2), mask).transpose(1, 2)  # (B, L, D)
    torch.testing.assert_close(normed[mask], expected)
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, torchs.state_dict()[name])
    assert torch.equal(ours.eval()(tokens.transpose(1, 2), mask), ours(tokens.transpose(1, 2)))
