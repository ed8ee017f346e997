"""Diagnostic series: generated windows with one structure each, and with a known best possible error.

After the recall tasks of Arora et al., "Zoology", 2023, arXiv:2312.04927, and selective copying of Gu and Dao, "Mamba",
2023, arXiv:2312.00752, made into series. docs/explanation/diagnostic-series.md states the equations.

A window has a look-back of whole *units*, stretches of steps, and a horizon of one unit, or of several in *events*. The
future without its noise has mean 0 and variance 1, so that the MSE of the forecast 0 is 1 plus the variance of the
noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.common.errors import InputError

AMPLITUDE = 3.0
"""Size of the steps of a pattern and of a mark, in standard deviations of what they announce."""

COLUMN = "value"

EVENT = "event"
"""Column of *events* that is known ahead: the pattern of the event at that time, 0 without one."""

IN_UNITS = ("recall", "lag", "events")
"""Kinds whose look-back is divided into units."""

DEFAULT_TYPES = 8
"""Types of a kind that has some, if none are given."""

MOST_NOISE = 1.0
"""Largest standard deviation of the noise, unless the series is a control."""


@dataclass(frozen=True)
class Diagnostic:
    """Independent windows of one kind.

    Parameters
    ----------
    kind
        A key of `KINDS`.
    windows
        Number of windows.
    look_back, horizon
        Steps of a window before and after its origin.
    types
        Number of patterns of *recall* and *events*, of lags of *lag*, and of marked steps of *selective*; None:
        `DEFAULT_TYPES`.
    distance
        In *recall*, the answer begins n to 2 n - 1 units before the origin, n the distance; 0: anywhere.
    unit
        Steps of a unit, a divisor of look-back and horizon; None: the horizon, as for all kinds but *events*.
    noise
        Standard deviation of the noise; that of the future without it is 1.
    seed
        Seed of the windows, and of the patterns and weights that all windows share.
    """

    kind: str
    windows: int
    look_back: int
    horizon: int
    types: int | None
    distance: int
    noise: float
    seed: int
    unit: int | None = None

    @property
    def unit_length(self) -> int:
        """Steps of a unit."""
        return self.horizon if self.unit is None else self.unit

    @property
    def units(self) -> int:
        """Units of the look-back."""
        return self.look_back // self.unit_length

    @property
    def events(self) -> int:
        """Units of the horizon, which are the events of *events*."""
        return self.horizon // self.unit_length

    def check(self) -> None:
        """Raise InputError if no such window exists."""
        unit = self.unit_length
        if self.horizon % unit:
            raise InputError(f"data.unit={unit}: must divide the horizon, {self.horizon}")
        if self.events > 1 and self.kind != "events":
            raise InputError(f"data.unit={unit}: data.kind={self.kind} has one unit of horizon: leave it null")
        if self.kind in IN_UNITS and self.look_back % unit:
            of = "horizon" if self.unit is None else "unit"
            raise InputError(f"context_length {self.look_back}: must be a multiple of the {of}, {unit}")
        if KINDS[self.kind].is_control and self.types is not None:
            raise InputError(f"data.types={self.types}: data.kind={self.kind} has none: leave it null")
        if self.kind in IN_UNITS and self.number_of_types > 2**unit:
            raise InputError(f"data.types={self.number_of_types}: {unit} steps have only {2**unit} patterns")
        if self.distance and not (self.kind == "recall" and 2 <= self.distance <= self.units // 2):
            farthest = self.units // 2
            raise InputError(f"data.distance={self.distance}: must be 0, or from 2 to {farthest} with data.kind=recall")
        if KINDS[self.kind].is_control:
            return
        if self.noise > MOST_NOISE:
            raise InputError(
                f"data.noise={self.noise:g}: must be at most {MOST_NOISE:g}, the standard deviation of what is to be "
                "found: with more noise the share of skill is mostly chance"
            )
        least, most = {"recall": 1, "events": self.events}.get(self.kind, 2), self._most_types()
        if not least <= self.number_of_types <= most:
            raise InputError(f"data.types={self.number_of_types}: this look-back has room for {least} to {most}")

    @property
    def number_of_types(self) -> int:
        """Patterns, lags or marked steps."""
        return DEFAULT_TYPES if self.types is None else self.types

    @property
    def distances(self) -> range:
        """The distances of the answer from the origin, in units, with `distance`."""
        return range(self.distance, 2 * self.distance)

    def _most_types(self) -> int:
        """Return the largest number of types that leaves their places to chance."""
        if self.kind == "recall" and self.distance:
            return min(1 + (self.units - distance - 1) // 2 + (distance - 2) // 2 for distance in self.distances)
        return {
            "recall": (self.units - 1) // 2,
            "events": self.units,
            "lag": self.units - 1,
            "selective": self.look_back // 8,
        }[self.kind]


def simulate(setting: Diagnostic) -> np.ndarray:
    """Return the windows, shape (S, T + h), float64."""
    setting.check()
    return KINDS[setting.kind].simulate(setting, _random(setting))


def known_events(setting: Diagnostic) -> np.ndarray | None:
    """Return the column of the known events of the windows of `simulate`, shape (S, T + h); None without events."""
    if setting.kind != "events":
        return None
    with_none = np.vstack([patterns(setting), np.zeros(setting.unit_length)])
    known: np.ndarray = with_none[_calendar(setting, _random(setting))]
    return known.reshape(setting.windows, -1)


def _random(setting: Diagnostic) -> np.random.Generator:
    return np.random.default_rng([setting.seed, 0])


def diagnostic_table(setting: Diagnostic) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the windows one after another as a table, and the row of each origin.

    A step is a millisecond: its season is longer than the table, which has none.
    """
    values = simulate(setting)
    windows, steps = values.shape
    dates = pd.date_range("2000-01-01", periods=windows * steps, freq="ms", name="date").as_unit("ns")
    table = pd.DataFrame({COLUMN: values.ravel()}, index=dates)
    if (events := known_events(setting)) is not None:
        table[EVENT] = events.ravel()
    return table, np.arange(windows) * steps + setting.look_back


