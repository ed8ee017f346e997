import torch

from forecast.attention import build
from tests.attention.cases import gradients, prefix, tensors


def built(causal: bool = False) -> torch.nn.Module:
    return build("mean", num_heads=2, head_dim=8, causal=causal)


def test_the_mean_ignores_query_and_key() -> None:
    query, key, value = tensors(length=6)
    assert torch.equal(built()(query, key, value), built()(key * 9, query - 3, value))


def test_the_mean_is_over_the_allowed_values() -> None:
    value = torch.tensor([1.0, 2.0, 6.0, 100.0]).reshape(1, 1, 4, 1).repeat(2, 2, 1, 1)
    query = torch.zeros(2, 2, 4, 8)
    output = built()(query, query, value, prefix([3, 4], 4))[:, 0, :, 0]
    assert output.tolist() == [[3.0] * 4, [27.25] * 4]


def test_the_output_may_be_written_to_before_the_backward_pass() -> None:
    inputs = tensors(length=6)
    expected = gradients(built()(*inputs), *inputs)
    torch.testing.assert_close(gradients(built()(*inputs).add_(1), *inputs), expected)


def test_merging_the_heads_of_the_mean_copies_nothing() -> None:
    output = built()(*(x.detach() for x in tensors(length=6)))
    assert output.transpose(1, 2).flatten(2).data_ptr() == output.data_ptr()


def test_the_causal_mean_is_a_running_mean() -> None:
    value = torch.tensor([1.0, 2.0, 6.0, 100.0]).reshape(1, 1, 4, 1).repeat(2, 2, 1, 1)
    query = torch.zeros(2, 2, 4, 8)
    mask = torch.tensor([[True] * 4, [False, True, True, False]])
    output = built(causal=True)(query, query, value, mask)[:, 1, :, 0]
    assert output.tolist() == [[1.0, 1.5, 3.0, 27.25], [0.0, 2.0, 4.0, 4.0]]
