"""The range of training, and warnings about an input outside it."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.training_range import CLEAR, TrainingRange

LENGTH = 20
VALUES = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 100.0] + [0.0, 1e6]


@pytest.fixture(scope="module")
def limits() -> TrainingRange:
    return TrainingRange.fit(VALUES, ["a", "b"], LENGTH)


def test_limits_are_those_of_values_and_look_backs(limits: TrainingRange) -> None:
    windows = np.lib.stride_tricks.sliding_window_view(VALUES, LENGTH, axis=0)
    for low, high, values in (
        (limits.lowest, limits.highest, VALUES),
        (limits.lowest_level, limits.highest_level, windows.mean(-1)),
        (limits.lowest_spread, limits.highest_spread, windows.std(-1)),
    ):
        np.testing.assert_allclose(low, values.min(0), rtol=1e-9)
        np.testing.assert_allclose(high, values.max(0), rtol=1e-9)


def test_look_backs_of_training_give_no_warning(limits: TrainingRange) -> None:
    assert all(limits.warnings(VALUES[start : start + LENGTH]) == [] for start in range(180))


def test_each_departure_has_its_own_words_and_names_its_column(limits: TrainingRange) -> None:
    context = VALUES[:LENGTH].copy()
    high = context.copy()
    high[3, 1] = 1e6 + 1e3
    first, *_ = limits.warnings(high)
    assert first.startswith("the input left the range of training: 'b' reaches 1.001e+06, above the ")
    level = context + np.array([2.0, 0.0])
    assert any(
        text.startswith("the level of the look-back (its mean) has drifted: 'a'") for text in limits.warnings(level)
    )
    calm = context.mean(0) + 0.01 * (context - context.mean(0))
    (text,) = limits.warnings(calm)
    assert text.startswith("the spread of the look-back (its standard deviation) has drifted: 'a' reaches 0.0")
    assert "'b' reaches" in text


def test_filled_values_do_not_count(limits: TrainingRange) -> None:
    observed = np.ones(VALUES.shape, dtype=bool)
    observed[50:60, 0] = False
    filled = VALUES.copy()
    filled[50:60, 0] = 1e9
    other = TrainingRange.fit(filled, ["a", "b"], LENGTH, observed)
    assert other.highest[0] == np.delete(VALUES[:, 0], range(50, 60)).max()
    context = VALUES[:LENGTH].copy()
    context[5, 0] = 1e9
    measured = np.ones(context.shape, dtype=bool)
    measured[5, 0] = False
    assert limits.warnings(context, measured) == []
    assert limits.warnings(context) != []


def test_a_column_without_a_value_gives_no_warning(limits: TrainingRange) -> None:
    measured = np.ones((LENGTH, 2), dtype=bool)
    measured[:, 0] = False
    assert limits.warnings(VALUES[:LENGTH], measured) == []


def test_more_than_three_columns_are_counted() -> None:
    limits = TrainingRange.fit(np.repeat(VALUES[:, :1], 5, 1), list("abcde"), LENGTH)
    first, *_ = limits.warnings(np.full((LENGTH, 5), 50.0))
    assert first.endswith("; and 2 more columns")


def test_limits_survive_the_manifest_and_damage_is_refused(limits: TrainingRange) -> None:
    copy = TrainingRange.from_dict(json.loads(json.dumps(limits.to_dict())))
    np.testing.assert_array_equal(copy.highest_spread, limits.highest_spread)
    for change in ({"columns": ["a"]}, {"lowest": [0.0, None]}):
        with pytest.raises((ValueError, TypeError)):
            TrainingRange.from_dict({**limits.to_dict(), **change})


@pytest.mark.parametrize("values", [np.full(400, 0.1), np.full(400, -3.3), np.tile(np.sin(np.arange(LENGTH)), 20)])
def test_a_column_that_repeats_itself_gives_no_warning(values: np.ndarray) -> None:
    limits = TrainingRange.fit(values[:, None], ["a"], LENGTH)
    assert limits.warnings(values[-LENGTH:, None]) == []
    other = values[-LENGTH:, None] * 1.01
    assert limits.warnings(other) != []


def test_the_limits_take_little_memory_beside_the_table() -> None:
    values = np.random.default_rng(0).normal(size=(20_000, 25))
    tracemalloc.start()
    try:
        TrainingRange.fit(values, [f"c{place}" for place in range(25)], 96)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < values.nbytes


@pytest.mark.parametrize("rows", [5, 20, 21, 40, 61, 199])
@pytest.mark.parametrize("share_empty", [0.0, 0.3])
def test_level_and_spread_are_those_of_every_look_back(rows: int, share_empty: float) -> None:
    generator = np.random.default_rng(rows)
    values = generator.normal(size=(rows, 1)) + 7
    observed = generator.random((rows, 1)) >= share_empty
    found = TrainingRange.fit(values, ["a"], LENGTH, observed)
    masked = np.where(observed, values, np.nan)[:, 0]
    looks = [masked[start : start + LENGTH] for start in range(max(1, rows - LENGTH + 1))]
    levels, spreads = [np.nanmean(look) for look in looks], [np.nanstd(look) for look in looks]
    expected = [min(levels), max(levels), min(spreads), max(spreads)]
    limits = [found.lowest_level, found.highest_level, found.lowest_spread, found.highest_spread]
    np.testing.assert_allclose(np.concatenate(limits), expected, rtol=1e-9)


def test_one_huge_value_leaves_the_spread_of_the_other_look_backs() -> None:
    values = VALUES[:, :1].copy()
    plain = TrainingRange.fit(values, ["a"], LENGTH)
    values[50] = 1e12
    np.testing.assert_allclose(TrainingRange.fit(values, ["a"], LENGTH).lowest_spread, plain.lowest_spread, rtol=0.2)


def test_a_counter_that_pauses_keeps_the_spread_of_its_pause() -> None:
    steps = np.where(np.arange(2000) < 1000, 1e6, 0.0)
    values = (steps.cumsum() + np.random.default_rng(1).normal(size=2000))[:, None]
    pause = np.lib.stride_tricks.sliding_window_view(values[1000:, 0], LENGTH).std(-1)
    np.testing.assert_allclose(TrainingRange.fit(values, ["a"], LENGTH).lowest_spread, pause.min(), rtol=1e-6)


# --- known covariates

KNOWN = TrainingRange.fit(np.array([[0.0, 5.0], [10.0, 5.0]] * 30), ["k", "constant"], LENGTH)


def test_a_known_number_of_the_horizon_outside_the_range_is_warned_of() -> None:
    assert KNOWN.horizon_warnings(np.array([[3.0, 5.0], [10.9, 5.0]])) == []
    (text,) = KNOWN.horizon_warnings(np.array([[3.0, 5.0], [-40.0, 5.0]]))
    start = "a known covariate of the horizon left the range of training: 'k' reaches -40"
    assert text == f"{start}, below the 0 to 10 of training"
    assert KNOWN.horizon_warnings(np.array([[3.0, 5.0], [19.0, 5.0]]), CLEAR) == []


@pytest.mark.parametrize(
    ("column", "accepted", "refused"), [("k", [-94.0, 104.0], [-9999.0, 106.0, 5000.0]), ("constant", [6.0], [5000.0])]
)
def test_a_known_number_ten_widths_off_is_refused_by_column_and_date(
    column: str, accepted: list[float], refused: list[float]
) -> None:
    def table(value: float) -> pd.DataFrame:
        frame = pd.DataFrame({"k": 5.0, "constant": 5.0}, index=pd.date_range("2024-01-01", periods=3, freq="D"))
        frame.loc["2024-01-01", column] = np.nan
        frame.loc["2024-01-02", column] = value
        return frame

    for value in accepted:
        KNOWN.refuse_far(table(value), "a.csv")
    for value in refused:
        with pytest.raises(
            InputError, match=rf"^a.csv, column '{column}', 2024-01-02 00:00:00: {value:g} is .* widths"
        ):
            KNOWN.refuse_far(table(value), "a.csv")


def test_limits_of_some_columns_leave_out_those_without_limits() -> None:
    assert KNOWN.of(["constant", "other"]).columns == ("constant",)


@pytest.mark.parametrize("length", [1, 7, 24, 300])
def test_a_column_computed_in_pieces_has_the_same_limits(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    values, observed = random.standard_normal((200, 2)).cumsum(0) + 1e6, random.random((200, 2)) > 0.3
    whole = TrainingRange.fit(values, ["a", "b"], length, observed).to_dict()
    monkeypatch.setattr("forecast.data.training_range.PIECE", 50)
    assert TrainingRange.fit(values, ["a", "b"], length, observed).to_dict() == whole
