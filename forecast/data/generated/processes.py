"""The processes of which a generated series consists: seasons, trends, smooth functions, noise.

Each function draws one component of `n` steps, float64, with a deviation of about 1, from the random generator it gets.

Sources of the ideas, whose code was not read: Ansari et al., "Chronos", 2024, arXiv:2403.07815 (compositions of
kernels); Das et al., "A decoder-only foundation model for time-series forecasting", 2024, arXiv:2310.10688 (seasons,
trends and ARMA); Dooley et al., "ForecastPFN", 2023, arXiv:2311.01933 (multiplicative seasons and noise); Moroshan et
al., "TempoPFN", 2025, arXiv:2510.25502 (regimes, steps, spikes and anomalies).
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator

PERIODS = (4, 5, 6, 7, 8, 12, 13, 24, 26, 30, 36, 48, 52, 60, 72, 90, 96, 120, 144, 168, 180, 240, 288, 336)
"""Periods of seasons that tables have: quarters, weeks, months, hours and minutes."""

COMMON = (7, 12, 24, 48, 96, 144)
"""Periods that are drawn more often."""

SUB_PERIODS = (6, 8, 12, 24, 24, 24, 48, 48, 96)
"""Steps of a day, in a week of seven days."""


def log_uniform(random: Random, low: float, high: float) -> float:
    """Draw a number between `low` and `high`, its logarithm uniform."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def standardized(values: Floats) -> Floats:
    """Return the values with mean 0 and deviation 1; zeros if they are constant."""
    centered = values - values.mean()
    deviation = centered.std()
    return centered / deviation if deviation > 1e-9 else np.zeros_like(values)


def period(random: Random, n: int) -> float:
    """Draw the period of a season, in steps: most are those of tables."""
    kind = random.random()
    if kind < 0.45:
        return float(random.choice(COMMON))
    if kind < 0.8:
        return float(random.choice(PERIODS))
    return log_uniform(random, 2.5, n / 2)


@cache
def _frequencies(size: int) -> Floats:
    return np.asarray(np.fft.rfftfreq(size), dtype=np.float64)


def smooth(random: Random, n: int) -> Floats:
    """Draw a stationary Gaussian process with a kernel that is smooth (RBF) or rough (Matérn), of a random length."""
    length = log_uniform(random, 3, n)
    size = 1 << (2 * n - 1).bit_length()
    scaled = _frequencies(size) * length
    if random.random() < 0.5:
        spectrum = np.exp(-np.square(np.pi * scaled))
    else:
        spectrum = (1 + np.square(2 * np.pi * scaled)) ** -random.choice([0.5, 1.0, 1.5])
    noise = random.standard_normal((2, len(spectrum)))
    return standardized(np.fft.irfft((noise[0] + 1j * noise[1]) * spectrum, size)[:n])


def walk(random: Random, n: int) -> Floats:
    """Draw a random walk, with a drift or steps of heavy tails in some."""
    steps = noise(random, n) if random.random() < 0.3 else random.standard_normal(n)
    if random.random() < 0.3:
        steps = steps + random.normal(0, 0.1)
    return standardized(np.cumsum(steps))


def noise(random: Random, n: int) -> Floats:
    """Draw independent noise: normal, of heavy tails, skewed, or with a volatility that changes."""
    kind = random.random()
    if kind < 0.5:
        return random.standard_normal(n)
    if kind < 0.65:
        return np.clip(random.standard_t(random.uniform(2.5, 8), n), -12, 12)
    if kind < 0.8:
        return standardized(random.gamma(log_uniform(random, 0.5, 8), 1, n))
    return random.standard_normal(n) * np.exp(random.uniform(0.2, 1.0) * smooth(random, n))


def autoregression(random: Random, n: int) -> Floats:
    """Draw an autoregression with random stable roots, some of them complex: cycles without a fixed phase."""
    from scipy.signal import lfilter  # imported here: it takes seconds

    roots: list[complex] = []
    for _ in range(random.integers(1, 4)):
        radius = 1 - log_uniform(random, 0.003, 0.7)
        if random.random() < 0.5:
            angle = 2 * np.pi / log_uniform(random, 3, 200)
            roots += [radius * np.exp(1j * angle), radius * np.exp(-1j * angle)]
        else:
            roots.append(radius if random.random() < 0.85 else -radius)
    warm_up = 200
    driven = lfilter([1.0], np.real(np.poly(roots)), noise(random, n + warm_up))
    return standardized(np.asarray(driven)[warm_up:])