def best_mse(setting: Diagnostic) -> float:
    """Return the smallest mean squared error that a forecast can have."""
    return KINDS[setting.kind].best_mse(setting)


def share_of_skill(mse: float, simple: float, best: float) -> float:
    """Return the share of the achievable skill: 0 for the error of a simple forecast, 1 for the best possible one."""
    return (simple - mse) / (simple - best)


def patterns(setting: Diagnostic) -> np.ndarray:
    """Return the distinct patterns, shape (K, unit), of steps ±`AMPLITUDE`, the same in every window."""
    random = np.random.default_rng([setting.seed, 1])
    distinct: dict[bytes, np.ndarray] = {}
    while len(distinct) < setting.number_of_types:
        signs = random.integers(2, size=setting.unit_length)
        distinct[signs.tobytes()] = signs
    return AMPLITUDE * (2.0 * np.array(list(distinct.values())) - 1)


def _draws(random: np.random.Generator, windows: int, below: int, chosen: int) -> np.ndarray:
    """Return `chosen` different numbers below `below` for each window, rising, shape (S, chosen)."""
    return np.sort(random.random((windows, below)).argsort(1)[:, :chosen], 1)


def _pairs(random: np.random.Generator, windows: int, units: int, pairs: int) -> np.ndarray:
    """Return the first units (S, pairs), rising, of disjoint pairs of neighbouring units."""
    return _draws(random, windows, units - pairs, pairs) + np.arange(pairs)


