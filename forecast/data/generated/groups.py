"""Several generated series at once: channels that move together, and drivers that are known ahead with a response."""

import numpy as np

from forecast.data.generated.prior import draw_series
from forecast.data.generated.processes import (
    Floats,
    Random,
    autoregression,
    log_uniform,
    period,
    season,
    smooth,
    standardized,
    week,
)

ALONE = 0.1
"""Share of the channels of a group that move alone."""

WITHOUT = 0.25
"""Share of the channels that do not respond to a driver."""


def draw_group(random: Random, n: int, channels: int = 1, drivers: int = 0) -> tuple[Floats, Floats]:
    """Draw channels (n, C) and their drivers (n, K), which are known ahead; one channel alone is `draw_series`."""
    values = np.stack([draw_series(random, n) for _ in range(channels)], 1)
    if channels > 1:
        values = together(random, values)
    known = np.stack([driver(random, n) for _ in range(drivers)], 1) if drivers else np.empty((n, 0))
    for cause in known.T:
        own = response(random, cause)
        for channel in values.T:
            if random.random() >= WITHOUT:
                channel += own * channel.std() * log_uniform(random, 0.2, 3)
    return values, known


def together(random: Random, values: Floats) -> Floats:
    """Return channels (n, C) with what they share: a factor, later in some; each has its share and its sign."""
    n, channels = values.shape
    latest = int(random.integers(1, 49)) if random.random() < 0.5 else 0
    common = draw_series(random, n + latest)
    joined = np.empty_like(values)
    for place in range(channels):
        share = 0.0 if random.random() < ALONE else random.uniform(0.2, 0.95)
        delay = int(random.integers(latest + 1))
        factor = standardized(common[latest - delay :][:n]) * random.choice([-1, 1], p=[0.2, 0.8])
        joined[:, place] = np.sqrt(1 - share) * standardized(values[:, place]) + np.sqrt(share) * factor
    return joined


def driver(random: Random, n: int) -> Floats:
    """Draw a column that is known ahead: weather, a load forecast, a calendar of the business, or days of events."""
    kind = random.random()
    if kind < 0.45:
        value = season(random, n, period(random, n)) + smooth(random, n) * log_uniform(random, 0.3, 3)
    elif kind < 0.6:
        value = autoregression(random, n)
    elif kind < 0.7:
        value = week(random, n)
    elif kind < 0.85:  # events of some length
        value = np.zeros(n)
        for first in np.flatnonzero(random.random(n) < 1 / log_uniform(random, 10, n / 3)):
            value[first : first + int(log_uniform(random, 1, 14))] = 1
    else:  # days open and closed, or holidays of a fixed distance
        every = int(random.choice([7, 14, 24, 30, 168]))
        value = ((np.arange(n) + random.integers(every)) % every < max(1, every // 7)).astype(np.float64)
    return standardized(value)


def response(random: Random, cause: Floats) -> Floats:
    """Return the response to a driver: linear, above or below a bound, saturated, or later and lasting."""
    kind = random.random()
    bound = np.quantile(cause, random.uniform(0.2, 0.8))
    if kind < 0.4:
        value = cause.copy()
    elif kind < 0.55:  # heating, cooling, or both
        value = np.abs(cause - bound) if random.random() < 0.4 else np.maximum(cause - bound, 0)
    elif kind < 0.7:
        value = np.tanh(log_uniform(random, 0.5, 4) * (cause - bound))
    else:
        delay, memory = int(random.integers(0, 7)), random.uniform(0, 0.95)
        weights = np.concatenate([np.zeros(delay), memory ** np.arange(60)])
        value = np.convolve(cause - cause[0], weights)[: len(cause)]
    return standardized(value) * float(random.choice([-1, 1]))
