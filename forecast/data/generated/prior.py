"""The prior over series: which processes are drawn together, and what happens to their sum."""

import numpy as np

from forecast.data.generated.processes import (
    Floats,
    Random,
    autoregression,
    kernels,
    log_uniform,
    noise,
    period,
    regimes,
    season,
    smooth,
    standardized,
    trend,
    walk,
    week,
)


def draw_series(random: Random, n: int) -> Floats:
    """Draw a series of `n` steps, float64; its level and scale are arbitrary."""
    kind = random.random()
    if kind < 0.58:
        values = seasonal(random, n)
    elif kind < 0.70:
        values = kernels(random, n)
    elif kind < 0.82:
        values = wandering(random, n)
    elif kind < 0.90:
        values = counts(random, n)
    else:
        values = seasonal(random, n)
        values = np.maximum(values - np.quantile(values, random.uniform(0.2, 0.7)), 0)  # zero at night
    return disturbed(random, values)


def seasonal(random: Random, n: int) -> Floats:
    """Draw a sum or product of seasons, trend, wandering level and noise."""
    value = np.zeros(n)
    first = period(random, n)
    if random.random() < 0.3:
        value += week(random, n)
    elif random.random() < 0.92:
        value += season(random, n, first)
    for _ in range(random.choice([0, 1, 2], p=[0.5, 0.35, 0.15])):
        steps = first * random.choice([2, 3, 4, 7, 7, 7, 12]) if random.random() < 0.5 else period(random, n)
        value += season(random, n, steps) * random.uniform(0.1, 1)
    multiplicative = random.random() < 0.35
    size = random.uniform(0.1, 0.8) if multiplicative else 1.0
    level = np.zeros(n)
    if random.random() < 0.5:
        level += trend(random, n) * log_uniform(random, 0.1, 2)
    if random.random() < 0.65:
        drawn = (smooth, walk, autoregression)[random.choice(3, p=[0.45, 0.2, 0.35])]
        level += drawn(random, n) * log_uniform(random, 0.1, 2.5)
    if random.random() < 0.12:
        level += regimes(random, n) * log_uniform(random, 0.2, 2)
    rough = noise(random, n) if random.random() < 0.6 else autoregression(random, n)
    rough = rough * log_uniform(random, 0.01, 1)
    if multiplicative:
        return np.exp(np.clip(size * value + 0.5 * level + 0.3 * rough, -8, 8))
    if random.random() < 0.2:  # noise that grows with the level
        rough = rough * np.exp(0.5 * np.clip(value + level, -3, 3))
    return value + level + rough


def wandering(random: Random, n: int) -> Floats:
    """Draw a series without a season: a walk, an autoregression, regimes, or a chaotic map."""
    kind = random.random()
    if kind < 0.35:
        value = walk(random, n)
        if random.random() < 0.3:
            value = np.exp(np.clip(random.uniform(0.1, 0.8) * value, -8, 8))
    elif kind < 0.75:
        value = autoregression(random, n)
        if random.random() < 0.4:
            value = value + smooth(random, n) * log_uniform(random, 0.2, 2)
    elif kind < 0.9:
        value = regimes(random, n) + noise(random, n) * log_uniform(random, 0.02, 0.7)
    else:
        value = logistic_map(random, n)
    return value + noise(random, n) * log_uniform(random, 0.003, 0.3)


def logistic_map(random: Random, n: int) -> Floats:
    """Draw an orbit of the logistic map, averaged over some steps."""
    every, rate, state = int(random.integers(1, 4)), random.uniform(3.5, 4), random.uniform(0.1, 0.9)
    orbit = np.empty(n * every)
    for step in range(len(orbit)):
        state = rate * state * (1 - state)
        orbit[step] = state
    return standardized(orbit.reshape(n, every).mean(1))


def counts(random: Random, n: int) -> Floats:
    """Draw counts, many of them zero in some: a seasonal intensity, Poisson or of a wider distribution."""
    intensity = standardized(seasonal(random, n))
    mean = np.exp(np.clip(np.log(log_uniform(random, 0.05, 200)) + random.uniform(0, 0.8) * intensity, -8, 8))
    if random.random() < 0.4:
        shape = log_uniform(random, 0.3, 10)
        mean = mean * random.gamma(shape, 1 / shape, n)
    drawn: Floats = random.poisson(mean).astype(np.float64)
    if random.random() < 0.2:
        drawn = drawn * random.lognormal(0, 0.5, n)  # amounts, not numbers
    return drawn


def disturbed(random: Random, values: Floats) -> Floats:
    """Return the series with what happens to measured ones: shifts, spikes, bounds, rounding, stuck values."""
    n, deviation = len(values), values.std() + 1e-9
    if random.random() < 0.08:
        values = values + (np.arange(n) >= random.integers(n)) * random.normal() * 2 * deviation
    if random.random() < 0.12:
        hit = random.random(n) < log_uniform(random, 1 / n, 0.02)
        values = values + hit * random.standard_normal(n) * random.uniform(1, 8) * deviation
    if random.random() < 0.06:
        values = np.clip(values, *np.quantile(values, [random.uniform(0, 0.3), random.uniform(0.7, 1)]))
    if random.random() < 0.1:
        unit = deviation * log_uniform(random, 0.02, 0.7)
        values = np.round(values / unit) * unit
    if random.random() < 0.04:
        first = random.integers(n)
        last = min(n, first + int(log_uniform(random, 3, n / 4)))
        values = values.copy()
        values[first:last] = values[first]
    if random.random() < 0.1:
        values = -values
    return values


def draw_gaps(random: Random, n: int) -> np.ndarray:
    """Draw which of `n` steps were measured, boolean; in most windows all of them were."""
    measured = np.ones(n, dtype=np.bool_)
    kind = random.random()
    if kind < 0.06:
        measured = random.random(n) >= random.uniform(0.01, 0.4)
    elif kind < 0.12:
        for _ in range(random.integers(1, 4)):
            first = random.integers(n)
            measured[first : first + int(log_uniform(random, 2, n / 4))] = False
    return measured
