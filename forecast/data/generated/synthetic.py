"""A simulated distribution transformer: loads, weather and the resulting oil temperature.

docs/explanation/simulation.md states the equations and constants, which were fixed before any model was tuned on them.
"""

import numpy as np
import pandas as pd

from forecast.common.errors import InputError

RATED_POWER_KVA = 630.0

# IEC 60076-7: thermal characteristics of an ONAN distribution transformer
OIL_EXPONENT = 0.8  # x
LOSS_RATIO = 5.0  # R: load losses at rated current over no-load losses
TOP_OIL_RISE_K = 55.0  # Δθor: steady state, rated losses
OIL_TIME_CONSTANT_MIN = 180.0  # τo
K11 = 1.0

_STEP_MIN = 60.0
_YEAR_H = 365.2425 * 24
_LAST_YEAR = 2261


def simulate_transformer(rows: int = 17520, seed: int = 0) -> pd.DataFrame:
    """Return hourly loads and temperatures of a transformer, over an hourly index named `date`.

    The same seed gives the same rows, for any length. Columns: active_power_kw, reactive_power_kvar,
    ambient_temperature_c, oil_temperature_c.
    """
    first = pd.Timestamp("2022-01-01")
    most = int((pd.Timestamp(f"{_LAST_YEAR}-12-31") - first) / pd.Timedelta(hours=1))
    if not 1 <= rows <= most:
        raise InputError(f"data.rows={rows}: must be 1 to {most}, the hours from {first.date()} to {_LAST_YEAR}")
    index = pd.date_range(first, periods=rows, freq="h", name="date").as_unit("ns")
    noise = _Noise(rows, seed)
    ambient = _ambient_temperature(index, noise)
    off_day = _off_days(index)
    active = _active_power(index, ambient, off_day, noise)
    reactive = _reactive_power(index, active, ambient, off_day, noise)
    load_factor = np.hypot(active, reactive) / RATED_POWER_KVA
    sensor = noise.white(0.15)
    return pd.DataFrame(
        {
            "active_power_kw": active,
            "reactive_power_kvar": reactive,
            "ambient_temperature_c": ambient,
            "oil_temperature_c": top_oil_temperature(load_factor, ambient) + sensor,
        },
        index=index,
    )


def top_oil_temperature(load_factor: np.ndarray, ambient: np.ndarray) -> np.ndarray:
    """Return the top-oil temperature in °C, shape (N,), by the exponential equation of IEC 60076-7 in hourly steps.

    `load_factor` K (N,) is apparent over rated power, constant over the hour that ends at each time; `ambient` (N,) is
    the air temperature in °C, also constant over that hour. The first row is a steady state.
    """
    loss_share = (1 + load_factor**2 * LOSS_RATIO) / (1 + LOSS_RATIO)
    steady = ambient + TOP_OIL_RISE_K * loss_share**OIL_EXPONENT
    return _lag(steady, K11 * OIL_TIME_CONSTANT_MIN / _STEP_MIN)


def _lag(target: np.ndarray, time_constant_h: float) -> np.ndarray:
    """Return the first-order response to a target that is constant over each hour; the first row is steady."""
    decay = np.exp(-1 / time_constant_h)
    return _filtered(target, 1 - decay, decay, decay * target[0])


def _filtered(values: np.ndarray, gain: float, decay: float, state: float) -> np.ndarray:
    """Return y with y[t] = gain values[t] + decay y[t - 1], beginning with `state` = decay y[-1]."""
    from scipy.signal import lfilter  # imported here: it takes seconds

    filtered, _ = lfilter([gain], [1.0, -decay], values, zi=[state])
    return np.asarray(filtered)


