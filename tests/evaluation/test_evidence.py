"""Whether trained weights are significantly better than the start on validation."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from forecast.common.group import ALONE
from forecast.evaluation.significance import Evidence, WindowErrors, block_means, surely_below_zero
from tests.report.made import correlated


def test_the_allowance_is_students_interval_of_the_block_means() -> None:
    """A block has two overlaps."""
    difference = np.random.default_rng(1).normal(-0.01, 0.05, 600)
    start = torch.full((600,), 0.5, dtype=torch.float64)
    means = difference.reshape(10, 60).mean(1)
    expected = stats.t.ppf(0.95, 9) * stats.sem(means)
    assert Evidence(0.5, start, 30, 0.95).allowance(start + torch.tensor(difference)) == pytest.approx(expected)


@pytest.mark.parametrize("windows", [0, 30, 239])
def test_fewer_than_eight_blocks_are_never_significant(windows: int) -> None:
    start = torch.ones(windows, dtype=torch.float64)
    assert Evidence(0.5, start, 30, 0.95).allowance(start - 0.5) == math.inf


def test_windows_without_a_target_are_ignored() -> None:
    start = torch.rand(100, dtype=torch.float64)
    other = start + 0.1 * torch.rand(100, dtype=torch.float64)
    expected = Evidence(0.5, start, 5, 0.9).allowance(other)
    missing = torch.full((7,), torch.nan, dtype=torch.float64)
    assert Evidence(0.0, torch.cat([start, missing]), 5, 0.9).allowance(torch.cat([other, missing])) == expected


def test_blocks_are_longer_where_the_correlation_lasts_and_shorter_where_eight_need_it() -> None:
    noise = torch.randn(3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lasting = torch.tensor(correlated(0, 3000, phi=0.99))
    assert [len(block_means(noise[:count], 24)) for count in (20, 150, 192, 300, 480)] == [1, 6, 8, 8, 10]
    assert (len(block_means(noise, 24)), len(block_means(lasting, 24))) == (62, 8)


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_a_training_that_gains_nothing_is_rarely_accepted(phi: float) -> None:
    """With blocks of one overlap, 14 to 20 % of such trainings would be accepted at 90 % confidence."""
    accepted = 0
    for seed in range(300):
        steps = np.concatenate([[0], correlated(seed, 1023, phi=phi).cumsum()])
        difference = torch.tensor(steps[24:] - steps[:-24]) / 24
        accepted += surely_below_zero(block_means(difference, 24), 0.9) is True
    assert accepted <= 0.125 * 300


def test_noise_is_rarely_significant() -> None:
    """Windows overlap by 24 steps: about 5 % of false claims although they are not independent."""
    rng, claims = np.random.default_rng(3), 0
    for _ in range(400):
        noise = rng.normal(size=24 * 12 + 23)
        difference = torch.tensor(
            np.convolve(noise, np.ones(24) / 24, "valid")
        )  # like the errors of overlapping windows
        start = torch.ones(len(difference), dtype=torch.float64)
        claims += Evidence(1.0, start, 24, 0.95).beaten_by(1 + float(difference.mean()), start + difference)
    assert claims <= 40


@pytest.mark.parametrize(("gain", "beaten"), [(0.1, True), (0.001, False), (-0.1, False)])
def test_a_clear_gain_is_significant_and_a_small_one_is_not(gain: float, beaten: bool) -> None:
    noise = 0.05 * torch.randn(240, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    start = torch.ones(240, dtype=torch.float64)
    other = start - gain + noise
    assert Evidence(1.0, start, 24, 0.9).beaten_by(float(other.mean()), other) is beaten


def test_what_makes_a_window_hard_for_both_does_not_widen_the_margin() -> None:
    draws = torch.Generator().manual_seed(0)
    start = 1 + torch.rand(240, generator=draws, dtype=torch.float64).repeat_interleave(24)
    noise = 0.01 * torch.randn(len(start), generator=draws, dtype=torch.float64)
    evidence = Evidence(float(start.mean()), start, 24, 0.9)
    assert 0 < evidence.allowance(start + noise) < 0.002


def test_window_errors_are_in_order_of_time() -> None:
    errors = WindowErrors()
    errors.add(torch.tensor([[5.0, 6.0], [7.0, 8.0]], dtype=torch.float64))
    errors.add(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))
    assert errors.mse((1.0, 0.5), ALONE).tolist() == [8.0, 11.0, 2.0, 5.0]
