"""Known covariates that contain the answer are refused, also behind gaps and spikes; others are not."""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.target_copies import check_copies, check_parts

SIGNAL = np.random.default_rng(1).standard_normal(200).cumsum()


@pytest.mark.parametrize("shift", [-30, -1, 0, 1, 11])
@pytest.mark.parametrize("factor", [1.0, -2.5])
def test_a_target_moved_by_less_than_the_horizon_is_a_copy(shift: int, factor: float) -> None:
    moved = np.roll(SIGNAL, shift) * factor + 7
    with pytest.raises(InputError, match=r"column 'x' is the target 'y'.*contains the answer") as caught:
        check_copies(pd.DataFrame({"x": moved.round(3)}), pd.DataFrame({"y": SIGNAL}), horizon=12)
    words = {-30: "30 steps later", -1: "1 step later", 0: "'y', so", 1: "1 step before", 11: "11 steps before"}
    assert words[shift] in str(caught.value)


def test_a_copy_with_a_season_is_found_unmoved() -> None:
    hour = np.arange(2000)
    day = np.maximum(0, np.sin(hour * np.pi / 12)) * (1 + np.sin(hour * np.pi / 2000)).clip(0)
    with pytest.raises(InputError, match="'x' is the target 'y', so"):
        check_copies(pd.DataFrame({"x": day}), pd.DataFrame({"y": day}), horizon=24)


def test_rare_changes_of_independent_columns_make_no_copy_and_a_moved_column_of_rare_changes_is_one() -> None:
    generator = np.random.default_rng(5)
    sales = generator.poisson(0.05, (700, 10)).astype(float)
    promotion = (generator.random((700, 3)) < 0.05).astype(float)
    targets = pd.DataFrame(sales, columns=[f"sku{number}" for number in range(10)])
    check_copies(pd.DataFrame(promotion, columns=list("abc")), targets, horizon=28)
    with pytest.raises(InputError, match="'x' is the target 'sku3' 5 steps later"):
        check_copies(pd.DataFrame({"x": np.roll(sales[:, 3], -5)}), targets, horizon=28)


def test_few_shared_rows_make_no_copy() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        one, other = generator.standard_normal((2, 400)).cumsum(1).round()
        check_copies(pd.DataFrame({"x": one}), pd.DataFrame({"y": other}), horizon=398)


@pytest.mark.parametrize("shift", [12, 40])
def test_a_target_of_a_horizon_before_is_known(shift: int) -> None:
    before = np.concatenate([np.random.default_rng(4).standard_normal(shift), SIGNAL[:-shift]])
    check_copies(pd.DataFrame({"x": before}), pd.DataFrame({"y": SIGNAL}), horizon=12)


def test_a_noisy_forecast_of_the_target_and_constants_are_no_copies() -> None:
    noisy = SIGNAL + 0.1 * np.random.default_rng(2).standard_normal(200)
    known = pd.DataFrame({"noisy": noisy, "constant": 1.0})
    check_copies(known, pd.DataFrame({"y": SIGNAL, "flat": 2.0}), horizon=12)


def test_only_the_last_rows_of_a_long_table_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = np.concatenate([np.random.default_rng(3).standard_normal(100), np.roll(SIGNAL, -2)[100:]])
    frames = pd.DataFrame({"x": moved}), pd.DataFrame({"y": SIGNAL})
    check_copies(*frames, horizon=12)  # half of it is a copy
    monkeypatch.setattr("forecast.data.target_copies.MOST_COMPARED", 90)
    with pytest.raises(InputError, match="2 steps later"):
        check_copies(*frames, horizon=12)


def test_values_that_were_not_measured_hide_no_copy() -> None:
    generator = np.random.default_rng(6)
    load = 10 * np.sin(np.arange(4000) * np.pi / 12) + generator.standard_normal(4000)
    gaps = load.copy()
    gaps[generator.choice(4000, 40, replace=False)] = np.nan
    for shift, words in ((0, "'y', so"), (-24, "24 steps later")):
        with pytest.raises(InputError, match=words):
            check_copies(pd.DataFrame({"x": np.roll(load, shift)}), pd.DataFrame({"y": gaps}), horizon=48)
        with pytest.raises(InputError, match=words):
            check_copies(pd.DataFrame({"x": np.roll(gaps, shift)}), pd.DataFrame({"y": load}), horizon=48)


def test_a_single_changed_value_hides_no_copy() -> None:
    load = np.random.default_rng(7).standard_normal(4000).cumsum()
    changed = load.copy()
    changed[2000] = changed[1999]
    with pytest.raises(InputError, match="24 steps later"):
        check_copies(pd.DataFrame({"x": np.roll(changed, -24)}), pd.DataFrame({"y": load}), horizon=48)


