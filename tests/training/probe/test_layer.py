"""What a look finds, against slow formulas in float64."""

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


def check(found: Findings, mechanism: Attention, arguments: dict[str, Any], call: tuple[Tensor, ...]) -> None:
    """Compare the findings with those of all queries of a call in float64."""
    query, key, value = (tensor.detach().double() for tensor in call)
    causal, length, num_keys = mechanism.causal, query.shape[2], key.shape[2]
    rows, exact = by_hand.weights(mechanism, arguments, query, key), by_hand.softmax(query, key, causal)
    assert found.mechanism == mechanism.name
    assert (found.queries, found.keys, found.queries_seen) == (length, num_keys, length)
    assert found.distance == pytest.approx(by_hand.distances(rows @ value, exact @ value), **CLOSE)
    means = by_hand.mean_output(value, query, causal)
    assert found.distance_of_mean == pytest.approx(by_hand.distances(means, exact @ value), **CLOSE)
    counts = [i + 1 if causal else num_keys for i in range(length)]
    assert found.entropy == pytest.approx(by_hand.entropies(rows, counts), **CLOSE)
    assert found.entropy_of_softmax == pytest.approx(by_hand.entropies(exact, counts), **CLOSE)
    if mechanism.name != "probsparse":
        assert found.found is found.found_by_chance is None
        return
    chosen = min(max(arguments["factor"] * math.ceil(math.log(length)), 1), length)
    assert found.found_by_chance == chosen / length
    shares = by_hand.found_shares(query, key, rows, causal, list(range(length)), chosen)
    assert found.found == pytest.approx(shares)


@pytest.mark.parametrize("name", available())
def test_the_numbers_are_those_of_a_direct_computation_on_one_window(name: str) -> None:
    arguments = load(FOLDER / f"{name}.yaml") | ({"factor": 1} if name == "probsparse" else {})
    network = make_model("patch_informer", SIZES, arguments)
    windows = make_windows(120, context_length=96, horizon=8, num_targets=1, num_covariates=0)
    batch = windows.batch(torch.tensor([5]))
    found = probe(network, batch)["encoder.0.self"]
    exact = copy.deepcopy(network).double()
    past, _ = exact.normalization.normalize(batch.past.double(), None)
    layer: Any = exact.encoder.layers[0]
    tokens = layer.attend.norm(exact.tokens.source(past, batch.past_known.double()))[0]  # (24, 16), norm first
    heads = layer.attention
    projections = (heads.query_projection, heads.key_projection, heads.value_projection)
    call = [
        torch.stack([tokens @ each.weight[8 * h : 8 * h + 8].T + each.bias[8 * h : 8 * h + 8] for h in (0, 1)])[None]
        for each in projections
    ]
    check(found, heads.attention, arguments, tuple(call))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_each_form_of_a_mechanism_is_looked_at_as_it_computes(case: Case) -> None:
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


def test_softmax_is_at_no_distance_and_the_mean_at_that_of_the_mean() -> None:
    query, key, value = (tensor.detach().float() for tensor in tensors(length=30))
    for name in ("full", "mean"):
        mechanism = Case(load(FOLDER / f"{name}.yaml"), False, name).build()
        found = compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value)))
        wanted = [0.0, 0.0] if name == "full" else found.distance_of_mean
        assert found.distance == pytest.approx(wanted, abs=1e-6)
        assert found.entropy == pytest.approx(found.entropy_of_softmax if name == "full" else [1.0, 1.0], abs=1e-6)


def test_one_key_is_no_choice_and_has_no_entropy() -> None:
    mechanism = Case(load(FOLDER / "linear.yaml"), False, "linear").build()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=5, key_length=1))
    found = compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value)))
    assert found.entropy is found.entropy_of_softmax is None
    assert found.distance == pytest.approx([0.0, 0.0], abs=1e-6)


class Contrary(Attention):
    """Attends to what the last query looks for, whatever the query."""

    time_cost = memory_cost = Cost(length=2)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        rows = (query[:, :, -1:] @ key.transpose(-1, -2)).softmax(-1)
        return rows.expand(-1, -1, query.shape[2], -1) * (query.mean(2, keepdim=True)[..., :1] + 3)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        return self.attention_weights(query, key, mask, query_mask) @ value


def test_a_mechanism_whose_rows_hang_together_has_a_distance_but_no_entropy_of_some_of_them() -> None:
    mechanism = Contrary(num_heads=2, head_dim=8).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=200))
    found = compare_with_softmax(mechanism, Captured(query, key, value, mechanism(query, key, value)))
    assert found.queries_seen < found.queries
    assert found.entropy is None
    assert min(found.distance) > 0.1


class Square(Attention):
    """The softmax, of as many queries as keys alone."""

    cross = False
    time_cost = memory_cost = Cost(length=2)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        return softmax_weights(query, key, None)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        return self.attention_weights(query, key, mask, query_mask) @ value


def test_a_mechanism_that_takes_no_other_length_is_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Square(num_heads=2, head_dim=8).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=200))
    call = Captured(query, key, value, mechanism(query, key, value))
    found = compare_with_softmax(mechanism, call)
    assert found.queries_seen < found.queries
    assert found.entropy == pytest.approx(found.entropy_of_softmax)
    made = attention_map(mechanism, call)
    assert made is not None
    assert made.queries_per_row > 1
    monkeypatch.setattr("forecast.training.probe.measures.MAX_WEIGHTS", query.shape[1] * 200 * 200 - 1)
    assert attention_map(mechanism, call) is None


class Largest(SparseQueries):
    """A sparse mechanism of somebody's own: the softmax for the three longest queries, the mean for the others."""

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
    """Inherits all that it does."""

    def __init__(self, *, number: int, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        self.number = number


class LargestAlone(Largest):
    """Inherits the choice, and attends in another way: those not chosen get nothing."""

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        return super().attention_weights(query, key, mask, query_mask) - mean_weights(query, key, None, False)


@pytest.mark.parametrize("kind", [Largest, Renamed])
def test_a_sparse_mechanism_of_ones_own_has_the_measures_of_its_choice(kind: type[Largest]) -> None:
    mechanism = kind(num_heads=2, head_dim=8, **({"number": 1} if kind is Renamed else {})).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=12))
    call = Captured(query, key, value, mechanism(query, key, value))
    found, shown = compare_with_softmax(mechanism, call), attention_map(mechanism, call)
    rows = mechanism.attention_map(query, key).double()
    assert found.found_by_chance == 3 / 12
    assert found.found == pytest.approx(by_hand.found_shares(query, key, rows, False, list(range(12)), 3))
    assert found.entropy == pytest.approx(by_hand.entropies(rows, [12] * 12), **CLOSE)
    assert shown is not None
    assert shown.chosen is not None
    assert shown.chosen.sum(1).tolist() == [3, 3]


def test_the_choice_speaks_for_no_subclass_that_attends_in_another_way() -> None:
    mechanism = LargestAlone(num_heads=2, head_dim=8).eval()
    query, key, value = (tensor.detach().float() for tensor in tensors(length=12))
    call = Captured(query, key, value, mechanism(query, key, value))
    found, shown = compare_with_softmax(mechanism, call), attention_map(mechanism, call)
    assert found.found is found.found_by_chance is None
    assert shown is not None
    assert shown.chosen is None
