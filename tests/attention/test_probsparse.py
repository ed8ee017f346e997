import math
from typing import Any

import pytest
import torch

from forecast.attention import _sampling, build, probsparse
from forecast.attention.probsparse import ProbSparseAttention
from tests.attention.cases import gradients, prefix, tensors
from tests.attention.reference import log_count, sample
from tests.attention.watching import largest_tensor

USUAL = {"factor": 5, "sampling": "shared", "measure": "sampled_mean"}
SAMPLINGS = ["shared", "per_query"]


def built(num_heads: int = 2, head_dim: int = 8, causal: bool = False, **arguments: Any) -> ProbSparseAttention:
    mechanism = build("probsparse", num_heads=num_heads, head_dim=head_dim, causal=causal, **{**USUAL, **arguments})
    assert isinstance(mechanism, ProbSparseAttention)
    return mechanism.eval()


def softmax_attention(causal: bool) -> torch.nn.Module:
    return build("full", num_heads=2, head_dim=8, causal=causal, implementation="explicit")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("training", [False, True])
def test_with_all_queries_active_it_equals_full_attention(causal: bool, sampling: str, training: bool) -> None:
    inputs = tensors(length=41, value_width=5)
    holes = torch.rand(2, 41, generator=torch.Generator().manual_seed(0)) < 0.7
    for mask in (None, prefix([41, 17], 41), holes):
        output = built(factor=100, causal=causal, sampling=sampling).train(training)(*inputs, mask)
        expected = softmax_attention(causal)(*inputs, mask)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs))


def test_with_all_queries_active_the_output_is_causal() -> None:
    query, key, value = tensors(length=30)
    attention = built(factor=100, causal=True)
    before = attention(query, key, value)
    after = attention(*(torch.cat([x[:, :, :12], -9 * x[:, :, 12:]], dim=2) for x in (query, key, value)))
    torch.testing.assert_close(after[:, :, :12], before[:, :, :12])


