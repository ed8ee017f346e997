import math

import pytest

from forecast.attention import available
from forecast.attention._parsing import parse
from forecast.benchmark.case import Growth, cost_of, growth_of, memory_growth_of


@pytest.mark.parametrize(
    ("declared", "growth"),
    [
        ("O(L² E)", Growth(2)),
        ("O(L S E)", Growth(2)),
        ("O(L E²)", Growth(1)),
        ("O(L r E)", Growth(1)),
        ("O(L log L · E)", Growth(1, 1)),
        ("O(L log S · E)", Growth(1, 1)),
        ("O(E²)", Growth(0)),
        ("O(L E + L² )", Growth(2)),
        ("O(2 L r E)", Growth(1)),
        ("O(LE²)", Growth(1)),
        ("quick", None),
        # read by halves these would be taken for L or L², and a fit be measured against that
        ("O(L^2 E)", None),
        ("O(L**2)", None),
        ("O(L √L)", None),
        ("O(L sqrt L)", None),
        ("O(L log₂ L)", None),
        ("O(L log² L)", None),
        ("O(L log L²)", None),
        ("O(L log(L))", None),
        ("O(L E + L^2)", None),
        ("O(N²)", None),
    ],
)
def test_a_declared_cost_is_read(declared: str, growth: Growth | None) -> None:
    assert growth_of(declared, set()) == growth


@pytest.mark.parametrize(
    ("declared", "words", "cost"),
    [
        ("O(L) fused, O(L²) explicit", {"fused"}, "L"),
        ("O(L) fused, O(L²) explicit", {"explicit", "causal"}, "L²"),
        ("O(L) fused, O(L²) explicit", {"other"}, None),
        ("O(E²), causal O(L E)", {"causal"}, "L E"),
        ("O(E²), causal O(L E)", set(), "E²"),
    ],
)
def test_the_clause_of_the_case_counts(declared: str, words: set[str], cost: str | None) -> None:
    assert cost_of(declared, words) == cost


def test_memory_grows_no_slower_than_the_output() -> None:
    assert memory_growth_of("O(E²)", set()) == Growth(1)
    assert memory_growth_of("O(L log L)", set()) == Growth(1, 1)
    assert memory_growth_of("much", set()) is None


def test_expected_exponents_are_those_of_a_fit() -> None:
    assert Growth(2).exponent((256, 512, 1024)) == pytest.approx(2)
    # close to a length L the slope of L ln L is 1 + 1 / ln L
    assert Growth(1, 1).exponent((8191, 8192, 8193)) == pytest.approx(1 + 1 / math.log(8192), abs=1e-4)


def test_growth_is_the_ratio_of_two_costs() -> None:
    assert Growth(2).between(100, 300) == pytest.approx(9)
    assert Growth(1, 1).between(16, 256) == pytest.approx(16 * 2)
    assert Growth(1, 1).between(1, 2) == pytest.approx(2)


@pytest.mark.parametrize("name", available())
def test_what_every_mechanism_declares_can_be_read(name: str) -> None:
    variant = parse(name)
    for causal in (False, True):
        assert growth_of(variant.time_cost, variant.words(causal)) is not None
        assert memory_growth_of(variant.memory_cost, variant.words(causal)) is not None
