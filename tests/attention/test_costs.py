import math

import pytest

from forecast.attention import available
from forecast.attention._costs import cost_of, cost_text, is_costs
from forecast.attention._parsing import parse
from forecast.attention.base import Cost, Costs
from forecast.benchmark.report import _expected_exponent

FORMS = {"fused": Cost(length=1), "explicit": Cost(length=2)}
USUAL = {"": Cost(width=2), "causal": Cost(length=1, width=1)}


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(length=2, width=1), "O(L² E)"),
        (Cost(length=1, width=2), "O(L E²)"),
        (Cost(length=1, width=1, other="r"), "O(L r E)"),
        (Cost(length=1, other="r"), "O(L r)"),
        (Cost(length=1, logarithms=1, width=1), "O(L log L · E)"),
        (Cost(length=1, logarithms=1), "O(L log L)"),
        (Cost(logarithms=2), "O(log L log L)"),
        (Cost(width=2), "O(E²)"),
        (Cost(length=3), "O(L³)"),
        (Cost(length=1.5, width=1), "O(L^1.5 E)"),
        (Cost(), "O(1)"),
        (FORMS, "O(L) fused, O(L²) explicit"),
        (USUAL, "O(E²), causal O(L E)"),
    ],
)
def test_costs_are_printed_in_big_o_notation(cost: Costs, text: str) -> None:
    assert cost_text(cost) == text


@pytest.mark.parametrize(
    ("declared", "words", "cost"),
    [
        (FORMS, {"fused"}, Cost(length=1)),
        (FORMS, {"explicit", "causal"}, Cost(length=2)),
        (FORMS, {"other"}, None),
        (USUAL, {"causal"}, Cost(length=1, width=1)),
        (USUAL, set(), Cost(width=2)),
        (Cost(length=2), {"causal"}, Cost(length=2)),
    ],
)
def test_the_cost_of_the_matching_case_is_returned(declared: Costs, words: set[str], cost: Cost | None) -> None:
    assert cost_of(declared, words) == cost


def test_text_and_empty_mappings_are_not_costs() -> None:
    assert not any(map(is_costs, ("O(L)", None, {}, {"causal": "O(L)"})))
    assert all(map(is_costs, (Cost(), FORMS, USUAL)))


def test_memory_grows_no_slower_than_the_output() -> None:
    assert Cost(width=2).with_output() == Cost(length=1)
    assert Cost(length=1, logarithms=1).with_output() == Cost(length=1, logarithms=1)


def test_the_expected_exponent_equals_that_of_a_fit() -> None:
    assert _expected_exponent(Cost(length=2), (256, 512, 1024)) == pytest.approx(2)
    # near length L the slope of L ln L is 1 + 1 / ln L
    exponent = _expected_exponent(Cost(length=1, logarithms=1), (8191, 8192, 8193))
    assert exponent == pytest.approx(1 + 1 / math.log(8192), abs=1e-4)


def test_growth_is_the_ratio_of_two_costs() -> None:
    assert Cost(length=2).between(100, 300) == pytest.approx(9)
    assert Cost(length=1, logarithms=1).between(16, 256) == pytest.approx(16 * 2)
    assert Cost(length=1, logarithms=1).between(1, 2) == pytest.approx(2)


@pytest.mark.parametrize("name", available())
def test_every_mechanism_declares_a_cost_for_both_forms(name: str) -> None:
    variant = parse(name)
    for causal in (False, True):
        assert variant.time_cost(causal) is not None
        assert variant.memory_cost(causal) is not None
