import pytest

from forecast.common.errors import InputError
from forecast.plan.messages import Answer
from forecast.plan.pairs import Pair, compare, rank
from tests.plan.made import LENGTH, PACE, measured


def pair(foretold: float, real: float) -> Pair:
    return Pair({"seconds": foretold, "peak_mib": 1.0}, {"seconds": real, "peak_mib": 1.0})


def test_a_plan_is_asked_for_as_many_steps_as_the_training_made() -> None:
    made = Pair.of(measured(), Answer(seconds=50.0, steps=60, peak_mib=600.0))
    assert made.foretold == {"seconds": PACE.fit_seconds(LENGTH, 60), "peak_mib": 300.0}
    assert made.ratio("peak_mib") == 0.5
    assert made.ratio("seconds") == pytest.approx((4 + 60 + 2 * 3 + 1) / 50)


def test_a_training_that_failed_is_told() -> None:
    with pytest.raises(InputError, match="ended without a result: memory: none"):
        Pair.of(measured(), Answer("memory: none"))


@pytest.mark.parametrize(("third", "within"), [(1.25, True), (1.26, False), (0.75, True), (0.74, False)])
def test_the_median_ratio_decides(third: float, within: bool) -> None:
    pairs = [pair(0.1, 1), pair(2 * third, 2), pair(9, 1)]
    compared = compare(pairs, "seconds")
    assert compared["ratios"] == [0.1, third, 9]
    assert (compared["median"], compared["within"]) == (third, within)
    assert (compared["real"], compared["reals"]) == (1, [1, 2, 1])
    assert compared["plans"] == [0.1, 2 * third, 9]


@pytest.mark.parametrize(("highest", "claimed"), [(9.4, True), (9.6, False)])
def test_what_is_ranked_wrongly_is_named_with_how_far_it_is_apart(highest: float, claimed: bool) -> None:
    compared = {
        "full": {"foretold": 10.0, "real": 9.0, "reals": [9.0, 8.0, 12.0], "plans": [10.0, 9.5, 11.0]},
        "mean": {"foretold": 2.0, "real": 2.0, "reals": [2.0, 2.0, 2.0], "plans": [2.0, 2.0, 2.0]},
        "taylor": {"foretold": 9.0, "real": 9.9, "reals": [9.9, 10.0, 9.5], "plans": [9.0, 8.0, highest]},
    }
    ranks = rank(compared)
    assert ranks["foretold"] == ["mean", "taylor", "full"]
    assert ranks["real"] == ["mean", "full", "taylor"]
    (swap,) = ranks["swapped"]
    assert swap["mechanisms"] == ["full", "taylor"]
    assert swap["apart"] == pytest.approx(0.1)
    assert (swap["alike"], swap["turns"], swap["claimed"]) == (2, 3, claimed)
