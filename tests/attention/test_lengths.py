import pytest
import torch

from forecast.attention import build, mask_from_lengths
from tests.attention.cases import tensors


def test_one_length_per_batch_row_gives_a_key_mask() -> None:
    mask = mask_from_lengths(torch.tensor([2, 0, 3]), 3)
    assert mask.tolist() == [[True, True, False], [False] * 3, [True] * 3]


def test_one_length_per_query_gives_a_pair_mask() -> None:
    lengths = torch.tensor([[1, 2], [3, 0]])
    mask = mask_from_lengths(lengths, 3)
    assert mask.tolist() == [[[True, False, False], [True, True, False]], [[True] * 3, [False] * 3]]
    query, key, value = tensors(length=2, key_length=3)
    output = build("full", num_heads=2, head_dim=8, implementation="fused")(query, key, value, mask)
    torch.testing.assert_close(output[0, :, 0], value[0, :, 0])
    assert not output[1, :, 1].any()


@pytest.mark.parametrize("name", ["linear", "efficient", "taylor", "mean"])
def test_a_mechanism_without_pair_masks_accepts_only_a_key_mask(name: str) -> None:
    attention = build(name, num_heads=2, head_dim=8)
    query, key, value = tensors(length=4)
    cut = attention(query[1:], key[1:, :, :2], value[1:, :, :2])
    torch.testing.assert_close(attention(query, key, value, mask_from_lengths(torch.tensor([4, 2]), 4))[1:], cut)
    with pytest.raises(ValueError, match=rf"{name} takes a mask of shape \(2, 4\), not \(2, 4, 4\)"):
        attention(query, key, value, mask_from_lengths(torch.ones(2, 4, dtype=torch.int64), 4))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([1.0]), "integers, not torch.float32"),
        (torch.tensor([True]), "integers, not torch.bool"),
        (torch.tensor(3), r"shape \(B,\) or \(B, L\), not \(\)"),
        (torch.ones(1, 1, 1, dtype=torch.int64), r"not \(1, 1, 1\)"),
    ],
)
def test_invalid_lengths_are_refused(lengths: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mask_from_lengths(lengths, 3)
