"""Planted differences are found, absent ones are not; noise as of real mechanisms, but smaller.

The windows' differences are an autoregression of .98 an hour (.62 after a day, .14 after the horizon of 96 hours),
with a standard deviation of 2.2 % of the error. Between mechanisms trained on all of ETTh1 their autocorrelation
is .5 to .7 after a day and below .2 after 96 hours, their deviation 5 to 7 %: there, 2,785 windows tell differences
of 2.5 to 3.5 % from none.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.reporting.comparisons import BETTER, NOT_SHOWN, NOT_TESTED, WORSE, Comparison, compare
from forecast.reporting.reading import FinishedRun
from forecast.reporting.settings import Setting
from forecast.reporting.windows import Windows, read_windows, stride_of
from tests.reporting.made import START, WINDOWS, errors, result_of, write_run

SEEDS = range(100)


def setting(*mse: float, folder: Path = Path()) -> Setting:
    runs = [FinishedRun("a run", folder, result_of(mse=each, seed=seed), "") for seed, each in enumerate(mse)]
    return Setting("full", 512, tuple(runs))


def windows(values: np.ndarray, step: int = 1) -> Windows:
    origins = pd.date_range(START, periods=len(values), freq="h")[::step]
    return Windows(pd.Series(values[::step], index=origins))


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
    assert other.errors is not None
    found = compare(setting(0.4), setting(0.4), own, Windows(other.errors.iloc[300:].iloc[::-1].sort_index()))
    assert found.interval is not None
    assert found.interval.count == WINDOWS - 300


def test_seeds_that_overlap_are_no_difference_however_narrow_the_interval() -> None:
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    apart = compare(setting(0.35, 0.37), setting(0.39, 0.41), own, other)
    overlapping = compare(setting(0.32, 0.40), setting(0.39, 0.41), own, other)
    one_seed = compare(setting(0.40), setting(0.39, 0.41), own, other)
    assert [each.verdict for each in (apart, overlapping, one_seed)] == [BETTER, NOT_SHOWN, BETTER]
    assert overlapping.why == "their seeds overlap"


def test_windows_that_were_scored_further_apart_overlap_less() -> None:
    """Every fifth window says nearly as much; a fifth of the overlap makes as many blocks."""
    own, other = errors(0.388, 1), errors(0.4, 2)
    whole, fifth = (compare(setting(0.4), setting(0.4), windows(own, step), windows(other, step)) for step in (1, 5))
    assert whole.interval is not None
    assert fifth.interval is not None
    assert fifth.interval.block * 5 == pytest.approx(whole.interval.block, rel=0.3)
    assert fifth.range_per_cent == pytest.approx(whole.range_per_cent, abs=0.6)


def test_too_few_windows_are_not_tested_and_it_says_so() -> None:
    found = compared(errors(0.3, 1, count=400), errors(0.4, 2, count=400))
    assert (found.verdict, found.interval) == (NOT_TESTED, None)
    assert found.why == "400 windows that overlap over 96: too few for an interval"
    assert found.per_cent == pytest.approx(0)  # of the results, which say 0.4 here


@pytest.mark.parametrize(
    ("frequency", "gap", "stride"), [("h", "h", 1), ("15min", "75min", 5), ("D", "D", 1), ("MS", "MS", 1)]
)
def test_the_stride_is_read_off_the_origins(frequency: str, gap: str, stride: int) -> None:
    origins = pd.date_range(START, periods=50, freq=gap).delete([7, 8, 9])
    assert stride_of(origins, frequency) == stride
    assert stride_of(origins[:1], frequency) == 1


def test_errors_are_averaged_over_the_seeds_by_window(tmp_path: Path) -> None:
    first, second = errors(0.4, 1, count=50), errors(0.4, 2, count=50)
    second[3] = np.nan  # a window without a target
    folders = [write_run(tmp_path / name, result_of(windows=50), mse) for name, mse in (("a", first), ("b", second))]
    runs = tuple(FinishedRun(folder.name, folder, result_of(windows=50), "") for folder in folders)
    read = read_windows(Setting("full", 512, runs))
    assert read.errors is not None
    np.testing.assert_allclose(read.errors, np.delete((first + second) / 2, 3))


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
    assert read.errors is None
    assert read.why.startswith("run: ")
    assert "errors.parquet" in read.why
    assert compare(setting(0.4), setting(0.3), read, windows(mse)).why == read.why
