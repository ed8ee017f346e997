import math

import pytest

from forecast.evaluation.crossing import crossing, crossing_text, exponent, slope

LENGTHS = (256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_the_slope_of_a_power_law_is_its_exponent(power: float) -> None:
    assert slope(LENGTHS, [3e-6 * length**power for length in LENGTHS]) == pytest.approx(power)


def test_lengths_below_the_shortest_are_not_fitted() -> None:
    costs = {length: 5.0 if length < 1024 else length**2 / 1e4 for length in reversed(LENGTHS)}
    fitted = exponent(costs, 1024)
    assert fitted is not None
    assert fitted.value == pytest.approx(2)
    assert fitted.lengths == (1024, 2048, 4096)


def test_two_lengths_are_not_fitted() -> None:
    assert exponent({1024: 1.0, 2048: 2.0}, 256) is None
    assert exponent(dict.fromkeys(LENGTHS, 1.0), 2048) is None


def test_costs_of_zero_are_not_fitted() -> None:
    assert exponent({256: 0, 512: 0, 1024: 0}, 1) is None


def test_costs_cross_where_their_formulas_do() -> None:
    quadratic = {length: length**2 / 1e3 for length in (16, 256)}
    linear = {length: 64 * length / 1e3 for length in (16, 256)}
    assert crossing(linear, quadratic) == pytest.approx(64)
    assert crossing_text(linear, quadratic) == "64"


def test_a_crossing_must_hold_up_to_the_longest_length() -> None:
    reference = dict.fromkeys((1, 2, 4, 8), 1.0)
    assert crossing({1: 0.5, 2: 0.5, 4: 0.5, 8: 2.0}, reference) is None
    assert crossing({1: 0.5, 2: 2.0, 4: 0.5, 8: 0.5}, reference) == pytest.approx(2 * math.sqrt(2))


def test_no_crossing_is_extrapolated() -> None:
    reference = {256: 1.0, 512: 2.0, 1024: 4.0}
    assert crossing_text({256: 2.0, 512: 3.0, 1024: 4.5, 2048: 0.1}, reference) == "not up to 1,024"
    assert crossing_text({256: 0.9, 512: 1.0, 1024: 1.0}, reference) == "256 or below"
    assert crossing_text({4096: 1.0}, reference) == "not measured"
    assert crossing({4096: 1.0}, reference) is None


def test_equal_costs_do_not_cross() -> None:
    assert crossing({256: 1.0}, {256: 1.0}) is None
