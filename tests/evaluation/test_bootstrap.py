import math

import numpy as np
import pytest
from scipy.special import stdtrit

from forecast.evaluation.significance import LEAST_BLOCKS, autocovariances, block_length, mean_interval, memory
from tests.report.made import HORIZON, correlated


def test_autocovariances_equal_their_definition() -> None:
    series = correlated(0, 300, phi=0.8) + 5
    centred = series - series.mean()
    direct = [float(centred[: 300 - lag] @ centred[lag:]) / 300 for lag in range(300)]
    np.testing.assert_allclose(autocovariances(series), direct, atol=1e-12)


def test_the_block_length_is_optimal_for_a_known_autocorrelation() -> None:
    """For an autoregression of 0.9 the sums are known: the best block length for 20,000 values is 139."""
    ratio = 2 * 0.9 / (1 - 0.9**2)  # sum of |k| R(k) over sum of R(k)
    best = (1.5 * ratio**2 * 20000) ** (1 / 3)
    lengths = [block_length(correlated(seed, 20000, phi=0.9)) for seed in range(5)]
    assert round(best) == 139
    assert np.mean(lengths) == pytest.approx(best, rel=0.15)
    assert block_length(np.random.default_rng(0).standard_normal(20000)) < 10
    assert block_length(np.ones(100)) == 1


def test_the_width_of_the_interval_follows_from_the_variance_of_the_block_means() -> None:
    """The variance of the circular block bootstrap's mean is the variance of all block means over their number."""
    series = correlated(3, 960)
    interval = mean_interval(series, 48, draws=40_000)
    assert interval is not None
    assert interval.mean == pytest.approx(series.mean())
    block, blocks = interval.block, 960 / interval.block
    means = np.array([np.take(series, range(start, start + block), mode="wrap").mean() for start in range(960)])
    half_width = math.sqrt(means.var() / (blocks - 1)) * stdtrit(blocks - 1, 0.995)
    assert (interval.high - interval.low) / 2 == pytest.approx(half_width, rel=0.08)


def test_a_block_is_at_least_twice_the_overlap_and_at_most_a_fifth_of_the_series() -> None:
    noise = np.random.default_rng(0).standard_normal(2000)
    for overlap, block in ((96, 192), (336, 400), (1, None), (401, ...)):
        interval = mean_interval(noise, overlap, draws=200)
        if block is ...:
            assert interval is None  # four blocks are too few
            continue
        assert interval is not None
        assert interval.block == block or (block is None and 4 <= interval.block < 20)
        assert interval.capped == (overlap == 336)


def test_the_memory_is_that_of_the_overlap_and_of_an_autoregression() -> None:
    """For moving means of n values it is n / 3; for an autoregression of 0.9 it is 2 · 0.9 / (1 - 0.81) = 9.5."""
    noise = np.convolve(np.random.default_rng(0).standard_normal(200_000), np.ones(24) / 24, "valid")
    assert memory(noise, 24) == pytest.approx(8, rel=0.1)
    assert memory(correlated(0, 200_000, phi=0.9), 1) == pytest.approx(9.5, rel=0.05)
    assert memory(correlated(0, 200_000, phi=0.99), 24) == pytest.approx(99.5, rel=0.15)
    assert memory(np.ones(10), 12) == memory(np.ones(20), 12) == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize(("phi", "lasting"), [(0.0, 0), (0.9, 0), (0.99, 50)])
def test_an_interval_says_that_the_correlation_outlives_its_blocks(phi: float, lasting: int) -> None:
    """Of 100 series of 500 windows; a fifth of them is as long as the memory of the last one."""
    intervals = [mean_interval(correlated(seed, 500, phi=phi), 24, draws=10) for seed in range(100)]
    flagged = [interval for interval in intervals if interval is not None and interval.lasting]
    assert all(interval.capped for interval in flagged)
    assert (len(flagged) >= lasting) if lasting else (len(flagged) <= 5)


@pytest.mark.parametrize(("excess", "lasting"), [(0.0, False), (0.1, True)])
def test_the_correlation_outlives_the_blocks_if_twice_its_memory_is_longer(
    monkeypatch: pytest.MonkeyPatch, excess: float, lasting: bool
) -> None:
    longest = 800 // LEAST_BLOCKS
    monkeypatch.setattr("forecast.evaluation.significance.memory", lambda series, overlap: longest / 2 + excess)
    interval = mean_interval(correlated(0, 800), 4, draws=10)
    assert interval is not None
    assert interval.lasting == lasting


@pytest.mark.parametrize(("phi", "most"), [(0.9, 10), (0.99, 16)])
def test_the_interval_of_a_lasting_difference_rarely_misses_its_true_value(phi: float, most: int) -> None:
    """Of 400 intervals at 99 %; with the block length of Politis and White, 34 missed it at 0.99."""
    missed = 0
    for seed in range(400):
        steps = np.concatenate([[0], correlated(seed, 2023, phi=phi).cumsum()])
        interval = mean_interval((steps[24:] - steps[:-24]) / 24, 24, draws=1000)
        assert interval is not None
        missed += not (interval.lasting or interval.low < 0 < interval.high)
    assert missed <= most


def test_the_interval_is_reproducible_and_scales_with_the_unit() -> None:
    series = correlated(1)
    once, again, tenfold = (mean_interval(values, HORIZON) for values in (series, series.copy(), 10 * series))
    assert once == again
    assert once is not None
    assert tenfold is not None
    assert tenfold.low == pytest.approx(10 * once.low)


def test_white_noise_has_the_interval_of_students_test() -> None:
    series = np.random.default_rng(5).standard_normal(5000) + 0.3
    interval = mean_interval(series, 1)
    assert interval is not None
    assert (interval.high - interval.low) / 2 == pytest.approx(2.576 * series.std() / math.sqrt(5000), rel=0.15)


def test_a_level_beyond_the_draws_is_widened_by_students_t() -> None:
    """Of 9,999 draws, less than one is beyond 99.99 %: all quantiles there would be the last draw."""
    series = correlated(2)
    usual, far, farther = (mean_interval(series, 48, level=level) for level in (0.99, 0.9999, 0.999999))
    assert usual is not None
    assert far is not None
    assert farther is not None
    freedom = len(series) / usual.block - 1
    for interval, level in ((far, 0.9999), (farther, 0.999999)):
        ratio = stdtrit(freedom, (1 + level) / 2) / stdtrit(freedom, 0.995)
        assert interval.high - interval.mean == pytest.approx(ratio * (usual.high - usual.mean))
        assert interval.mean - interval.low == pytest.approx(ratio * (usual.mean - usual.low))
