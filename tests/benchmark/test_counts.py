from typing import Any

import pytest
import torch

from forecast.attention import available, find
from forecast.attention._parsing import Variant, configured
from forecast.attention.base import Attention, Head
from forecast.benchmark.case import Case, Shape
from forecast.common.operations import operations
from tests.benchmark.made import case

LENGTHS = (720, 2880, 16_384)
ARGUMENTS: dict[str, dict[str, Any]] = {"probsparse": {"factor": 5}, "linformer": {"rank": 128}}


def variant(name: str) -> Variant:
    return Variant(name, name, ARGUMENTS.get(name, {}))


def head_operations(name: str, length: int, width: int, *, causal: bool = False) -> float | None:
    return find(name).operations(Head(length, length, width, width, causal), **ARGUMENTS.get(name, {}))


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("full", (34, 544, 17_592)),
        ("probsparse", (2.5, 11, 81)),
        ("linear", (3.1, 12, 70)),
        ("efficient", (3.1, 12, 70)),
    ],
)
def test_operations_match_known_counts(name: str, billions: tuple[float, ...]) -> None:
    for length, known in zip(LENGTHS, billions, strict=True):
        operations = Case(variant(name), Shape(length, batch=32, num_heads=8, head_dim=64)).operations()
        assert operations is not None
        assert float(f"{operations / 1e9:.{1 if known < 10 else 0}f}") == known


def test_operations_match_the_formulas() -> None:
    assert head_operations("taylor", 10, 4) == 4 * 10 * 16 + 5 * 10 * 4
    assert head_operations("linformer", 1000, 4) == 8 * 1000 * 128 * 4
    assert head_operations("linformer", 100, 4) == 8 * 100 * 100 * 4
    assert head_operations("mean", 10, 4) == 40


def test_a_mechanism_without_a_count_has_no_operations_but_moves_its_tensors() -> None:
    assert Attention.operations(Head(10, 10, 4, 4)) is None
    assert Attention.elements_moved(Head(10, 10, 4, 4), backward=False) == 4 * 40
    assert Attention.elements_moved(Head(2, 3, 5, 7), backward=False) == 2 * 5 + 3 * (5 + 7) + 2 * 7


@pytest.mark.parametrize("name", available())
def test_counts_increase_with_the_number_of_keys(name: str) -> None:
    kind, arguments = find(name), configured("attention", name)
    at = [kind.operations(Head(10, keys, 4, 4), **arguments) for keys in (100, 200, 400)]
    if "operations" not in vars(kind):
        assert at == [None, None, None]  # it does not count them
    else:
        assert at[0] < at[1] < at[2]


def test_causal_softmax_needs_half_the_operations() -> None:
    assert head_operations("full", 64, 8, causal=True) == 2 * 64**2 * 8


@pytest.mark.parametrize(("length", "microseconds"), [(720, 31.5), (2880, 126), (16_384, 716)])
def test_the_minimum_traffic_takes_the_known_time(length: int, microseconds: float) -> None:
    moved = Case(variant("full"), Shape(length, batch=32, num_heads=8, head_dim=64)).least_bytes(torch.bfloat16)
    assert moved is not None
    assert moved / 3e12 * 1e6 == pytest.approx(microseconds, rel=2e-3)


def test_both_passes_take_three_times_the_operations_and_eleven_tensors() -> None:
    alone, both = case(length=32), case(length=32, backward=True)
    assert both.operations() == 3 * alone.operations()
    assert alone.least_bytes(torch.float32) == 4 * 32 * 2 * 8 * 4
    assert both.least_bytes(torch.float32) == 11 * 32 * 2 * 8 * 4


def test_mean_reads_only_values() -> None:
    tensor = 32 * 2 * 8 * 4
    moved = [
        case("mean", length=32, causal=causal, backward=backward).least_bytes(torch.float32)
        for causal in (False, True)
        for backward in (False, True)
    ]
    assert moved == [tensor, 2 * tensor, 2 * tensor, 4 * tensor]


def test_a_layer_counts_its_projections() -> None:
    alone, layer = case(length=32), case(length=32, d_model=24)
    assert layer.operations() == alone.operations() + 4 * 2 * 32 * 24 * 16
    assert layer.least_bytes(torch.float32) == (2 * 32 * 24 + 4 * 24 * 16) * 4
    assert case(length=32, d_model=24, batch=3).least_bytes(torch.float32) == (3 * 2 * 32 * 24 + 4 * 24 * 16) * 4


def test_the_count_of_a_layer_with_few_queries_matches_its_computation() -> None:
    made = case("probsparse", length=400, batch=2, d_model=24, num_heads=2, head_dim=64)
    inputs, _ = made.shape.draw(torch.device("cpu"), torch.float32)
    layer = made.build().eval()
    assert made.operations() == pytest.approx(operations(lambda: layer(*inputs * 3)), rel=0.01)
    assert made.operations() < case("full", length=400, batch=2, d_model=24, num_heads=2, head_dim=64).operations()
    half = layer.to(torch.bfloat16)
    counted = operations(lambda: half(*[inputs[0].to(torch.bfloat16)] * 3))
    assert made.operations(torch.bfloat16) == pytest.approx(counted, rel=0.01)
    assert counted > 1.5 * made.operations()  # all queries are computed
