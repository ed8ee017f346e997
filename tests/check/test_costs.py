"""Counts of operations and of live bytes."""

import pytest
import torch
from torch.nn import functional

from forecast.attention._parsing import attention_arguments
from forecast.check.candidate import Candidate
from forecast.check.costs import Counter, memory_growths, operations_growths

FLOAT = 4


def test_products_elements_and_views_are_counted() -> None:
    first, second = torch.ones(3, 5), torch.ones(5, 7)
    with torch.no_grad(), Counter() as counter:
        product = first @ second
        assert counter.operations == 2 * 3 * 5 * 7
        total = product.T.reshape(-1)[:4]  # T is no copy, reshape is one of 21
        assert counter.operations == 2 * 3 * 5 * 7 + 21
        total.exp_()
        assert counter.operations == 2 * 3 * 5 * 7 + 21 + 4
        product.sum()
    assert counter.operations == 2 * 3 * 5 * 7 + 21 + 4 + 21


def test_fused_softmax_counts_both_products() -> None:
    query = torch.ones(1, 2, 16, 8)
    with torch.no_grad(), Counter() as counter:
        functional.scaled_dot_product_attention(query, query, query)
    assert counter.operations == 4 * 2 * 16 * 16 * 8


def test_live_bytes_follow_the_life_of_each_storage() -> None:
    given = torch.ones(100)
    with torch.no_grad(), Counter() as counter:
        first = given + 1
        view = first[:50]
        assert (counter.live, counter.peak) == (100 * FLOAT, 100 * FLOAT)
        del first
        assert counter.live == 100 * FLOAT  # the view holds it
        view = view * 2
        assert (counter.live, counter.peak) == (50 * FLOAT, 150 * FLOAT)
        given.add_(1)
        assert counter.live == 50 * FLOAT
        del view
    assert (counter.live, counter.peak) == (0, 150 * FLOAT)


@pytest.mark.parametrize(("name", "operations", "memory"), [("full", 2, 1), ("linear", 1, 1), ("mean", 1, 1)])
def test_the_fitted_exponents_are_those_of_the_equation(name: str, operations: int, memory: int) -> None:
    candidate = Candidate(attention_arguments([name])[name])
    for growths, exponent in ((operations_growths(candidate), operations), (memory_growths(candidate), memory)):
        assert [growth.causal for growth in growths] == [False, True]
        assert [growth.exponent for growth in growths] == pytest.approx([exponent] * 2, abs=0.02)


def test_the_explicit_softmax_takes_the_memory_that_it_declares() -> None:
    arguments = attention_arguments(["full"])["full"] | {"implementation": "explicit"}
    assert [growth.exponent for growth in memory_growths(Candidate(arguments))] == pytest.approx([2, 2], abs=0.05)
