import threading
from collections.abc import Iterator

import pytest

from forecast.data.windows import prefetch


def threads() -> int:
    return sum(each.name.startswith("next-batch") for each in threading.enumerate())


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_item_comes_once_and_in_order(count: int) -> None:
    assert list(prefetch(range(count))) == list(range(count))
    assert threads() == 0


def test_one_item_is_made_while_the_one_before_is_in_use_and_no_more() -> None:
    begun = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(begun):
            event.set()
            yield number

    coming = prefetch(items())
    assert next(coming) == 0
    assert begun[1].wait(5)
    assert not begun[2].wait(0.05)
    assert list(coming) == [1, 2]


def test_an_error_is_raised_when_its_item_is_requested() -> None:
    coming = prefetch(1 // number for number in (1, 0))
    assert next(coming) == 1
    with pytest.raises(ZeroDivisionError):
        next(coming)
    assert threads() == 0


def test_a_loop_that_ends_early_leaves_no_thread() -> None:
    coming = prefetch(iter(range(10)))
    next(coming)
    assert threads() == 1
    coming.close()  # type: ignore[attr-defined]
    assert threads() == 0
