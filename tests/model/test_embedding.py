import math

import pytest
import torch

from forecast.model.tokens import StepEmbedding, positions


@pytest.mark.parametrize("d_model", [1, 2, 7, 16])
def test_positions_are_the_papers_formula(d_model: int) -> None:
    table = positions(11, d_model, torch.empty(0))
    assert table.shape == (11, d_model)
    for position in range(11):
        for place in range(d_model):
            angle = position / 10_000 ** ((place - place % 2) / d_model)
            expected = math.cos(angle) if place % 2 else math.sin(angle)
            assert float(table[position, place]) == pytest.approx(expected, abs=1e-5)


def test_positions_have_no_length_limit_and_stay_distinct() -> None:
    table = positions(20_000, 8, torch.empty(0))
    exact = [math.sin(19_999), math.cos(19_999)]
    assert table[-1, :2].tolist() == pytest.approx(exact, abs=1e-3)
    assert len(table[5_000:].unique(dim=0)) == 15_000


def test_positions_of_a_short_sequence_are_a_prefix_of_a_long_one() -> None:
    assert torch.equal(positions(5, 8, torch.empty(0)), positions(6_000, 8, torch.empty(0))[:5])


def test_positions_in_half_precision_are_rounded_once() -> None:
    half = positions(3_000, 8, torch.empty(0, dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, positions(3_000, 8, torch.empty(0)).bfloat16())


@pytest.mark.parametrize("changed", [0, 4, 9])
def test_a_step_token_depends_on_its_step_and_the_two_before(changed: int) -> None:
    torch.manual_seed(0)
    embedding = StepEmbedding(2, 3, 8, dropout=0.0)
    values, known = torch.randn(1, 10, 2), torch.randn(1, 10, 3)
    other = values.clone()
    other[:, changed] += 1
    moved = (embedding(values, known) != embedding(other, known)).any(2)[0]
    assert moved.nonzero().flatten().tolist() == [step for step in range(10) if changed <= step <= changed + 2]


def test_a_step_token_depends_on_known_inputs_of_its_step_only() -> None:
    torch.manual_seed(0)
    embedding = StepEmbedding(2, 3, 8, dropout=0.0)
    values, known = torch.randn(1, 10, 2), torch.randn(1, 10, 3)
    other = known.clone()
    other[:, 4] += 1
    moved = (embedding(values, known) != embedding(values, other)).any(2)[0]
    assert moved.nonzero().flatten().tolist() == [4]


@pytest.mark.parametrize("num_known", [0, 3])
def test_a_step_token_sums_convolution_known_inputs_and_position(num_known: int) -> None:
    torch.manual_seed(0)
    embedding = StepEmbedding(2, num_known, 8, dropout=0.0).double()
    values, known = torch.randn(3, 10, 2).double(), torch.randn(3, 10, num_known).double()
    padded = torch.cat([values[:, :1]] * 2 + [values], 1).transpose(1, 2)
    expected = embedding.values(padded).transpose(1, 2) + positions(10, 8, values)
    if embedding.known is not None:
        expected = expected + embedding.known(known)
    torch.testing.assert_close(embedding(values, known), expected)
