import pytest

from forecast.attention.base import Cost
from forecast.benchmark.measure import Earlier, too_large, too_long

GIB = 2**30


def test_a_case_that_would_not_fit_is_left_out_with_both_numbers() -> None:
    assert too_large(40 * GIB, 16 * GIB) == "memory: would need about 40.0 GiB, 16.0 GiB are free"
    assert too_large(13 * GIB, 16 * GIB) != ""
    assert too_large(12 * GIB, 16 * GIB) == ""
    assert too_large(40 * GIB, None) == ""


def test_a_case_that_would_take_too_long_is_left_out_with_both_numbers() -> None:
    assert too_long(1234, 120) == "time: would take about 1,234 s, the limit is 120 s"
    assert too_long(120, 120) == ""


def test_what_is_expected_grows_as_declared() -> None:
    earlier = Earlier(length=1000, seconds=2.0, peak_bytes=100)
    assert earlier.seconds_at(3000, Cost(length=2, width=1)) == pytest.approx(18)
    assert earlier.seconds_at(3000, Cost(length=1, width=2)) == pytest.approx(6)
    assert earlier.bytes_at(3000, Cost(length=2)) == pytest.approx(900)
    assert earlier.bytes_at(3000, Cost(length=1)) == pytest.approx(300)
    assert earlier.bytes_at(3000, Cost(width=2)) == pytest.approx(300)


def test_what_declares_nothing_is_expected_to_be_quadratic() -> None:
    earlier = Earlier(length=1000, seconds=2.0, peak_bytes=100)
    assert earlier.seconds_at(2000, None) == pytest.approx(8)
    assert earlier.bytes_at(2000, None) == pytest.approx(400)
