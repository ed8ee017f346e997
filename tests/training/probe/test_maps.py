"""Attention maps reduced for a picture, against the complete map of the mechanism."""

import pytest
import torch
from torch import Tensor

from forecast.attention.probsparse import ProbSparseAttention
from forecast.model.presets import Sizes
from forecast.training.probe import maps
from forecast.training.probe.capture import Captured
from forecast.training.probe.maps import attention_map, attention_maps
from tests.attention.cases import CASES, FOLDER, Case, load, tensors
from tests.support.examples import make_model, make_windows


def called(case: Case, **sizes: int) -> tuple[Captured, Tensor]:
    """Return a call and the complete map of its first sequence."""
    mechanism = case.build(num_heads=sizes.get("heads", 2))
    query, key, value = (tensor.detach().float() for tensor in tensors(**sizes))
    call = Captured(query, key, value, mechanism(query, key, value))
    return call, mechanism.attention_map(query, key)[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_short_map_is_complete(case: Case) -> None:
    call, whole = called(case, length=10)
    shown = attention_map(case.build(), call)
    assert shown is not None
    torch.testing.assert_close(torch.from_numpy(shown.weights).float(), whole, rtol=1e-4, atol=1e-6)
    assert (shown.queries_per_row, shown.keys_per_column, shown.queries, shown.num_keys) == (1, 1, 10, 10)
    assert (shown.chosen is None) == (case.name != "probsparse")


@pytest.mark.parametrize("name", ["linear", "full"])
def test_a_long_map_has_one_query_per_row_and_the_mean_of_keys_per_column(name: str) -> None:
    case = Case(load(FOLDER / f"{name}.yaml"), False, name)
    call, whole = called(case, length=150, key_length=200, heads=6)
    shown = attention_map(case.build(num_heads=6), call)
    assert shown is not None
    assert (shown.weights.shape, shown.heads) == ((4, 75, 100), [0, 2, 3, 5])
    wanted = whole[[0, 2, 3, 5]][:, 1::2].unflatten(2, (100, 2)).mean(3)
    torch.testing.assert_close(torch.from_numpy(shown.weights).float(), wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("causal", [False, True])
def test_a_probsparse_row_shows_its_chosen_query(causal: bool) -> None:
    case = Case(load(FOLDER / "probsparse.yaml") | {"factor": 1}, causal, "probsparse")
    call, whole = called(case, length=300)
    mechanism = case.build()
    assert isinstance(mechanism, ProbSparseAttention)
    chosen = mechanism.active_queries(call.query, call.key)[0]
    shown = attention_map(mechanism, call)
    assert shown is not None
    assert shown.chosen is not None
    assert shown.queries_per_row == 3
    assert shown.chosen.tolist() == chosen.view(2, 100, 3).any(2).tolist()
    for head, row in [(0, 0), *chosen.view(2, 100, 3).any(2).nonzero().tolist()]:
        among = chosen[head, 3 * row : 3 * row + 3]
        position = 3 * row + (int(among.int().argmax()) if among.any() else 1)
        wanted = whole[head, position].view(100, 3).mean(1)
        torch.testing.assert_close(torch.from_numpy(shown.weights[head, row]).float(), wanted, rtol=1e-4, atol=1e-7)


def test_a_causal_map_beyond_the_budget_covers_the_first_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "CAUSAL_BUDGET", 2 * 20**2)
    case = Case(load(FOLDER / "linear.yaml"), True, "linear")
    call, whole = called(case, length=50)
    shown = attention_map(case.build(), call)
    assert shown is not None
    assert (shown.queries, shown.keys, shown.num_queries) == (20, 20, 50)
    torch.testing.assert_close(torch.from_numpy(shown.weights).float(), whole[:, :20, :20], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_first_and_last_encoder_layers_and_the_last_decoder_layer_are_shown(layers: int) -> None:
    sizes = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=16, horizon=8)
    network = make_model("informer", sizes, {"name": "mean"}, encoder_layers=layers, decoder_layers=2)
    result = attention_maps(network, make_windows(60, context_length=16, horizon=8).batch(torch.tensor([3])))
    encoder = ["encoder.0.self", f"encoder.{layers - 1}.self"][: min(layers, 2)]
    assert list(result) == [*encoder, "decoder.1.self", "decoder.1.cross"]
