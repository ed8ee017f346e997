"""Sampling of long sequences."""

import pytest
import torch

from forecast.attention.probsparse import ProbSparseAttention
from forecast.training.probe import capture as sample
from forecast.training.probe import measures as informative
from forecast.training.probe.capture import Captured, sample_of
from forecast.training.probe.layer import compare_with_softmax
from forecast.training.probe.measures import query_recall
from tests.attention.cases import FOLDER, Case, load, tensors
from tests.training.probe import by_hand


def call_of(
    name: str, *, causal: bool = False, batch: int = 2, length: int = 9, **arguments: object
) -> tuple[Case, Captured]:
    case = Case(load(FOLDER / f"{name}.yaml") | arguments, causal, name)
    query, key, value = (tensor.detach().float() for tensor in tensors(batch=batch, length=length))
    return case, Captured(query, key, value, case.build()(query, key, value))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("batch", "heads", "length"), [(1, 8, 16_384), (7, 8, 2_880), (100, 1, 22), (4, 2, 1)])
def test_a_sample_stays_within_its_budget(causal: bool, batch: int, heads: int, length: int) -> None:
    mechanism = Case(load(FOLDER / "mean.yaml"), causal, "mean").build(num_heads=heads)
    tensor = torch.zeros(()).expand(batch, heads, length, 8)
    sequences, queries = sample_of(mechanism, Captured(tensor, tensor, tensor, tensor))
    rows = int(queries[-1]) + 1 if causal else len(queries)
    keys = rows if causal else length
    assert len(sequences) * heads * rows * keys <= sample.BUDGET
    assert len(queries) >= min(length, sample.MIN_QUERIES)
    assert len(set(queries.tolist())) == len(queries)
    assert len(sequences) == len(set(sequences.tolist())) <= batch


@pytest.mark.parametrize(
    ("name", "causal"), [("linear", False), ("linear", True), ("efficient", True), ("probsparse", False)]
)
def test_the_findings_of_a_long_call_equal_the_reference_on_the_sampled_queries(name: str, causal: bool) -> None:
    case, call = call_of(name, causal=causal, length=150)
    mechanism = case.build()
    findings, (_, queries) = compare_with_softmax(mechanism, call), sample_of(mechanism, call)
    rows = by_hand.weights(mechanism, case.arguments, call.query, call.key)[:, :, queries]
    exact = by_hand.softmax(call.query, call.key, causal)[:, :, queries]
    value = call.value.double()
    assert findings.queries_seen == len(queries) == sample.MAX_QUERIES < findings.queries
    assert findings.distance == pytest.approx(by_hand.distances(rows @ value, exact @ value), rel=1e-3)
    counts = [int(i) + 1 if causal else 150 for i in queries]
    assert findings.entropy == pytest.approx(by_hand.entropies(rows, counts), rel=1e-3)


def test_beyond_the_budget_every_kth_query_of_the_first_sequence_is_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    case, call = call_of("probsparse", length=60, factor=2)
    mechanism = case.build()
    assert isinstance(mechanism, ProbSparseAttention)
    monkeypatch.setattr(informative, "CHUNK", 7 * 2 * 60)  # seven queries at a time
    shares, chance = query_recall(mechanism, call, budget=2 * 60 * 60 // 3)
    first = call.rows(slice(1))
    rows = by_hand.weights(mechanism, case.arguments, first.query, first.key)
    wanted = by_hand.recalls(first.query, first.key, rows, False, list(range(0, 60, 3)), round(10 / 3))
    assert shares.tolist() == pytest.approx(wanted)
    assert chance == 10 / 60
    assert query_recall(mechanism, call, budget=2**40)[0].shape == (2,)


def test_recall_is_one_if_all_queries_are_chosen() -> None:
    case, call = call_of("probsparse", length=20, factor=1)
    mechanism = case.build()
    assert isinstance(mechanism, ProbSparseAttention)
    few, _ = query_recall(mechanism, call)
    mechanism.factor = 7  # of ⌈ln 20⌉ = 3: all keys, all queries
    every, chance = query_recall(mechanism, call)
    assert every.tolist() == [1.0, 1.0]
    assert chance == 1
    assert few.min() < 1
