import pytest
import torch

from forecast.kernels.dropout import Dropout, draw, factors, threshold


def keep_mask(count: int, p: float) -> torch.Tensor:
    return factors(draw(torch.Size([count])) >= threshold(p), p, torch.float32)


@pytest.mark.parametrize("p", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_dropout_keeps_the_requested_fraction_and_the_mean(p: float) -> None:
    torch.manual_seed(0)
    mask = keep_mask(400_000, p)
    assert float((mask > 0).float().mean()) == pytest.approx(1 - p, abs=0.004)
    assert float(mask.mean()) == pytest.approx(1, abs=0.02)
    scales = mask[mask > 0].unique()
    assert scales.tolist() == pytest.approx([1 / (1 - p)], rel=2**-12)


def test_the_four_elements_of_a_random_word_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (keep_mask(400_000, 0.5) == 0).view(-1, 4).long()
    patterns = torch.bincount((dropped * torch.tensor([1, 2, 4, 8])).sum(1), minlength=16)
    assert (patterns / len(dropped) - 1 / 16).abs().max() < 0.004


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 1001])
def test_a_mask_has_the_requested_number_of_elements(count: int) -> None:
    assert keep_mask(count, 0.3).shape == (count,)


def test_evaluation_keeps_values_and_draws_no_random_numbers() -> None:
    values = torch.randn(5, 7)
    state = torch.get_rng_state()
    assert torch.equal(Dropout(0.5).eval()(values), values)
    assert torch.equal(Dropout(0.0).train()(values), values)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_seed_repeats_the_mask_and_the_next_call_changes_it() -> None:
    layer, values = Dropout(0.5), torch.ones(1000)
    torch.manual_seed(3)
    first, second = layer(values), layer(values)
    torch.manual_seed(3)
    assert torch.equal(layer(values), first)
    assert not torch.equal(first, second)


def test_the_gradient_has_the_factors_of_the_forward_pass() -> None:
    torch.manual_seed(0)
    values = torch.ones(500, requires_grad=True)
    dropped = Dropout(0.3)(values)
    dropped.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, dropped.detach())
    assert 0 < int((dropped == 0).sum()) < 500


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_keeps_shape_and_dtype_of_a_view(dtype: torch.dtype) -> None:
    values = torch.ones(3, 5, 4, dtype=dtype).transpose(1, 2)
    dropped = Dropout(0.5)(values)
    assert dropped.shape == (3, 4, 5)
    assert dropped.dtype == dtype


def test_one_byte_per_element_is_stored_for_the_gradient() -> None:
    stored = []
    values = torch.ones(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: stored.append(tensor.nbytes), lambda _: None):
        Dropout(0.5)(values)
    assert sum(stored) == 1000