@pytest.mark.parametrize("place", [5, 2000, 3980, 3995])
@pytest.mark.parametrize("height", [20.0, 1000.0])
@pytest.mark.parametrize("shift", [-95, -24, -1, 3])
def test_a_spike_hides_no_copy(shift: int, height: float, place: int) -> None:
    load = np.random.default_rng(8).standard_normal(4000)
    load[place] += height
    with pytest.raises(InputError, match="contains the answer"):
        check_copies(pd.DataFrame({"x": np.roll(load, shift)}), pd.DataFrame({"y": load}), horizon=96)


def test_two_columns_with_a_common_spike_are_no_copies() -> None:
    one, other = np.random.default_rng(9).standard_normal((2, 4000))
    one[100] += 1e6
    other[100] += 1e6
    check_copies(pd.DataFrame({"x": one}), pd.DataFrame({"y": other}), horizon=96)


# --- parts of a target


def counts(rows: int = 600, columns: int = 3) -> pd.DataFrame:
    generator = np.random.default_rng(11)
    day = 1 + np.sin(np.arange(rows) * np.pi / 12)[:, None]
    return pd.DataFrame(generator.poisson(20 * day, (rows, columns)) + 1.0, columns=list("abcdefgh")[:columns])


def check(known: pd.DataFrame, target: pd.Series, others: pd.DataFrame | None = None, horizon: int = 12) -> list[str]:
    """Check parts as a training does, copies first."""
    check_copies(known, target.to_frame("y"), horizon)
    return check_parts(known, target.to_frame("y"), known[[]] if others is None else others, horizon)


@pytest.mark.parametrize(
    "combine",
    [
        lambda parts: parts["a"] + parts["b"],
        lambda parts: parts["a"] - parts["b"],
        lambda parts: (0.3 * parts["a"] + parts["b"]).round(1) + 400,
        lambda parts: parts["a"] * parts["b"],
        lambda parts: parts["a"] / parts["b"],
        lambda parts: (parts["a"] + parts["b"]).shift(-5),
        lambda parts: (parts["a"] + parts["b"]).shift(3),
        lambda parts: (parts["a"] + parts["b"]).where(np.arange(len(parts)) != 450, 9e5),
        lambda parts: (parts["a"] + parts["b"]).where(np.arange(len(parts)) % 50 > 2),
    ],
)
def test_known_columns_that_make_up_the_target_are_refused_by_name(
    combine: Callable[[pd.DataFrame], pd.Series],
) -> None:
    parts = counts()
    with pytest.raises(InputError, match=r"columns 'a', 'b' together determine the target 'y'"):
        check(parts, combine(parts))


def test_the_meter_whose_difference_is_the_target_is_refused() -> None:
    parts = counts(columns=1)
    with pytest.raises(InputError, match=r"column 'meter' determines the target 'y'"):
        check(pd.DataFrame({"meter": parts["a"].cumsum()}), parts["a"])


def test_parts_are_found_among_more_columns_than_rows() -> None:
    generator = np.random.default_rng(12)
    known = pd.DataFrame(generator.poisson(20, (57, 300)) + 0.0, columns=[f"k{place}" for place in range(300)])
    with pytest.raises(InputError, match=r"columns 'k7', 'k200' together determine the target 'y'"):
        check(known, known["k7"] + 2 * known["k200"])


def test_columns_that_explain_most_of_a_target_are_no_parts_of_it() -> None:
    parts = counts(columns=8)
    noise = np.random.default_rng(13).standard_normal(len(parts))
    assert check(parts, parts["a"] + parts["b"] + 2 * noise) == []
    assert check(parts, parts["a"].shift(-12) + parts["b"].shift(-12), horizon=12) == []  # a horizon later
    assert check(parts.iloc[:50], pd.Series(noise[:50])) == []


def test_a_part_that_makes_up_the_target_with_another_column_is_noted() -> None:
    parts = counts()
    (note,) = check(parts[["a", "c"]], parts["a"] + parts["b"], parts[["b"]])
    assert note.startswith("'a': a part of the target 'y', which it makes up with other columns")
    assert check(parts[["c"]], parts["a"] + parts["b"], parts[["a", "b"]]) == []


def test_many_columns_and_targets_are_compared_in_seconds() -> None:
    """Pair by pair, 350 series with a known column each took minutes."""
    known, targets = (pd.DataFrame(np.random.default_rng(seed).standard_normal((57, 150))) for seed in (14, 15))
    began = time.process_time()
    check_copies(known, targets, horizon=12)
    check_parts(known, targets, known.iloc[:, :0], horizon=12)
    assert time.process_time() - began < 8
