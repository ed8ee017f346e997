"""How long the blocks of a bootstrap have to be, from a series' own autocorrelation."""

import math

import numpy as np


def autocovariances(series: np.ndarray) -> np.ndarray:
    """Give the autocovariance at every lag from 0 to n - 1, each over n."""
    count = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * count)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * count)[:count] / count)


def block_length(series: np.ndarray) -> float:
    """Give the block length that makes the circular block bootstrap's variance of the mean most precise.

    Notes
    -----
    Differs from the papers in: the lags that are looked at are not held below √n, and the length not below
    3√n, as windows that overlap are correlated over more than that.

    References
    ----------
    Politis and White, "Automatic block-length selection for the dependent bootstrap", Econometric Reviews 23
    (2004); Patton, Politis and White, correction, Econometric Reviews 28 (2009).
    """
    count, covariance = len(series), autocovariances(series)
    if covariance[0] <= 0:
        return 1.0
    bandwidth = min(2 * max(1, _last_lag(covariance / covariance[0])), count - 1)
    lags = np.arange(1, bandwidth + 1)
    weighted = np.clip(2 * (1 - lags / bandwidth), 0, 1) * covariance[1 : bandwidth + 1]  # the flat-top window
    spectrum = covariance[0] + 2 * weighted.sum()
    if spectrum <= 0:
        return 1.0
    return float((1.5 * (2 * (lags * weighted).sum() / spectrum) ** 2 * count) ** (1 / 3))


def _last_lag(correlation: np.ndarray) -> int:
    """Give the lag after which the autocorrelation stays within what chance gives for a run of lags."""
    count = len(correlation)
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    run = min(len(small), max(5, math.ceil(math.sqrt(math.log10(count)))))
    quiet = np.lib.stride_tricks.sliding_window_view(small, run).all(axis=1)
    return int(quiet.argmax()) if quiet.any() else len(small)