class _Noise:
    """Random series with one stream per call, so that a longer series begins with the shorter one."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows, self.seed, self.calls = rows, seed, 0

    def stream(self) -> np.random.Generator:
        self.calls += 1
        return np.random.default_rng([self.seed, self.calls])

    def white(self, deviation: float) -> np.ndarray:
        return deviation * self.stream().standard_normal(self.rows)

    def correlated(self, deviation: float, time_constant_h: float) -> np.ndarray:
        """Return a stationary first-order autoregression."""
        decay = np.exp(-1 / time_constant_h)
        shocks = self.white(deviation * np.sqrt(1 - decay**2))
        shocks[0] /= np.sqrt(1 - decay**2)
        return _filtered(shocks, 1.0, decay, 0.0)

    def switched(self, mean_hours: float, levels: tuple[float, ...], weights: tuple[float, ...]) -> np.ndarray:
        """Return a level that is redrawn at random times, starting at the first level."""
        stream = self.stream()
        events = stream.random(self.rows) < 1 / mean_hours
        drawn = np.array(levels)[np.searchsorted(np.cumsum(weights)[:-1], self.stream().random(self.rows))]
        last_event = np.maximum.accumulate(np.where(events, np.arange(self.rows), -1))
        return np.where(last_event < 0, levels[0], drawn[last_event])


def _year_wave(index: pd.DatetimeIndex, peak_day: float) -> np.ndarray:
    """Return a cosine of one year with its peak on the given day of the year."""
    day = index.day_of_year.to_numpy() + index.hour.to_numpy() / 24
    return np.asarray(np.cos(2 * np.pi * (day - peak_day) * 24 / _YEAR_H))


def _ambient_temperature(index: pd.DatetimeIndex, noise: _Noise) -> np.ndarray:
    summer = _year_wave(index, peak_day=203)
    daily = np.cos(2 * np.pi * (np.arange(24) - 15) / 24)[index.hour.to_numpy(dtype=np.int64)]
    weather = noise.correlated(3.2, 96) + noise.correlated(0.9, 6)
    clearness = 1 + np.clip(noise.correlated(0.35, 36), -0.8, 0.8)
    return np.asarray(10.0 + 9.0 * summer + (3.2 + 1.2 * summer) * clearness * daily + weather)


def _off_days(index: pd.DatetimeIndex) -> np.ndarray:
    """Mark weekends and holidays: 1 January, 1 May, 25 and 26 December, Good Friday, Easter Monday."""
    days = index.normalize()
    code, unique = pd.factorize(days)
    unique = pd.DatetimeIndex(unique)
    easter = [pd.Timestamp(year, 1, 1) + pd.offsets.Easter() for year in sorted(set(unique.year))]
    moving = [day + pd.Timedelta(days=shift) for day in easter for shift in (-2, 1)]
    fixed = np.isin(unique.month * 100 + unique.day, (101, 501, 1225, 1226))
    return np.asarray((unique.day_of_week >= 5) | fixed | unique.isin(moving))[code]


def _bump(peak_hour: float, width_h: float) -> np.ndarray:
    """Return a bell curve over the 24 hours of the day, shape (24,), periodic at midnight."""
    distance = (np.arange(24) - peak_hour + 12) % 24 - 12
    return np.asarray(np.exp(-0.5 * (distance / width_h) ** 2))


_WORKDAY = 0.26 + 0.10 * _bump(8, 1.6) + 0.15 * _bump(12.5, 3.2) + 0.20 * _bump(19, 2.4)
_OFF_DAY = 0.25 + 0.11 * _bump(12.5, 3.0) + 0.18 * _bump(19.5, 2.6)


def _active_power(index: pd.DatetimeIndex, ambient: np.ndarray, off_day: np.ndarray, noise: _Noise) -> np.ndarray:
    hour = index.hour.to_numpy(dtype=np.int64)
    profile = np.where(off_day, _OFF_DAY[hour], _WORKDAY[hour])
    lighting = 0.05 * (1 + _year_wave(index, peak_day=355)) * _bump(18, 2.5)[hour]
    felt = _lag(ambient, 18)  # buildings follow the weather with a delay
    heating = 0.011 * _soft_excess(15 - felt)
    cooling = 0.010 * _soft_excess(felt - 20) ** 1.3 * (0.4 + _bump(15, 4.5)[hour])
    transfer = noise.switched(480, (0.0, 0.14, 0.24, -0.16), (0.55, 0.2, 0.1, 0.15))  # feeders switched over
    drift = noise.correlated(0.05, _YEAR_H)
    relative = (1 + transfer) * (1 + drift) * (1 + noise.correlated(0.035, 8))
    return np.asarray(RATED_POWER_KVA * (profile + lighting + heating + cooling) * relative + noise.white(2.5))


def _soft_excess(kelvin: np.ndarray) -> np.ndarray:
    """Return max(0, kelvin) with a knee of about 2 K."""
    return np.asarray(2 * np.logaddexp(0, kelvin / 2))


def _reactive_power(
    index: pd.DatetimeIndex, active: np.ndarray, ambient: np.ndarray, off_day: np.ndarray, noise: _Noise
) -> np.ndarray:
    motors = 0.30 + 0.006 * _soft_excess(ambient - 20)  # the share rises with cooling
    hour = index.hour.to_numpy(dtype=np.int64)
    in_service = noise.switched(1440, (1.0, 0.0), (0.85, 0.15))
    capacitor = 50.0 * ((hour >= 7) & (hour < 21) & ~off_day) * in_service
    return np.asarray(14.0 + motors * active * (1 + noise.correlated(0.04, 12)) - capacitor + noise.white(1.5))