def _recall(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """Each pattern is followed by its own response; the last unit repeats one, and its response is the future."""
    count, units, types = setting.windows, setting.units, setting.number_of_types
    values = setting.noise * random.standard_normal((count, units + 1, setting.horizon))
    rows = np.arange(count)
    if setting.distance:
        first, asked = _places_at_distance(setting, random)
    else:
        first = _pairs(random, count, units - 1, types)
        asked = random.integers(types, size=count)
    order = random.random((count, types)).argsort(1)
    responses = random.standard_normal((count, types, setting.horizon))
    values[rows[:, None], first] = patterns(setting)[order]
    values[rows[:, None], first + 1] += responses
    values[:, -2] = patterns(setting)[order[rows, asked]]
    values[:, -1] += responses[rows, asked]
    return values.reshape(count, -1)


def _places_at_distance(setting: Diagnostic, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the units of the patterns (S, K) and the asked one (S,), whose answer is at a distance of the range."""
    first = np.empty((setting.windows, setting.number_of_types), dtype=int)
    asked = np.empty(setting.windows, dtype=int)
    distances = random.choice(setting.distances, size=setting.windows)
    for distance in setting.distances:
        rows = distances == distance
        before, after = setting.units - distance - 1, distance - 2  # units on both sides of the asked pair
        others = setting.number_of_types - 1
        left = min(before // 2, max(others - after // 2, round(others * before / max(1, before + after))))
        near = _pairs(random, int(rows.sum()), after, others - left) + before + 2
        far = _pairs(random, int(rows.sum()), before, left)
        first[rows] = np.hstack([far, np.full((len(far), 1), before), near])
        asked[rows] = left
    return first, asked


def _calendar(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """Return the type of the event in each unit of look-back and horizon, shape (S, units + events); -1: none."""
    count, types = setting.windows, setting.number_of_types
    calendar = np.full((count, setting.units + setting.events), -1)
    rows = np.arange(count)[:, None]
    calendar[rows, _draws(random, count, setting.units, types)] = random.random((count, types)).argsort(1)
    calendar[:, setting.units :] = random.random((count, types)).argsort(1)[:, : setting.events]
    return calendar


def _events(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """Each type of event has its own response; the horizon has several events, each of a type seen before."""
    calendar = _calendar(setting, random)
    count = setting.windows
    responses = random.standard_normal((count, setting.number_of_types + 1, setting.unit_length))
    responses[:, -1] = 0  # no event
    values = setting.noise * random.standard_normal((*calendar.shape, setting.unit_length))
    values += responses[np.arange(count)[:, None], calendar]
    return values.reshape(count, -1)


def _lag(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """White noise; the pattern in the last unit says how many units back the stretch begins that the future repeats."""
    count, units, h = setting.windows, setting.units, setting.horizon
    values = random.standard_normal((count, units + 1, h))
    back = random.integers(setting.number_of_types, size=count)  # 0: the unit before the pattern
    values[:, -2] = patterns(setting)[back]
    stretch = values[np.arange(count), units - 2 - back]
    values[:, -1] = stretch + setting.noise * values[:, -1]
    return values.reshape(count, -1)


def _selective(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """Noise with a few marks; the mean of the steps after the marks, times √K, is the level of the future."""
    count = setting.windows
    values = random.standard_normal((count, setting.look_back + setting.horizon))
    rows, first = np.arange(count)[:, None], _pairs(random, count, setting.look_back, setting.number_of_types)
    values[rows, first] = 2 * AMPLITUDE
    level = values[rows, first + 1].sum(1, keepdims=True) / np.sqrt(setting.number_of_types)
    values[:, setting.look_back :] = level + setting.noise * values[:, setting.look_back :]
    return values


def _linear(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """White noise; each future step is the same linear map of the look-back in every window."""
    values = random.standard_normal((setting.windows, setting.look_back + setting.horizon))
    past = values[:, : setting.look_back]
    values[:, setting.look_back :] *= setting.noise
    values[:, setting.look_back :] += past @ linear_weights(setting)
    return values


def linear_weights(setting: Diagnostic) -> np.ndarray:
    """Return the weights (T, h) of `linear`: the sum over the look-back is 1 for each step, and the norm 1.

    A map with this sum moves a forecast by as much as the level of the series, as the models here do.
    """
    weights = np.random.default_rng([setting.seed, 1]).standard_normal((setting.look_back, setting.horizon))
    weights -= weights.mean(0)
    weights *= np.sqrt(1 - 1 / setting.look_back) / np.linalg.norm(weights, axis=0)
    return weights + 1 / setting.look_back


def _level(setting: Diagnostic, random: np.random.Generator) -> np.ndarray:
    """Each window has a level of its own, and noise."""
    noise = random.standard_normal((setting.windows, setting.look_back + setting.horizon))
    return random.standard_normal((setting.windows, 1)) + setting.noise * noise


@dataclass(frozen=True)
class Kind:
    """How windows are drawn, and the least mean squared error of their forecast.

    Of a control, a simple forecast is the best possible one, so that attention cannot help.
    """

    simulate: Callable[[Diagnostic, np.random.Generator], np.ndarray]
    best_mse: Callable[[Diagnostic], float]
    is_control: bool = False


def _noise(setting: Diagnostic) -> float:
    return setting.noise**2


def _shrunk(variance: float, observations: int) -> float:
    """Return the variance of a standard normal number, given `observations` of it with noise of `variance`."""
    return variance / (variance + observations)


KINDS = {
    "recall": Kind(_recall, lambda s: _noise(s) + _shrunk(_noise(s), 1)),
    "events": Kind(_events, lambda s: _noise(s) + _shrunk(_noise(s), 1)),
    "lag": Kind(_lag, _noise),
    "selective": Kind(_selective, _noise),
    "linear": Kind(_linear, _noise, is_control=True),
    "level": Kind(_level, lambda s: _noise(s) + _shrunk(_noise(s), s.look_back), is_control=True),
}
