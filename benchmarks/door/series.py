"""The tables of the door test: ordinary kinds of series, drawn with their future."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.signal import lfilter

Floats = np.ndarray
Maker = Callable[[np.random.Generator, Floats, int], dict[str, Floats]]
"""Draws the columns of a table from a generator, the numbers of its rows and the season in steps."""

ORIGINS = 60
"""Origins of a table, one horizon apart; of monthly and yearly tables one each, in `FILES` tables."""

FILES = LONG_ORIGINS = 20
"""Tables of a monthly or yearly kind, and origins of a long table, at which all of its series are forecast."""

ID = "unique_id"
"""Column of the ids in a long table, a name that the program finds."""


@dataclass(frozen=True)
class Step:
    """A step with the rows of an ordinary file, and the longest horizon that the future allows for."""

    frequency: str
    start: str
    rows: int
    season: int
    longest: int
    shown: str
    dates: str


HOURLY = Step("h", "2022-01-01", 1440, 24, 96, "two months hourly", "%Y-%m-%d %H:%M")
DAILY = Step("D", "2021-01-01", 730, 7, 28, "two years daily", "%Y-%m-%d")
WEEKLY = Step("W-MON", "2018-01-01", 260, 52, 52, "five years weekly", "%Y-%m-%d")
MONTHLY = Step("MS", "2012-01-01", 120, 12, 48, "ten years monthly", "%Y-%m-%d")
FEW_MONTHS = Step("MS", "2019-01-01", 57, 12, 12, "57 months", "%Y-%m-%d")
YEARLY = Step("YS", "1980-01-01", 40, 1, 20, "forty years yearly", "%Y-%m-%d")


@dataclass(frozen=True)
class Table:
    """A kind of table.

    `targets` are the columns that are scored; empty: all. `low` and `high` are bounds that its values never cross.
    `later` columns of the future, such as a weather forecast, are known ahead. `ids` is the number of series in a long
    table, 0 in another one.
    """

    name: str
    step: Step
    maker: Maker
    targets: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    later: tuple[str, ...] = ()
    ids: int = 0

    @property
    def files(self) -> int:
        """Number of tables that are drawn."""
        return FILES if self.step in (MONTHLY, YEARLY) else 1

    def origins(self, horizon: int) -> int:
        """Return the number of origins of each table at this horizon."""
        if self.files > 1:
            return 1
        most = LONG_ORIGINS if self.ids else ORIGINS
        return min(most, most * self.step.longest // horizon)

    def draw(self, seed: int) -> pd.DataFrame:
        """Return a table with its future."""
        step = self.step
        future = step.longest * (1 if self.files > 1 else LONG_ORIGINS if self.ids else ORIGINS)
        rng, t = np.random.default_rng([seed, *self.name.encode()]), np.arange(step.rows + future)
        index = pd.date_range(step.start, periods=len(t), freq=step.frequency, name="date")
        if not self.ids:
            return pd.DataFrame(self.maker(rng, t, step.season), index=index).round(3)
        series = []
        for number in range(self.ids):
            level = float(rng.lognormal(0, 1))
            drawn = self.maker(rng, t, step.season)
            columns = {name: level * values if name in self.targets else values for name, values in drawn.items()}
            whole = pd.DataFrame({ID: f"id_{number:0{len(str(self.ids))}}", **columns}, index=index).round(3)
            first = int(rng.integers(1, step.rows // 3)) if number % 3 == 1 else 0
            last = step.rows - step.longest if number == self.ids - 1 else len(t)
            series.append(whole.iloc[first:last])
        return pd.concat(series)

    def file(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the user's file: the rows of the first `step.rows` times."""
        rows: pd.DataFrame = frame.loc[frame.index < frame.index.unique().sort_values()[self.step.rows]]
        return rows


def wave(t: Floats, season: float, phase: float = 0.0) -> Floats:
    """Return a cycle with a second harmonic, about -1 to 1."""
    angle = 2 * np.pi * t / season + phase
    return np.asarray(0.8 * np.sin(angle) + 0.3 * np.sin(2 * angle + 1))


