import math

import pytest

from forecast.evaluation.crossing import crossing, crossing_text, exponent, slope

LENGTHS = (256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_a_power_law_gives_its_exponent(power: float) -> None:
    assert slope(LENGTHS, [3e-6 * length**power for length in LENGTHS]) == pytest.approx(power)


def test_short_lengths_stay_out_of_the_fit_and_it_says_which_were_in() -> None:
    costs = {length: 5.0 if length < 1024 else length**2 / 1e4 for length in reversed(LENGTHS)}
    found = exponent(costs, 1024)
    assert found is not None
    assert found.value == pytest.approx(2)
    assert found.lengths == (1024, 2048, 4096)


def test_two_lengths_are_no_fit() -> None:
    assert exponent({1024: 1.0, 2048: 2.0}, 256) is None
    assert exponent(dict.fromkeys(LENGTHS, 1.0), 2048) is None


def test_a_cost_of_nothing_has_no_logarithm_and_stays_out() -> None:
    assert exponent({256: 0, 512: 0, 1024: 0}, 1) is None


def test_lines_cross_where_their_formulas_do() -> None:
    quadratic = {length: length**2 / 1e3 for length in (16, 256)}
    linear = {length: 64 * length / 1e3 for length in (16, 256)}
    assert crossing(linear, quadratic) == pytest.approx(64)
    assert crossing_text(linear, quadratic) == "64"


def test_a_crossing_that_does_not_last_is_none() -> None:
    reference = dict.fromkeys((1, 2, 4, 8), 1.0)
    assert crossing({1: 0.5, 2: 0.5, 4: 0.5, 8: 2.0}, reference) is None
    assert crossing({1: 0.5, 2: 2.0, 4: 0.5, 8: 0.5}, reference) == pytest.approx(2 * math.sqrt(2))


def test_what_lies_beyond_the_measured_lengths_is_not_guessed() -> None:
    reference = {256: 1.0, 512: 2.0, 1024: 4.0}
    assert crossing_text({256: 2.0, 512: 3.0, 1024: 4.5, 2048: 0.1}, reference) == "not up to 1,024"
    assert crossing_text({256: 0.9, 512: 1.0, 1024: 1.0}, reference) == "256 or below"
    assert crossing_text({4096: 1.0}, reference) == "not measured"
    assert crossing({4096: 1.0}, reference) is None


def test_equal_is_not_faster() -> None:
    assert crossing({256: 1.0}, {256: 1.0}) is None