def test_with_fixed_active_queries_the_output_is_causal(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors(length=60)
    attention = built(factor=2, causal=True)
    chosen = attention.choose_active_queries(query, key)
    monkeypatch.setattr(attention, "choose_active_queries", lambda *_: chosen)
    before = attention(query, key, value)
    after = attention(*(torch.cat([x[:, :, :30], -9 * x[:, :, 30:]], dim=2) for x in (query, key, value)))
    torch.testing.assert_close(after[:, :, :30], before[:, :, :30])
    assert (chosen < 30).any()


def test_later_queries_change_the_choice_as_declared() -> None:
    query, key, _ = tensors(length=60)
    attention = built(factor=2, causal=True)
    later = torch.cat([query[:, :, :30], 100 * query[:, :, 30:]], dim=2)
    before, after = attention.choose_active_queries(query, key), attention.choose_active_queries(later, key)
    assert (before < 30).sum() > (after < 30).sum()
    assert attention.causal_ability == "values only"


@pytest.mark.parametrize(
    ("measure", "expected", "chosen"),
    [
        # scores of the queries with their sampled keys: (2, 2), (0, -3), (4, 0), (1, 1)
        ("sampled_mean", [0.0, 1.5, 2.0, 0.0], [2, 1]),
        # the same sums, divided by 4 keys: 2 - 1, 0 + 3/4, 4 - 1, 1 - 1/2
        ("published", [1.0, 0.75, 3.0, 0.5], [2, 0]),
    ],
)
def test_the_output_matches_an_example_computed_by_hand(
    monkeypatch: pytest.MonkeyPatch, measure: str, expected: list[float], chosen: list[int]
) -> None:
    # Vectors of width 4, so that scores of the softmax are halved; the queries look at the first number alone.
    query = torch.zeros(1, 1, 4, 4)
    query[..., 0] = torch.tensor([2.0, -3.0, 4.0, 1.0])
    key = torch.full((1, 1, 4, 4), 9.0)
    key[..., 0] = torch.tensor([0.0, 1.0, 2.0, -1.0])
    value = torch.tensor([1.0, 2.0, 3.0, 6.0]).reshape(1, 1, 4, 1)
    # Two keys for each query, drawn with replacement: u = U = ⌈ln 4⌉ = 2.
    positions = torch.tensor([[1, 1], [0, 1], [1, 0], [1, 1]])[None]
    attention = built(1, 4, factor=1, sampling="per_query", measure=measure)
    monkeypatch.setattr(attention, "sample", lambda *_: (positions, None))

    assert attention.measure_queries(query, key, None, positions, None).flatten().tolist() == expected
    assert attention.choose_active_queries(query, key).flatten().tolist() == chosen
    output = attention(query, key, value).flatten().tolist()
    for i, q in enumerate([2.0, -3.0, 4.0, 1.0]):
        weights = [math.exp(q * k / 2) if i in chosen else 1.0 for k in (0.0, 1.0, 2.0, -1.0)]
        by_hand = sum(w * v for w, v in zip(weights, (1, 2, 3, 6), strict=True)) / sum(weights)
        assert output[i] == pytest.approx(by_hand, rel=1e-6)


def test_the_causal_measure_uses_sampled_keys_up_to_the_query() -> None:
    query = torch.ones(1, 1, 5, 1)
    key = torch.tensor([9.0, 1.0, 3.0, 9.0, 5.0]).reshape(1, 1, 5, 1)
    attention = built(1, 1, causal=True)
    measure = attention.measure_queries(query, key, None, torch.tensor([[[1, 2, 4]]]), None).flatten()
    assert measure[0] == torch.finfo(torch.float32).min
    assert measure[1:].tolist() == [0.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_causal_queries_without_a_sampled_key_rank_before_padding_only(sampling: str) -> None:
    query, key, _ = tensors(length=21)
    attention = built(factor=6, causal=True, sampling=sampling)  # all are chosen: the order counts
    mask = torch.ones(2, 21, dtype=torch.bool)
    mask[:, :10] = False
    query_mask = prefix([20, 20], 21)
    chosen = attention.choose_active_queries(query, key, mask, query_mask)
    assert set(chosen[0, 0, :10].tolist()) == set(range(10, 20))
    assert chosen[..., :20].max() < 20


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_counts_follow_the_logarithms(sampling: str) -> None:
    for length, key_length in [(1, 1), (2, 3), (20, 96), (21, 404), (1097, 24)]:
        query, key, _ = tensors(length=length, key_length=key_length, dtype=torch.float32)
        attention = built(factor=2, sampling=sampling)
        positions, drawn = attention.sample(length, key_length, key.device, None)
        assert positions.shape == (1, 1 if sampling == "shared" else length, log_count(2, key_length))
        assert drawn is None
        assert attention.choose_active_queries(query, key).shape == (2, 2, log_count(2, length))


def test_counts_of_tensors_equal_counts_of_integers() -> None:
    lengths = [1, 2, 3, 20, 21, 148, 149, 403, 404, 1096, 1097, 8103, 8104, 59874, 59875, 442414, 3269018]
    counts = _sampling.log_counts(5, torch.tensor([0, *lengths])).tolist()
    assert counts == [0, *(log_count(5, length) for length in lengths)]
    assert counts[1:] == [_sampling.log_count(5, length) for length in lengths]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("training", [False, True])
def test_only_allowed_keys_are_sampled_and_each_row_has_its_count(sampling: str, training: bool) -> None:
    attention = built(factor=2, sampling=sampling).train(training)
    mask = torch.zeros(4, 200, dtype=torch.bool)
    mask[0], mask[1, ::3], mask[2, 150:153] = True, True, True
    positions, drawn = attention.sample(50, 200, mask.device, mask)
    assert drawn is not None
    assert drawn.sum(dim=-1).flatten().tolist() == [log_count(2, 200), log_count(2, 67), 3, 0]
    for row in range(3):
        columns = positions[row][:, drawn[row, 0]]
        assert mask[row][columns].all()
    assert positions[2, :, :3].tolist() == [[150, 151, 152]] * positions.shape[1]


def test_the_sample_in_evaluation_is_the_documented_sequence() -> None:
    positions, _ = built(factor=3, sampling="per_query").sample(30, 500, torch.device("cpu"), None)
    assert positions[0].tolist() == [sample(i, 500, 3) for i in range(30)]
    assert len(set(positions[0, 0].tolist())) == positions.shape[2]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_training_draws_uniform_samples_at_each_call(sampling: str) -> None:
    attention = built(factor=20, sampling=sampling).train()
    torch.manual_seed(0)
    draws = [attention.sample(10, 1000, torch.device("cpu"), None)[0] for _ in range(100)]
    assert not torch.equal(draws[0], draws[1])
    drawn = torch.cat([draw.flatten() for draw in draws]).float()
    assert drawn.min() >= 0
    assert drawn.max() <= 999
    shares = torch.histc(drawn, 10, 0, 1000) / len(drawn)
    torch.testing.assert_close(shares, torch.full((10,), 0.1), rtol=0.1, atol=0)
    if sampling == "per_query":
        assert not torch.equal(draws[0][0, 0], draws[0][0, 1])


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("causal", [False, True])
def test_scoring_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch, sampling: str, causal: bool) -> None:
    query, key, _ = tensors(length=45)
    mask = prefix([45, 30], 45)
    attention = built(factor=1, sampling=sampling, causal=causal)
    for chosen in (None, mask):
        positions, drawn = attention.sample(45, 45, key.device, chosen)
        monkeypatch.setattr(probsparse, "CHUNK_ELEMENTS_CPU", 2**22)
        whole = attention.measure_queries(query, key, chosen, positions, drawn)
        monkeypatch.setattr(probsparse, "CHUNK_ELEMENTS_CPU", 7 * 16 * (1 if sampling == "shared" else 8))
        pieces = attention.measure_queries(query, key, chosen, positions, drawn)
        torch.testing.assert_close(pieces, whole)


def test_stable_topk_equals_topk_and_the_first_of_a_tie_wins() -> None:
    measure = torch.randn(3, 2, 500, generator=torch.Generator().manual_seed(0))
    measure[0, 0, 3], measure[0, 0, 4] = torch.inf, -torch.inf
    assert torch.equal(_sampling.stable_topk(measure, 40), measure.topk(40).indices)
    ties = torch.tensor([[[0.0, -1.0, -0.0, 2.0, -1.0, 0.0]]])
    assert _sampling.stable_topk(ties, 6).tolist() == [[[3, 0, 2, 5, 1, 4]]]


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_is_as_large_as_all_pairs(causal: bool) -> None:
    length = 2048
    inputs = [torch.randn(1, 1, length, 4) for _ in range(3)]
    largest = largest_tensor(lambda: built(1, 4, causal=causal)(*inputs))
    assert 0 < largest <= length * 5 * math.ceil(math.log(length))


@pytest.mark.parametrize("causal", [False, True])
def test_samples_per_query_are_gathered_in_chunks(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    length, width = 2048, 4
    samples = length * log_count(5, length)
    monkeypatch.setattr(probsparse, "CHUNK_ELEMENTS_CPU", samples)
    inputs = [torch.randn(1, 1, length, width) for _ in range(3)]
    attention = built(1, width, causal=causal, sampling="per_query")
    assert 0 < largest_tensor(lambda: attention(*inputs)) <= samples < samples * width


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_measure_has_no_gradient(sampling: str) -> None:
    query, key, _ = tensors(length=50)
    attention = built(factor=1, sampling=sampling)
    positions, drawn = attention.sample(50, 50, key.device, None)
    assert query.requires_grad
    assert not attention.measure_queries(query, key, None, positions, drawn).requires_grad


def test_a_causal_query_without_a_key_reads_no_later_value() -> None:
    """A single active query whose only visible key is padding: the mask of its row has one query too."""
    attention = built(head_dim=4, factor=1, sampling="shared", causal=True)
    query, key, value = (torch.randn(1, 2, 2, 4) for _ in range(3))
    output = attention(query, key, value, torch.tensor([[False, True]]), torch.tensor([[True, False]]))
    assert torch.equal(output[:, :, 0], torch.zeros(1, 2, 4))
