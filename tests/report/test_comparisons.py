"""Planted differences are found, absent ones are not; noise as of real mechanisms, but smaller.

The windows' differences are an autoregression of .98 an hour (.62 after a day, .14 after the horizon of 96 hours),
with a standard deviation of 2.2 % of the error. Between mechanisms trained on all of ETTh1 their autocorrelation
is .5 to .7 after a day and below .2 after 96 hours, their deviation 5 to 7 %: there, 2,785 windows tell differences
of 2.5 to 3.5 % from none.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.evaluation.significance import LEVEL
from forecast.report import comparisons
from forecast.report.comparisons import (
    BETTER,
    NOT_SHOWN,
    NOT_TESTED,
    WORSE,
    Comparison,
    Windows,
    compare_all,
    read_windows,
    seed_spread,
)
from forecast.report.sections import Setting, sections_of
from forecast.runs.read import FinishedRun, read_runs
from tests.report.made import START, WINDOWS, errors, result_of, write_run

SEEDS = range(100)


def setting(*mse: float, share: float | None = None, look_back: int = 512, stride: int = 1) -> Setting:
    results = [result_of(mse=each, seed=seed, share=share) for seed, each in enumerate(mse)]
    for result in results:
        result["data"]["evaluation_stride"] = stride
    return Setting("full", look_back, tuple(FinishedRun("a run", Path(), result, "") for result in results))


def windows(values: np.ndarray, step: int = 1) -> Windows:
    origins = pd.date_range(START, periods=len(values), freq="h")[::step]
    return pd.Series(values[::step], index=origins)


def compare(own: Setting, against: Setting, first: Windows, second: Windows, level: float = LEVEL) -> Comparison:
    """Compare two settings by what their own seeds vary."""
    return comparisons.compare(own, against, first, second, seed_spread([own, against]), level)


def compared(own: np.ndarray, other: np.ndarray) -> Comparison:
    return compare(setting(0.4), setting(0.4), windows(own), windows(other))


@pytest.mark.parametrize(("planted", "verdict"), [(0.97, BETTER), (1.03, WORSE), (1.0, NOT_SHOWN)])
def test_of_100_seeds_at_least_95_say_what_was_planted(planted: float, verdict: str) -> None:
    found = [compared(errors(0.4 * planted, 2 * seed), errors(0.4, 2 * seed + 1)).verdict for seed in SEEDS]
    assert found.count(verdict) >= 95, {each: found.count(each) for each in found}


def test_the_difference_is_in_per_cent_of_the_other_ones_error() -> None:
    found = compared(errors(0.412, 1), errors(0.4, 2))
    low, high = found.range_per_cent
    assert found.per_cent == pytest.approx(3, abs=1)
    assert low < found.per_cent < high
    assert found.interval is not None
    assert (found.interval.count, found.interval.block >= 192) == (WINDOWS, True)


def test_what_is_paired_is_told_apart_that_would_not_be_by_itself() -> None:
    """Windows differ far more among themselves than forecasters do on the same window."""
    own, other = errors(0.388, 1), errors(0.4, 2)
    assert compared(own, other).verdict == BETTER
    assert compared(own, np.roll(other, 1000)).verdict == NOT_SHOWN


def test_only_windows_that_both_have_scored_are_compared() -> None:
    own, other = windows(errors(0.4, 1)), windows(errors(0.4, 2))
    assert not isinstance(other, str)
    found = compare(setting(0.4), setting(0.4), own, other.iloc[300:].iloc[::-1].sort_index())
    assert found.interval is not None
    assert found.interval.count == WINDOWS - 300


def test_what_seeds_vary_widens_the_interval() -> None:
    """By Student's half-width at 99 %: 4.604 of 4 degrees of freedom, three seeds each, and 9.925 of 2, three and one.

    Seeds move .36 by ±.001 and .4 by ±.001: by 1 in 360 and in 400.
    """
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    one_seed = compare(setting(0.36), setting(0.4), own, other).interval
    mixed = compare(setting(0.36), setting(0.399, 0.4, 0.401), own, other).interval
    three = compare(setting(0.359, 0.36, 0.361), setting(0.399, 0.4, 0.401), own, other)
    apart = compare(setting(0.33, 0.36, 0.39), setting(0.37, 0.4, 0.43), own, other)
    same = compare(setting(0.36, 0.36), setting(0.4, 0.4), own, other).interval
    assert one_seed is not None
    assert mixed is not None
    assert three.interval is not None
    assert same == one_seed
    pooled = ((1 / 360**2 + 1 / 400**2) / 2) ** 0.5
    of_three = 4.604 * pooled * ((0.36**2 + 0.4**2) / 3) ** 0.5
    of_one_and_three = 9.925 / 400 * (0.36**2 + 0.4**2 / 3) ** 0.5
    for found, seeds in ((three.interval, of_three), (mixed, of_one_and_three)):
        assert found.mean - found.low == pytest.approx(np.hypot(seeds, one_seed.mean - one_seed.low), rel=1e-3)
    assert (three.verdict, apart.verdict) == (BETTER, NOT_SHOWN)


def test_what_seeds_vary_is_pooled_over_all_settings_and_one_more_seed_alone_changes_nothing() -> None:
    """Of one degree of freedom nothing is known; of all together enough, also for a setting of one seed."""
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    lone = compare(setting(0.36), setting(0.39, 0.41), own, other)
    assert (lone.verdict, lone.interval) == (BETTER, compare(setting(0.36), setting(0.4), own, other).interval)
    settings = [setting(*(level * (1 + step) for step in (-0.01, 0, 0.01))) for level in (0.1, 0.4, 2.0, 7.0)]
    spread = seed_spread([*settings, setting(0.3)])
    assert (spread.freedom, spread.share) == (8, pytest.approx(0.01))
    widened = comparisons.compare(setting(0.36), setting(0.4), own, other, spread).interval
    assert widened is not None
    assert lone.interval is not None
    half = 3.355 * 0.01 * (0.36**2 + 0.4**2) ** 0.5
    assert widened.mean - widened.low == pytest.approx(np.hypot(half, lone.interval.mean - lone.interval.low), rel=1e-3)


def test_of_seeds_that_are_alike_few_are_called_different() -> None:
    """Whatever the number of seeds: overlap as a rule would let a third of pairs of two through."""
    draws = np.random.default_rng(0)
    own, other = windows(errors(0.4, 1, spread=1e-6)), windows(errors(0.4, 2, spread=1e-6))
    for count in (2, 5):
        found = [
            compare(setting(*draws.normal(0.4, 0.01, count)), setting(*draws.normal(0.4, 0.01, count)), own, other)
            for _ in range(100)
        ]
        assert sum(each.verdict != NOT_SHOWN for each in found) <= 4


def test_forecasts_of_the_linear_path_alone_are_no_comparison_of_mechanisms() -> None:
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    both = compare(setting(0.36, share=0), setting(0.4, share=0), own, other)
    assert (both.verdict, both.why) == (NOT_TESTED, "both forecasts are the linear path's")
    assert compare(setting(0.36, share=0), setting(0.4, share=0.1), own, other).verdict == BETTER
    assert compare(setting(0.36, share=0), setting(0.4, share=0, look_back=96), own, other).verdict == BETTER


def test_the_lowest_error_is_compared_at_a_level_at_which_all_hold_together(tmp_path: Path) -> None:
    for place, name in enumerate(("full", "linear", "taylor", "mean", "efficient")):
        series = errors(0.4, place)
        write_run(tmp_path / name, result_of(name, mse=float(series.mean())), series)
    (section,) = sections_of(read_runs([tmp_path]).runs)
    found = compare_all(section)
    assert {each.level for each in found.with_best.values()} == {1 - (1 - LEVEL) / 10}
    assert {each.level for each in found.reference.values()} == {LEVEL}
    for key, each in found.with_best.items():
        usual = found.reference.get(key)
        if usual is not None and usual.against.key == each.against.key:
            assert usual.interval is not None
            assert each.interval is not None
            assert each.interval.high - each.interval.low > 1.1 * (usual.interval.high - usual.interval.low)


def test_the_best_of_many_alike_is_seldom_told_apart_from_the_others() -> None:
    """Chosen on the windows that it is then compared on, it would be in half of such studies."""
    count = 12
    wrong = 0
    for study in range(20):
        level = 1 - (1 - LEVEL) / math.comb(count, 2)
        all_errors = [errors(0.4, 1000 * study + own) for own in range(count)]
        best = min(all_errors, key=lambda each: float(each.mean()))
        found = [
            compare(setting(0.4), setting(0.39), windows(each), windows(best), level)
            for each in all_errors
            if each is not best
        ]
        wrong += any(each.verdict != NOT_SHOWN for each in found)
    assert wrong <= 1


def test_windows_that_were_scored_further_apart_overlap_less() -> None:
    """Every fifth window says nearly as much; a fifth of the overlap makes as many blocks."""
    own, other = errors(0.388, 1), errors(0.4, 2)
    whole, fifth = (
        compare(setting(0.4, stride=step), setting(0.4, stride=step), windows(own, step), windows(other, step))
        for step in (1, 5)
    )
    assert whole.interval is not None
    assert fifth.interval is not None
    assert fifth.interval.block * 5 == pytest.approx(whole.interval.block, rel=0.3)
    assert fifth.range_per_cent == pytest.approx(whole.range_per_cent, abs=0.6)


def test_too_few_windows_are_not_tested_and_it_says_so() -> None:
    found = compared(errors(0.3, 1, count=400), errors(0.4, 2, count=400))
    assert (found.verdict, found.interval) == (NOT_TESTED, None)
    assert found.why == "400 windows that overlap over 96: too few for an interval"
    assert found.per_cent == pytest.approx(0)  # of the results, which say 0.4 here


def test_errors_are_averaged_over_the_seeds_by_window(tmp_path: Path) -> None:
    first, second = errors(0.4, 1, count=50), errors(0.4, 2, count=50)
    second[3] = np.nan  # a window without a target
    folders = [write_run(tmp_path / name, result_of(windows=50), mse) for name, mse in (("a", first), ("b", second))]
    runs = tuple(FinishedRun(folder.name, folder, result_of(windows=50), "") for folder in folders)
    read = read_windows(Setting("full", 512, runs))
    assert not isinstance(read, str)
    np.testing.assert_allclose(read, np.delete((first + second) / 2, 3))


@pytest.mark.parametrize("damage", ["absent", "torn", "other columns", "fewer windows"])
def test_a_file_of_errors_that_cannot_be_used_is_named(tmp_path: Path, damage: str) -> None:
    mse = errors(0.4, 1, count=50)
    folder = write_run(tmp_path / "run", result_of(windows=49 if damage == "fewer windows" else 50), mse)
    path = folder / "errors.parquet"
    match damage:
        case "absent":
            path.unlink()
        case "torn":
            path.write_bytes(path.read_bytes()[:100])
        case "other columns":
            pd.DataFrame({"part": ["test"]}).to_parquet(path)
    run = FinishedRun("run", folder, result_of(windows=49 if damage == "fewer windows" else 50), "")
    read = read_windows(Setting("full", 512, (run,)))
    assert isinstance(read, str)
    assert read.startswith("run: ")
    assert "errors.parquet" in read
    assert compare(setting(0.4), setting(0.3), read, windows(mse)).why == read


def test_settings_that_are_the_linear_path_say_nothing_of_what_seeds_vary_and_are_not_widened_by_it() -> None:
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    path = setting(0.36, 0.36, 0.36, share=0)
    trained = setting(0.396, 0.4, 0.404)
    spread = seed_spread([path, path, path, trained])
    assert (spread.freedom, spread.share) == (2, pytest.approx(0.01))
    assert seed_spread([setting(0.0, 0.0)]).freedom == 0
    alone = compare(setting(0.36), setting(0.4), own, other).interval
    widened = comparisons.compare(path, trained, own, other, spread).interval
    assert alone is not None
    assert widened is not None
    half = 9.925 * 0.01 * 0.4 / 3**0.5
    assert widened.mean - widened.low == pytest.approx(np.hypot(half, alone.mean - alone.low), rel=1e-3)
