import pytest

from forecast.plan.footprint import Footprint, Line, calibrated
from tests.plan.made import FOOTPRINT, MIB, level


def test_a_line_goes_through_its_points_and_never_falls() -> None:
    line = Line.through((4, 100), (8, 160))
    assert (line.fixed, line.window, line.at(16)) == (40, 15, 280)
    assert Line.through((4, 100), (8, 90)).at(100) == 90
    assert Line.proportional(4, 100).at(16) == 400


def test_the_peak_is_the_base_and_the_larger_pass() -> None:
    assert FOOTPRINT.peak(20, batch=3, evaluation_batch=1) == (100 + 20 * 3) * MIB
    assert FOOTPRINT.peak(20, batch=3, evaluation_batch=40) == (100 + 2 * 40) * MIB


def test_growth_with_the_look_back_is_extrapolated() -> None:
    assert FOOTPRINT.peak(40, 1, 1) == pytest.approx((100 + 40) * MIB)
    square = Footprint(20, 0.0, 1.0, [level(length, square=0.5) for length in (5, 10, 20)])
    assert square.peak(40, 2, 1) == pytest.approx(2 * (40 + 0.5 * 40**2) * MIB)
    concave = Footprint(20, 0.0, 1.0, [level(length, square=-0.01) for length in (5, 10, 20)])
    assert concave.peak(200, 1, 1) > concave.peak(20, 1, 1)


def test_the_largest_sizes_still_fit() -> None:
    assert FOOTPRINT.largest_batch(1, memory=(100 + 20 * 7.5) * MIB, most=100) == 7
    assert FOOTPRINT.largest_batch(1, memory=1e12, most=100) == 100
    assert FOOTPRINT.largest_batch(1, memory=101 * MIB, most=100) == 0
    assert FOOTPRINT.largest_look_back(2, 1, memory=(100 + 2 * 33.5) * MIB, most=100) == 33
    assert FOOTPRINT.largest_look_back(2, 1, memory=1e12, most=100) == 100


def test_no_batch_fits_if_the_evaluation_does_not() -> None:
    assert FOOTPRINT.largest_batch(1000, memory=500 * MIB, most=100) == 0


def test_two_look_backs_do_not_predict_others() -> None:
    assert Footprint(20, 0.0, 1.0, [level(10), level(20)]).largest_look_back(1, 1, 1e12, 100) is None


def test_the_configured_look_back_may_be_shorter_than_measured_ones() -> None:
    short = Footprint(5, 100 * MIB, 1.0, [level(5), level(10), level(20)])
    assert short.peak(5, batch=3, evaluation_batch=1) == (100 + 5 * 3) * MIB
    assert short.largest_batch(1, memory=(100 + 5 * 7.5) * MIB, most=100) == 7


@pytest.mark.parametrize(("measured", "factor"), [(230.0, 1.3), (1000.0, 1.5), (110.0, 1.0)])
def test_the_factor_matches_the_measured_peak_within_bounds(measured: float, factor: float) -> None:
    assert calibrated(measured, base=100.0, transient=100.0) == pytest.approx(factor)
    assert calibrated(measured, base=100.0, transient=0.0) == 1.0
