"""The findings of a probe against a slow float64 reference."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from forecast.attention import available
from forecast.attention.base import Attention, Cost, SparseQueries
from forecast.attention.full import softmax_weights
from forecast.attention.mean import mean_weights
from forecast.model.presets import Sizes
from forecast.training.probe.capture import Captured
from forecast.training.probe.layer import Findings, compare_with_softmax, probe
from forecast.training.probe.maps import attention_map
from tests.attention.cases import CASES, FOLDER, Case, load, tensors
from tests.support.examples import make_model, make_windows
from tests.training.probe import by_hand

SIZES = Sizes(num_targets=1, num_past_covariates=0, num_known=2, context_length=96, horizon=8)
CLOSE = {"rel": 2e-4, "abs": 2e-5}


def check(findings: Findings, mechanism: Attention, arguments: dict[str, Any], call: tuple[Tensor, ...]) -> None:
    """Compare the findings with the reference for all queries of a call."""
    query, key, value = (tensor.detach().double() for tensor in call)
    causal, length, num_keys = mechanism.causal, query.shape[2], key.shape[2]
    rows, exact = by_hand.weights(mechanism, arguments, query, key), by_hand.softmax(query, key, causal)
    assert findings.mechanism == mechanism.name
    assert (findings.queries, findings.keys, findings.queries_seen) == (length, num_keys, length)
    assert findings.distance == pytest.approx(by_hand.distances(rows @ value, exact @ value), **CLOSE)
    means = by_hand.mean_output(value, query, causal)
    assert findings.distance_of_mean == pytest.approx(by_hand.distances(means, exact @ value), **CLOSE)
    counts = [i + 1 if causal else num_keys for i in range(length)]
    assert findings.entropy == pytest.approx(by_hand.entropies(rows, counts), **CLOSE)
    assert findings.entropy_of_softmax == pytest.approx(by_hand.entropies(exact, counts), **CLOSE)
    if mechanism.name != "probsparse":
        assert findings.found is findings.found_by_chance is None
        return
    chosen = min(max(arguments["factor"] * math.ceil(math.log(length)), 1), length)
    assert findings.found_by_chance == chosen / length
    shares = by_hand.recalls(query, key, rows, causal, list(range(length)), chosen)
    assert findings.found == pytest.approx(shares)


@pytest.mark.parametrize("name", available())
def test_the_findings_equal_a_direct_computation_on_one_window(name: str) -> None:
    arguments = load(FOLDER / f"{name}.yaml") | ({"factor": 1} if name == "probsparse" else {})
    network = make_model("patch_informer", SIZES, arguments)
    windows = make_windows(120, context_length=96, horizon=8, num_targets=1, num_covariates=0)
    batch = windows.batch(torch.tensor([5]))
    findings = probe(network, batch)["encoder.0.self"]
    exact = copy.deepcopy(network).double()
    past, _ = exact.normalization.normalize(batch.past.double(), None)
    layer: Any = exact.encoder.layers[0]
    tokens = layer.attend.norm(exact.tokens.source(past, batch.past_known.double()))[0]  # (24, 16), norm first
    heads = layer.attention
    projections = (heads.query_projection, heads.key_projection, heads.value_projection)
    call = [
        torch.stack([tokens @ layer.weight[8 * h : 8 * h + 8].T + layer.bias[8 * h : 8 * h + 8] for h in (0, 1)])[None]
        for layer in projections
    ]
    check(findings, heads.attention, arguments, tuple(call))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_findings_of_every_case_equal_the_reference(case: Case) -> None:
    mechanism = case.build()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=11))
    check(
        compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value))),
        mechanism,
        case.arguments,
        (query, key, value),
    )


@pytest.mark.parametrize("name", ["full", "probsparse", "linear", "mean"])
def test_queries_and_keys_may_differ_in_number(name: str) -> None:
    case = Case(load(FOLDER / f"{name}.yaml") | ({"factor": 1} if name == "probsparse" else {}), False, name)
    mechanism = case.build()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=7, key_length=12))
    check(
        compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value))),
        mechanism,
        case.arguments,
        (query, key, value),
    )


def test_the_distance_of_softmax_is_zero_and_of_the_mean_is_distance_of_mean() -> None:
    query, key, value = (tensor.detach().float() for tensor in tensors(length=30))
    for name in ("full", "mean"):
        mechanism = Case(load(FOLDER / f"{name}.yaml"), False, name).build()
        findings = compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value)))
        wanted = [0.0, 0.0] if name == "full" else findings.distance_of_mean
        assert findings.distance == pytest.approx(wanted, abs=1e-6)
        assert findings.entropy == pytest.approx(
            findings.entropy_of_softmax if name == "full" else [1.0, 1.0], abs=1e-6
        )


def test_entropy_is_none_for_one_key() -> None:
    mechanism = Case(load(FOLDER / "linear.yaml"), False, "linear").build()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=5, key_length=1))
    findings = compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value)))
    assert findings.entropy is findings.entropy_of_softmax is None
    assert findings.distance == pytest.approx([0.0, 0.0], abs=1e-6)


class Contrary(Attention):
    """Mechanism whose weights depend on the last query only."""

    time_cost = memory_cost = Cost(length=2)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        rows = (query[:, :, -1:] @ key.transpose(-1, -2)).softmax(-1)
        return rows.expand(-1, -1, query.shape[2], -1) * (query.mean(2, keepdim=True)[..., :1] + 3)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        return self.attention_weights(query, key, mask, query_mask) @ value


def test_entropy_is_none_if_rows_depend_on_other_queries() -> None:
    mechanism = Contrary(num_heads=2, head_dim=8).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=200))
    findings = compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value)))
    assert findings.queries_seen < findings.queries
    assert findings.entropy is None
    assert min(findings.distance) > 0.1


class Square(Attention):
    """Softmax that needs equal numbers of queries and keys."""

    cross = False
    time_cost = memory_cost = Cost(length=2)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        return softmax_weights(query, key, None)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        return self.attention_weights(query, key, mask, query_mask) @ value


def test_a_mechanism_that_needs_equal_lengths_is_measured_on_its_complete_map(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Square(num_heads=2, head_dim=8).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=200))
    call = Captured(query, key, value, mechanism(query, key, value))
    findings = compare_with_softmax(mechanism, call)
    assert findings.queries_seen < findings.queries
    assert findings.entropy == pytest.approx(findings.entropy_of_softmax)
    made = attention_map(mechanism, call)
    assert made is not None
    assert made.queries_per_row > 1
    monkeypatch.setattr("forecast.training.probe.measures.MAX_WEIGHTS", query.shape[1] * 200 * 200 - 1)
    assert attention_map(mechanism, call) is None


class Largest(SparseQueries):
    """Sparse mechanism: the softmax for the three longest queries, the mean for the others."""

    time_cost = memory_cost = Cost(length=1)

    def choose_active_queries(
        self, query: Tensor, key: Tensor, mask: Tensor | None = None, query_mask: Tensor | None = None
    ) -> Tensor:
        return query.square().sum(-1).topk(3).indices

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        chosen = self.choose_active_queries(query, key)[..., None].expand(-1, -1, -1, key.shape[2])
        return mean_weights(query, key, None, False).scatter(
            2, chosen, softmax_weights(query, key, None).gather(2, chosen)
        )

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        return self.attention_weights(query, key, mask, query_mask) @ value


class Renamed(Largest):
    """Subclass that changes nothing."""

    def __init__(self, *, number: int, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        self.number = number


class LargestAlone(Largest):
    """Subclass with the same choice but other weights: zero for the other queries."""

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        return super().attention_weights(query, key, mask, query_mask) - mean_weights(query, key, None, False)


@pytest.mark.parametrize("kind", [Largest, Renamed])
def test_a_custom_sparse_mechanism_has_the_measures_of_its_choice(kind: type[Largest]) -> None:
    mechanism = kind(num_heads=2, head_dim=8, **({"number": 1} if kind is Renamed else {})).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=12))
    call = Captured(query, key, value, mechanism(query, key, value))
    findings, shown = compare_with_softmax(mechanism, call), attention_map(mechanism, call)
    rows = mechanism.attention_map(query, key).double()
    assert findings.found_by_chance == 3 / 12
    assert findings.found == pytest.approx(by_hand.recalls(query, key, rows, False, list(range(12)), 3))
    assert findings.entropy == pytest.approx(by_hand.entropies(rows, [12] * 12), **CLOSE)
    assert shown is not None
    assert shown.chosen is not None
    assert shown.chosen.sum(1).tolist() == [3, 3]


def test_a_subclass_with_other_weights_has_no_measures_of_the_choice() -> None:
    mechanism = LargestAlone(num_heads=2, head_dim=8).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=12))
    call = Captured(query, key, value, mechanism(query, key, value))
    findings, shown = compare_with_softmax(mechanism, call), attention_map(mechanism, call)
    assert findings.found is findings.found_by_chance is None
    assert shown is not None
    assert shown.chosen is None
