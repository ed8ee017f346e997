import numpy as np
import pytest

from forecast.common.lone_points import lone_points

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "alone"),
    [
        ([1.0], [True]),
        ([NAN], [False]),
        ([1.0, 2.0], [False, False]),
        ([1.0, NAN, 2.0, 3.0, NAN, 4.0], [True, False, False, False, False, True]),
        ([], []),
    ],
)
def test_a_point_between_two_gaps_is_alone(values: list[float], alone: list[bool]) -> None:
    assert lone_points(np.array(values)).tolist() == alone