def trend(random: Random, n: int) -> Floats:
    """Draw a trend: a line, pieces of lines, a saturation, or a curve."""
    time = np.linspace(-1, 1, n)
    kind = random.random()
    if kind < 0.4:
        return np.asarray(time * random.choice([-1, 1]))
    if kind < 0.65:
        knots = np.sort(random.uniform(-1, 1, random.integers(1, 5)))
        slopes = np.cumsum(random.standard_normal(len(knots) + 1))
        return standardized(np.cumsum(slopes[np.searchsorted(knots, time)]))
    if kind < 0.85:
        return standardized(
            random.choice([-1, 1]) / (1 + np.exp(-(time - random.uniform(-1, 1)) * random.uniform(2, 12)))
        )
    return standardized(random.choice([-1, 1]) * np.exp(random.uniform(0.5, 2.5) * time))


def profile(random: Random, points: int) -> Floats:
    """Draw one period of a season at `points` phases: harmonics, bumps, a pulse, or a saw."""
    phase = np.arange(points) / points
    kind = random.random()
    if kind < 0.55:
        orders = np.arange(1, max(2, min(int(random.integers(1, 13)), points // 2 + 1)))
        sizes = random.standard_normal(len(orders)) * orders ** -random.uniform(0.3, 2.5)
        angles = 2 * np.pi * (np.outer(orders, phase) + random.random(len(orders))[:, None])
        return standardized(sizes @ np.sin(angles))
    if kind < 0.8:
        bumps = np.zeros(points)
        for _ in range(random.integers(1, 4)):
            sharpness = log_uniform(random, 1, 60)
            bumps += random.normal() * np.exp(sharpness * (np.cos(2 * np.pi * (phase - random.random())) - 1))
        return standardized(bumps)
    if kind < 0.92:
        return standardized((((phase + random.random()) % 1) < random.uniform(0.05, 0.6)).astype(np.float64))
    return standardized((phase + random.random()) % 1 * random.choice([-1, 1]))


def season(random: Random, n: int, steps: float) -> Floats:
    """Draw a season with a period of `steps`; in some the size changes slowly, or every period differs a little."""
    points = max(4, min(512, round(steps)))
    shape = profile(random, points)
    place = np.arange(n) / steps + random.random()
    phase = place % 1 * points
    if abs(steps - round(steps)) < 1e-9 and points == steps:
        values = shape[phase.astype(np.int64) % points]
    else:
        values = np.interp(phase, np.arange(points + 1), np.append(shape, shape[0]))
    if random.random() < 0.35:
        values = values * np.exp(random.uniform(0.1, 0.6) * smooth(random, n))
    if random.random() < 0.25:
        which = place.astype(np.int64)
        values = values * (1 + random.uniform(0.05, 0.5) * random.standard_normal(which[-1] + 1))[which]
    return values


def week(random: Random, n: int) -> Floats:
    """Draw days in a week: a profile of the day, other sizes or another profile on some of the seven days."""
    steps = int(random.choice(SUB_PERIODS))
    place = np.arange(n) + random.integers(7 * steps)
    day, hour = place // steps % 7, place % steps
    profiles = np.stack([profile(random, steps) for _ in range(2)])
    days_off = np.zeros(7, dtype=np.int64)
    days_off[: random.integers(1, 3)] = 1
    if random.random() < 0.7:  # the other days are the same day, smaller
        profiles[1] = profiles[0] * random.uniform(0.2, 0.9)
    levels = random.normal(0, random.uniform(0, 0.6)) * days_off + random.normal(0, 0.1, 7)
    return standardized(profiles[days_off[day], hour] + levels[day])


def regimes(random: Random, n: int) -> Floats:
    """Draw a level that is redrawn at random times."""
    changes = random.random(n) < 1 / log_uniform(random, 10, n)
    levels = random.standard_normal(int(changes.sum()) + 1)
    return levels[np.cumsum(changes)]


def kernels(random: Random, n: int) -> Floats:
    """Draw a composition of two to five functions by sums and products, as of kernels."""
    value = _function(random, n)
    for _ in range(random.integers(1, 5)):
        other = _function(random, n)
        value = value + other * random.uniform(0.3, 1.5) if random.random() < 0.65 else value * other
    return standardized(np.clip(value, -1e3, 1e3))


def _function(random: Random, n: int) -> Floats:
    kind = random.random()
    if kind < 0.35:
        return season(random, n, period(random, n))
    if kind < 0.75:
        return smooth(random, n)
    if kind < 0.88:
        return np.linspace(-1, 1, n) * random.normal() + random.normal()
    return noise(random, n) * random.uniform(0.1, 0.6)
