from dataclasses import replace

import pytest

from tests.plan.made import LENGTH, PACE


def test_an_epoch_is_its_steps_and_the_validations_that_fall_into_it() -> None:
    assert PACE.loop == pytest.approx(1.0)
    assert PACE.validation_seconds(LENGTH) == pytest.approx(2 + 100 * 0.01)
    assert PACE.epoch_seconds(LENGTH) == pytest.approx(100 * 1.0 + 2 * 3.0)


@pytest.mark.parametrize(("steps", "validations"), [(250, 5), (251, 6), (50, 1), (49, 1), (1, 1)])
def test_a_training_is_validated_at_its_interval_and_at_its_end(steps: int, validations: int) -> None:
    assert LENGTH.validations(steps) == validations
    assert PACE.fit_seconds(LENGTH, steps) == pytest.approx(4 + steps + 3 * validations + 1)


def test_a_training_ends_where_its_time_does() -> None:
    whole = PACE.training_seconds(LENGTH)
    assert whole == pytest.approx(4 + 250 + 15 + 1)
    assert PACE.training_seconds(replace(LENGTH, max_seconds=60.0)) == 60
    assert PACE.training_seconds(replace(LENGTH, max_seconds=600.0)) == pytest.approx(whole)


def test_the_result_comes_after_preparation_and_scores_of_all_windows() -> None:
    after = PACE.result_seconds(LENGTH) - PACE.training_seconds(LENGTH)
    assert after == pytest.approx(5 + 0.01 * (100 + 200))
    start = replace(LENGTH, scores_start=True)
    assert PACE.result_seconds(start) - PACE.result_seconds(LENGTH) == pytest.approx(0.01 * 100)
