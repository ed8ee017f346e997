from dataclasses import replace

import pytest

from tests.plan.made import LENGTH, PACE


def test_the_time_of_an_epoch_includes_its_validations() -> None:
    assert PACE.loop == pytest.approx(1.0)
    assert PACE.validation_seconds(LENGTH) == pytest.approx(2 + 100 * 0.01)
    assert PACE.epoch_seconds(LENGTH) == pytest.approx(100 * 1.0 + 2 * 3.0)


@pytest.mark.parametrize(("steps", "validations"), [(250, 5), (251, 6), (50, 1), (49, 1), (1, 1)])
def test_a_training_is_validated_at_its_interval_and_at_its_end(steps: int, validations: int) -> None:
    assert LENGTH.validations(steps) == validations
    assert PACE.fit_seconds(LENGTH, steps) == pytest.approx(4 + steps + 3 * validations + 1)


def test_max_time_limits_the_training() -> None:
    whole = PACE.training_seconds(LENGTH)
    assert whole == pytest.approx(4 + 250 + 15 + 1)
    assert PACE.training_seconds(replace(LENGTH, max_seconds=60.0)) == 60 + 3
    assert PACE.training_seconds(replace(LENGTH, max_seconds=600.0)) == pytest.approx(whole)


def test_the_time_to_the_result_includes_preparation_and_scoring() -> None:
    after = PACE.result_seconds(LENGTH) - PACE.training_seconds(LENGTH)
    assert after == pytest.approx(5 + 0.05 * (1.4 * 100 + 200))
    short = replace(LENGTH, holds_out=False)
    assert PACE.result_seconds(LENGTH) - PACE.result_seconds(short) == pytest.approx(0.05 * 0.4 * 100)
    start = replace(LENGTH, scores_start=True)
    assert PACE.result_seconds(start) - PACE.result_seconds(LENGTH) == pytest.approx(0.01 * 100)