def lasting(rng: np.random.Generator, t: Floats, memory: float = 0.8) -> Floats:
    """Return noise of variance 1 whose autocorrelation at lag 1 is `memory`."""
    return np.asarray(lfilter([np.sqrt(1 - memory**2)], [1, -memory], rng.standard_normal(len(t))))


def week_of(t: Floats, season: int) -> Floats:
    """Return 1 on working days and 0 at the weekend of hourly or daily rows."""
    days = t // season if season == HOURLY.season else t
    return np.where(days % 7 < 5, 1.0, 0.0)


def load(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a load with the cycles of day and week."""
    return {"load": 500 + 80 * wave(t, season) + 60 * week_of(t, season) + 20 * lasting(rng, t)}


def trend(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a series that grows by some deviations in the file, with a season if there is one."""
    slope = 60 / {24: 1440, 7: 730, 52: 260, 12: 120}.get(season, 40)
    cycle = 8 * wave(t, season) if season > 1 else 0
    return {"value": 100 + slope * t + cycle + 5 * lasting(rng, t, 0.6)}


def growing_year(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a series whose yearly cycle grows with its level."""
    level = np.exp(0.006 * t)
    return {"passengers": 120 * level * (1 + 0.2 * wave(t, season)) * np.exp(0.04 * lasting(rng, t, 0.5))}


def year(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a temperature with a yearly cycle."""
    steps = {7: 365.25, 52: 52.18}.get(season, season)
    return {"temperature": 10 + 9 * np.sin(2 * np.pi * t / steps - 1.8) + 2.5 * lasting(rng, t, 0.75)}


def step_up(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a season whose level rises once, in the middle of the file."""
    rise = t >= {24: 650, 7: 330}[season]
    return {"flow": 40 + 6 * wave(t, season) + 15 * rise + 3 * lasting(rng, t, 0.5)}


def counts(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return counts of about five."""
    return {"visits": rng.poisson(5 * np.exp(0.6 * wave(t, season) + 0.2 * lasting(rng, t))).astype(float)}


def zeros(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return demand that is zero in four of five steps."""
    return {"demand": np.where(rng.random(len(t)) < 0.2, np.ceil(rng.gamma(2, 3, len(t))), 0.0)}


def sun(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return solar power: zero at night, below the clear sky by day."""
    clear = np.clip(np.sin(2 * np.pi * (t % season - 6) / season), 0, None)
    return {"power": 100 * clear * (1 - 0.6 / (1 + np.exp(-1.5 * lasting(rng, t, 0.9))))}


def rain(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return rain: wet spells with skewed amounts, else zero."""
    wet = lasting(rng, t, 0.85) > 0.8
    return {"rain": np.where(wet, rng.gamma(0.8, 3, len(t)), 0.0)}


def price(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a price with a season, spikes and some negative values."""
    spikes = np.where(rng.random(len(t)) < 0.02, rng.exponential(40, len(t)), 0.0)
    return {"price": 35 + 18 * wave(t, season) + 14 * lasting(rng, t, 0.85) + spikes}


def percentages(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a humidity that stays some time at 100."""
    return {"humidity": np.clip(78 + 16 * wave(t, season) + 14 * lasting(rng, t, 0.9), 0, 100)}


def several(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return five series of one kind with very different scales."""
    common, cycle = lasting(rng, t), wave(t, season)
    return {
        f"shop_{n}": scale * (10 + 2 * cycle + common + lasting(rng, t, 0.5))
        for n, scale in enumerate((1, 4, 20, 100, 600), start=1)
    }


def known(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a load that follows the temperature of its step."""
    temperature = 12 + 4 * wave(t, season) + 5 * lasting(rng, t, 0.95)
    return {"load": 300 - 9 * temperature + 30 * wave(t, season, 2) + 6 * lasting(rng, t), "temperature": temperature}


def promotion(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return sales that a promotion raises by half."""
    promoted = (lasting(rng, t, 0.7) > 1).astype(float)
    return {
        "sales": (60 + 12 * wave(t, season)) * (1 + 0.5 * promoted) + 6 * lasting(rng, t, 0.4),
        "promotion": promoted,
    }


def sentinel(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a temperature in which -9999 marks a failure of the sensor, in one of eighty rows of the file."""
    values = 11 + 5 * wave(t, season) + 3 * lasting(rng, t, 0.9)
    failed = (rng.random(len(t)) < 1 / 80) & (t < {24: HOURLY, 7: DAILY}[season].rows)
    return {"air": np.where(failed, -9999.0, values)}


def counter(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return a load beside a column that counts the rows."""
    return {"record": t + 1.0, **load(rng, t, season)}


def meter(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return the energy of a household: a cycle of its own with skewed noise, never below zero."""
    cycle = 1 + 0.6 * wave(t, season, rng.normal(0, 0.5)) + 0.2 * week_of(t, season)
    return {"energy": np.clip(cycle, 0.1, None) * np.exp(0.3 * lasting(rng, t, 0.6))}


def shop(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return sales that are zero on closed days and higher in weeks of promotion, both known ahead."""
    promoted = ((t // season + rng.integers(3)) % 3 == 0).astype(float)
    opened = (t % season != season - 1).astype(float)
    week = 1 + 0.2 * wave(t, season, rng.normal(0, 0.3))
    sales = 100 * opened * week * (1 + 0.4 * promoted) * np.exp(0.15 * lasting(rng, t, 0.3))
    return {"sales": sales, "promotion": promoted, "open": opened}


def product(rng: np.random.Generator, t: Floats, season: int) -> dict[str, Floats]:
    """Return monthly sales of a product, with a yearly cycle and a trend of its own."""
    cycle = rng.uniform(0, 0.5) * wave(t, season, rng.normal(0, 0.8))
    return {"sales": 100 * np.exp(rng.normal(0, 0.006) * t + cycle + 0.15 * lasting(rng, t, 0.5))}


TABLES = (
    Table("hourly load", HOURLY, load),
    Table("hourly trend", HOURLY, trend),
    Table("hourly step", HOURLY, step_up),
    Table("hourly counts", HOURLY, counts, low=0),
    Table("hourly solar", HOURLY, sun, low=0),
    Table("hourly rain", HOURLY, rain, low=0),
    Table("hourly price", HOURLY, price),
    Table("hourly percentages", HOURLY, percentages, low=0, high=100),
    Table("hourly several", HOURLY, several),
    Table("hourly known", HOURLY, known, ("load",), later=("temperature",)),
    Table("hourly sentinel", HOURLY, sentinel),
    Table("hourly counter", HOURLY, counter, ("load",)),
    Table("daily load", DAILY, load),
    Table("daily year", DAILY, year),
    Table("daily trend", DAILY, trend),
    Table("daily step", DAILY, step_up),
    Table("daily counts", DAILY, counts, low=0),
    Table("daily zeros", DAILY, zeros, low=0),
    Table("daily rain", DAILY, rain, low=0),
    Table("daily price", DAILY, price),
    Table("daily percentages", DAILY, percentages, low=0, high=100),
    Table("daily several", DAILY, several),
    Table("daily known", DAILY, promotion, ("sales",), later=("promotion",)),
    Table("daily sentinel", DAILY, sentinel),
    Table("weekly year", WEEKLY, year),
    Table("weekly counts", WEEKLY, counts, low=0),
    Table("weekly several", WEEKLY, several),
    Table("monthly year", MONTHLY, growing_year),
    Table("monthly counts", MONTHLY, counts, low=0),
    Table("yearly trend", YEARLY, trend),
    Table("hourly meters", HOURLY, meter, ("energy",), low=0, ids=10),
    Table("daily shops", DAILY, shop, ("sales",), low=0, ids=12),
    Table("monthly products", FEW_MONTHS, product, ("sales",), low=0, ids=350),
)
