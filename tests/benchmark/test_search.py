from collections.abc import Callable

import pytest

from forecast.benchmark.trial import Trial, largest, search, smallest_failed


def up_to(most: int, tried: list[int]) -> Callable[[int], Trial]:
    """Return an attempt that fits up to `most`."""

    def attempt(look_back: int) -> Trial:
        tried.append(look_back)
        return Trial(look_back, look_back, 1.0, "" if look_back <= most else "memory: no more")

    return attempt


@pytest.mark.parametrize("most", [100, 101, 137, 150, 199, 1000, 12_345])
@pytest.mark.parametrize("within", [0.1, 0.01])
def test_what_is_found_fits_and_what_is_a_tenth_longer_does_not(most: int, within: float) -> None:
    tried: list[int] = []
    trials = search(up_to(most, tried), shortest=100, longest=10**6, within=within)
    found, failed = largest(trials), smallest_failed(trials)
    assert found is not None
    assert failed is not None
    assert found.look_back <= most < failed.look_back
    assert failed.look_back - found.look_back <= max(1, within * found.look_back)
    assert [trial.look_back for trial in trials] == tried
    assert len(set(tried)) == len(tried)


def test_lengths_double_first_and_then_halve_the_gap() -> None:
    tried: list[int] = []
    search(up_to(500, tried), shortest=100, longest=10**6, within=0.1)
    assert tried == [100, 200, 400, 800, 600, 500, 550]


def test_nothing_is_tried_beyond_the_longest() -> None:
    tried: list[int] = []
    trials = search(up_to(10**9, tried), shortest=100, longest=300, within=0.1)
    assert tried == [100, 200, 300]
    assert smallest_failed(trials) is None


def test_where_the_shortest_does_not_fit_nothing_is_found() -> None:
    trials = search(up_to(10, []), shortest=100, longest=300, within=0.1)
    assert largest(trials) is None
    assert len(trials) == 1


@pytest.mark.parametrize("why", ["time: too long", "refused: cannot be causal"])
def test_a_failure_that_is_not_for_memory_ends_the_search(why: str) -> None:
    def attempt(look_back: int) -> Trial:
        return Trial(look_back, 1, 1.0) if look_back < 400 else Trial(look_back, why=why)

    trials = search(attempt, shortest=100, longest=10**6, within=0.1)
    assert [trial.look_back for trial in trials] == [100, 200, 400]


def test_a_failure_while_the_gap_is_halved_ends_the_search_too() -> None:
    def attempt(look_back: int) -> Trial:
        if look_back == 300:
            return Trial(look_back, why="time: too long")
        return Trial(look_back, why="" if look_back < 400 else "memory: no more")

    trials = search(attempt, shortest=100, longest=10**6, within=0.1)
    assert [trial.look_back for trial in trials] == [100, 200, 400, 300]
