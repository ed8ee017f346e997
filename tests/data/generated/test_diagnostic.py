"""Diagnostic series: the stated error is reached by a forecast that knows the rule, and the rule is the only way."""

from typing import Any

import numpy as np
import pytest

from forecast.common.errors import InputError
from forecast.data.datamodule import ForecastData
from forecast.data.generated.diagnostic import (
    AMPLITUDE,
    KINDS,
    Diagnostic,
    best_mse,
    diagnostic_table,
    known_events,
    linear_weights,
    patterns,
    simulate,
)
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from tests.support.small import compose

T, H = 64, 4
NOISE = 0.5


def series(kind: str, **changes: Any) -> Diagnostic:
    given: dict[str, Any] = {
        **{"windows": 4000, "look_back": T, "horizon": H, "types": None, "distance": 0, "noise": NOISE, "seed": 3},
        **({"types": 5} if kind in ("recall", "lag", "selective") else {}),
        **({"types": 5, "horizon": 3 * H, "unit": H} if kind == "events" else {}),
    }
    return Diagnostic(kind, **(given | changes))


def units_of(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    """Return the units of the look-back, shape (S, units, unit)."""
    past = values[:, : setting.look_back]
    return past.reshape(len(past), -1, setting.unit_length)


def asked(setting: Diagnostic, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pattern in the last unit (S,), and for each unit whether it holds that pattern (S, units)."""
    units, known = units_of(setting, values), patterns(setting)
    fits = (units[:, :, None] == known).all(3)  # (S, units, K)
    assert (fits[:, -1].sum(1) == 1).all()
    number = fits[:, -1].argmax(1)
    return number, fits[np.arange(len(values)), :, number]


def recalled(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    _, same = asked(setting, values)
    assert (same.sum(1) == 2).all()  # in the last unit, and once before
    response = units_of(setting, values)[np.arange(len(values)), same.argmax(1) + 1]
    return response / (1 + setting.noise**2)


def events_of(setting: Diagnostic) -> tuple[np.ndarray, np.ndarray]:
    """Return the known patterns of the units of the look-back and of the horizon, each shape (S, units, unit)."""
    known = known_events(setting)
    assert known is not None
    units = known.reshape(setting.windows, -1, setting.unit_length)
    return units[:, : setting.units], units[:, setting.units :]


def answered(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    before, ahead = events_of(setting)
    same = (ahead[:, :, None] == before[:, None]).all(3)  # (S, events, units)
    assert (same.sum(2) == 1).all()  # each event was seen once
    rows = np.arange(len(values))[:, None]
    response = units_of(setting, values)[rows, same.argmax(2)]
    return response.reshape(len(values), -1) / (1 + setting.noise**2)


def lagged(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    number, _ = asked(setting, values)
    units = units_of(setting, values)
    return units[np.arange(len(values)), units.shape[1] - 2 - number]


def selected(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    past = values[:, : setting.look_back]
    after = np.where(past[:, :-1] == 2 * AMPLITUDE, past[:, 1:], 0)
    level = after.sum(1, keepdims=True) / np.sqrt(setting.number_of_types)
    return np.repeat(level, setting.horizon, 1)


def mapped(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    past, future = values[:, : setting.look_back], values[:, setting.look_back :]
    half = len(values) // 2
    return past @ np.linalg.lstsq(past[:half], future[:half], rcond=None)[0]


def levelled(setting: Diagnostic, values: np.ndarray) -> np.ndarray:
    mean = values[:, : setting.look_back].mean(1, keepdims=True)
    shrunk = mean / (1 + setting.noise**2 / setting.look_back)
    return np.repeat(shrunk, setting.horizon, 1)


ORACLES = {
    "recall": recalled,
    "events": answered,
    "lag": lagged,
    "selective": selected,
    "linear": mapped,
    "level": levelled,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_that_knows_the_rule_has_the_best_possible_error(kind: str) -> None:
    setting = series(kind, windows=20_000)
    values = simulate(setting)
    future = values[:, T:]
    half = len(values) // 2  # the map of `linear` is fitted on the other half
    errors = ((ORACLES[kind](setting, values) - future) ** 2)[half:].mean(1)
    allowance = 4 * errors.std() / np.sqrt(len(errors))
    if kind == "linear":
        allowance += best_mse(setting) * T / half  # of the fitted weights
    assert errors.mean() == pytest.approx(best_mse(setting), abs=allowance)
    assert allowance < 0.1 * best_mse(setting)
    assert (future**2).mean() == pytest.approx(1 + NOISE**2, rel=0.06)


LITTLE = [("recall", {}), ("recall", {"distance": 4, "types": 4}), ("recall", {"distance": 8, "types": 4})]
LITTLE += [("events", {}), ("lag", {}), ("selective", {})]


@pytest.mark.parametrize(("kind", "changes"), LITTLE)
def test_a_linear_map_finds_little(kind: str, changes: dict[str, Any]) -> None:
    setting = series(kind, windows=20_000, **changes)
    values = simulate(setting)
    past, future, known = values[:, :T], values[:, T:], known_events(setting)
    inputs = past if known is None else np.hstack([past, known])
    weights = np.linalg.lstsq(inputs[:15_000], future[:15_000], rcond=None)[0]
    errors = ((inputs[15_000:] @ weights - future[15_000:]) ** 2).mean()
    simple = 1 + NOISE**2
    assert (simple - errors) / (simple - best_mse(setting)) < 0.4


@pytest.mark.parametrize("distance", [2, 3, 7, 8])
def test_the_answer_lies_within_the_distances(distance: int) -> None:
    setting = series("recall", distance=distance, types=4)
    _, same = asked(setting, simulate(setting))
    distances = setting.units - same.argmax(1) - 1
    assert set(distances) == set(range(distance, 2 * distance))


def test_without_a_distance_the_answer_lies_anywhere() -> None:
    setting = series("recall")
    _, same = asked(setting, simulate(setting))
    assert set(setting.units - same.argmax(1) - 1) == set(range(2, setting.units))


def test_the_events_of_a_horizon_are_distinct_and_at_every_place() -> None:
    setting = series("events")
    before, ahead = events_of(setting)
    happens = (before != 0).any(2)
    assert (happens.sum(1) == 5).all()
    assert happens.any(0).all()  # every unit of the look-back may have one
    assert (ahead != 0).all()
    assert all(len(np.unique(units, axis=0)) == 3 for units in ahead[:200])
    assert len(np.unique(ahead[:, 0], axis=0)) == 5  # any type may come first


def test_a_unit_without_an_event_is_noise() -> None:
    setting = series("events")
    units = units_of(setting, simulate(setting))
    none = (events_of(setting)[0] == 0).all(2)
    assert units[none].std() == pytest.approx(NOISE, rel=0.02)
    assert units[~none].std() == pytest.approx(np.sqrt(1 + NOISE**2), rel=0.02)


def test_events_are_a_known_covariate_of_the_model() -> None:
    words = ["context_length=64", "horizon=12", "data=diagnostic", "data.windows=40", "data.kind=events"]
    settings = DataSettings.parse(compose(*words, "data.types=5", "data.unit=4")["data"])
    source = load_source(settings)
    assert source.targets == ["value"]
    assert settings.known_covariates == ["event"]
    known = known_events(settings.diagnostic)
    assert known is not None
    np.testing.assert_allclose(source.series.frame["event"].to_numpy(), known.ravel())


def test_a_covariate_that_the_events_do_not_have_is_refused() -> None:
    words = ["context_length=64", "horizon=4", "data=diagnostic", "data.kind=events", "data.types=5"]
    with pytest.raises(InputError, match="other"):
        load_source(DataSettings.parse(compose(*words, "data.known_covariates=[other]")["data"]))


def test_patterns_are_distinct_and_shared_by_all_seeds_of_training() -> None:
    setting = series("recall", types=7)
    assert len(np.unique(patterns(setting), axis=0)) == 7
    assert set(np.unique(patterns(setting))) == {-AMPLITUDE, AMPLITUDE}


def test_patterns_may_be_longer_than_an_integer() -> None:
    setting = series("recall", horizon=96, look_back=96 * 9, types=3)
    assert patterns(setting).shape == (3, 96)
    assert simulate(setting).shape == (4000, 96 * 10)


def test_the_weights_of_the_linear_control_have_sum_and_norm_1() -> None:
    weights = linear_weights(series("linear"))
    np.testing.assert_allclose(weights.sum(0), 1)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1)


def test_windows_depend_on_the_seed_alone() -> None:
    setting = series("recall")
    assert np.array_equal(simulate(setting), simulate(setting))
    assert not np.array_equal(simulate(setting), simulate(series("recall", seed=4)))


@pytest.mark.parametrize(
    ("kind", "changes", "why"),
    [
        ("recall", {"look_back": 63}, "context_length 63: must be a multiple of the horizon, 4"),
        ("recall", {"types": 8}, "data.types=8: this look-back has room for 1 to 7"),
        ("recall", {"types": 8, "distance": 3, "look_back": 68}, "data.types=8: this look-back has room for 1 to 7"),
        ("recall", {"types": 17, "look_back": 400}, "data.types=17: 4 steps have only 16 patterns"),
        ("recall", {"distance": 9}, "data.distance=9: must be 0, or from 2 to 8 with data.kind=recall"),
        ("recall", {"unit": 2}, "data.unit=2: data.kind=recall has one unit of horizon: leave it null"),
        ("events", {"unit": 5}, "data.unit=5: must divide the horizon, 12"),
        ("events", {"look_back": 66}, "context_length 66: must be a multiple of the unit, 4"),
        ("events", {"types": 2}, "data.types=2: this look-back has room for 3 to 16"),
        ("events", {"types": 17, "look_back": 68}, "data.types=17: 4 steps have only 16 patterns"),
        ("lag", {"distance": 3}, "data.distance=3: must be 0, or from 2 to 8 with data.kind=recall"),
        ("lag", {"types": 16}, "data.types=16: this look-back has room for 2 to 15"),
        ("lag", {"types": 1}, "data.types=1: this look-back has room for 2 to 15"),
        ("selective", {"types": 9}, "data.types=9: this look-back has room for 2 to 8"),
        ("linear", {"types": 4}, "data.types=4: data.kind=linear has none: leave it null"),
    ],
)
def test_an_impossible_series_is_refused(kind: str, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        simulate(series(kind, **changes))
    assert str(caught.value) == why


def test_a_split_without_a_window_is_refused() -> None:
    config = compose("context_length=64", "horizon=4", "data=diagnostic", "data.windows=3", "data.types=3")
    settings = DataSettings.parse(config["data"])
    with pytest.raises(InputError, match=r"^data.windows: too few for a validation split"):
        ForecastData(
            load_source(settings), settings.split, context_length=64, horizon=4, batch_size=8, evaluation_batch_size=8,
            seed=1,
        )  # fmt: skip


def test_the_model_reads_whole_windows_only() -> None:
    """Each window of training, validation and test is one generated window, as `simulate` returns it."""
    words = ["context_length=64", "horizon=4", "data=diagnostic", "data.windows=40", "data.types=3"]
    config = compose(*words)
    settings = DataSettings.parse(config["data"])
    data = ForecastData(
        load_source(settings), settings.split, context_length=64, horizon=4, batch_size=8, evaluation_batch_size=8,
        seed=1,
    )  # fmt: skip
    table, origins = diagnostic_table(settings.diagnostic)
    assert len(table) == 40 * 68
    assert list(origins) == [64 + 68 * window for window in range(40)]
    seen = [int(start) + 64 for part in data.parts.values() for start in part.starts]
    assert set(seen) <= set(origins)
    assert len(seen) == len(set(seen)) >= 38  # a window across two splits is left out
    values = simulate(settings.diagnostic)
    batch = data.parts["train"].batch(data.parts["train"].starts[:1] * 0)
    first = data.scaler.inverse(batch.past[0].double().numpy(), ["value"])
    np.testing.assert_allclose(first[:, 0], values[0, :64], atol=1e-5)


def test_noise_that_hides_the_rule_is_refused_but_not_of_a_control() -> None:
    with pytest.raises(InputError, match=r"data.noise=1.5: must be at most 1"):
        series("recall", noise=1.5).check()
    series("recall", noise=1.0).check()
    series("level", noise=1.5).check()
