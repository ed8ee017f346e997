"""Planted differences are significant and absent ones are not; the noise resembles real mechanisms but is smaller.

The differences between windows follow an autoregression of 0.98 per hour: 0.62 after a day, 0.14 after the horizon of
96 hours. Their standard deviation is 2.2 % of the error. Between mechanisms trained on all of ETTh1, the
autocorrelation is 0.5 to 0.7 after a day and below 0.2 after 96 hours, and the standard deviation is 5 to 7 %. There,
2,785 windows make differences of 2.5 to 3.5 % significant.
"""

import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtrit

from forecast.evaluation.significance import LEVEL
from forecast.report import comparisons
from forecast.report.comparisons import (
    BETTER,
    NOT_SHOWN,
    NOT_TESTED,
    ONE_SEED,
    UNDECIDED,
    WORSE,
    Comparison,
    SeedSpread,
    Windows,
    compare_all,
    read_windows,
    seed_spread,
    seed_spreads,
)
from forecast.report.groups import Setting, groups_of
from forecast.report.phrases import quality_words
from forecast.report.tables import FoldingTable, _method
from forecast.runs.read import FinishedRun, read_runs
from tests.report.conftest import Made
from tests.report.made import START, WINDOWS, errors, result_of, write_run

SEEDS = range(100)


def setting(*mse: float, mixing_weight: float | None = None, look_back: int = 512, stride: int = 1) -> Setting:
    results = [result_of(mse=each, seed=seed, mixing_weight=mixing_weight) for seed, each in enumerate(mse)]
    for result in results:
        result["data"]["evaluation_stride"] = stride
    return Setting("full", look_back, tuple(FinishedRun("a run", Path(), result, "") for result in results))


def windows(values: np.ndarray, step: int = 1) -> Windows:
    origins = pd.date_range(START, periods=len(values), freq="h")[::step]
    return pd.Series(values[::step], index=origins)


def compare(own: Setting, against: Setting, first: Windows, second: Windows, level: float = LEVEL) -> Comparison:
    """Compare two settings with the variance between their own seeds."""
    return comparisons.compare(own, against, first, second, seed_spreads([own, against]), level)


def compared(own: np.ndarray, other: np.ndarray) -> Comparison:
    """Compare two settings whose seeds do not vary."""
    return comparisons.compare(setting(0.4), setting(0.4), windows(own), windows(other), {512: SeedSpread(0.0, 8)})


@pytest.mark.parametrize(("planted", "verdict"), [(0.97, BETTER), (1.03, WORSE), (1.0, NOT_SHOWN)])
def test_at_least_95_of_100_seeds_find_the_planted_difference(planted: float, verdict: str) -> None:
    verdicts = [compared(errors(0.4 * planted, 2 * seed), errors(0.4, 2 * seed + 1)).verdict for seed in SEEDS]
    assert verdicts.count(verdict) >= 95, Counter(verdicts)


def test_the_difference_is_in_per_cent_of_the_other_error() -> None:
    pair = compared(errors(0.412, 1), errors(0.4, 2))
    low, high = pair.range_per_cent
    assert pair.per_cent == pytest.approx(3, abs=1)
    assert low < pair.per_cent < high
    assert pair.interval is not None
    assert (pair.interval.count, pair.interval.block >= 192) == (WINDOWS, True)


def test_pairing_makes_a_difference_significant() -> None:
    """Windows differ far more from each other than forecasters do on the same window."""
    own, other = errors(0.388, 1), errors(0.4, 2)
    assert compared(own, other).verdict == BETTER
    assert compared(own, np.roll(other, 1000)).verdict == NOT_SHOWN


def test_only_windows_that_both_settings_scored_are_compared() -> None:
    own, other = windows(errors(0.4, 1)), windows(errors(0.4, 2))
    assert not isinstance(other, str)
    pair = compare(setting(0.4), setting(0.4), own, other.iloc[300:].iloc[::-1].sort_index())
    assert pair.interval is not None
    assert pair.interval.count == WINDOWS - 300


def test_variance_between_seeds_widens_the_interval() -> None:
    """Student's t at 99 % is 4.604 with 4 degrees of freedom (three seeds each) and 9.925 with 2 (three and one).

    The seeds vary 0.36 and 0.4 by ±0.001, which is 1 in 360 and 1 in 400.
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
    for interval, seeds in ((three.interval, of_three), (mixed, of_one_and_three)):
        assert interval.mean - interval.low == pytest.approx(np.hypot(seeds, one_seed.mean - one_seed.low), rel=1e-3)
    assert (three.verdict, apart.verdict) == (BETTER, NOT_SHOWN)


def test_variance_between_seeds_is_pooled_over_settings() -> None:
    """One degree of freedom is too few; pooled ones also serve a setting with one seed."""
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    lone = compare(setting(0.36), setting(0.39, 0.41), own, other)
    assert (lone.verdict, lone.interval) == (ONE_SEED, compare(setting(0.36), setting(0.4), own, other).interval)
    settings = [setting(*(level * (1 + step) for step in (-0.01, 0, 0.01))) for level in (0.1, 0.4, 2.0, 7.0)]
    spread = seed_spread([*settings, setting(0.3)])
    assert (spread.freedom, spread.share) == (8, pytest.approx(0.01))
    widened = comparisons.compare(setting(0.36), setting(0.4), own, other, {512: spread}).interval
    assert widened is not None
    assert lone.interval is not None
    half = 3.355 * 0.01 * (0.36**2 + 0.4**2) ** 0.5
    assert widened.mean - widened.low == pytest.approx(np.hypot(half, lone.interval.mean - lone.interval.low), rel=1e-3)


def test_one_seed_of_each_setting_gives_no_verdict() -> None:
    """Two runs of one mechanism may differ by as much, since the seeds differ."""
    for first, second in ((0.36, 0.4), (0.4, 0.36)):
        pair = compare(setting(first), setting(second), windows(errors(first, 1)), windows(errors(second, 2)))
        assert (pair.verdict, pair.is_undecided, pair.of_runs) == (ONE_SEED, True, True)
        assert quality_words(pair).endswith(" %), true of these two runs only")
    alike = compare(setting(0.4), setting(0.4), windows(errors(0.4, 1)), windows(errors(0.4, 2)))
    assert (alike.verdict, alike.is_undecided) == (NOT_SHOWN, False)
    mixed = compare(setting(0.36), setting(0.39, 0.41), windows(errors(0.36, 1)), windows(errors(0.4, 2)))
    assert quality_words(mixed).endswith(" %), true of these runs only")


def test_a_difference_that_lasts_too_long_is_not_decided() -> None:
    """Both series are one slow wave apart: a fifth of the windows is shorter than its memory."""
    other = errors(0.4, 2, count=1000)
    own = other + 0.04 + 0.015 * np.cos(np.linspace(0, 2 * np.pi, 1000))
    pair = compared(own, other)
    assert pair.interval is not None
    assert (pair.interval.low > 0, pair.interval.lasting, pair.verdict) == (True, True, UNDECIDED)
    assert re.search(r"higher error than .* %, perhaps too narrow\), not decided$", quality_words(pair))


def test_each_look_back_has_its_own_variance_between_seeds() -> None:
    """Pooled over both, the noisy one would get too narrow an interval and the other too wide a one."""
    own, other = windows(errors(0.4, 1)), windows(errors(0.4, 2))
    step = {720: 0.001, 2880: 0.03}
    settings = {
        length: [setting(*(0.4 * (1 + share * part) for part in (-1, 0, 1)), look_back=length) for _ in range(6)]
        for length, share in step.items()
    }
    seeds = seed_spreads([each for group in settings.values() for each in group])
    assert {length: (spread.freedom, round(spread.share, 9)) for length, spread in seeds.items()} == {
        length: (12, share) for length, share in step.items()
    }
    plain = compare(setting(0.4), setting(0.4), own, other).interval
    assert plain is not None

    def half(first: int, second: int) -> float:
        pair = settings[first][0], settings[second][1]
        interval = comparisons.compare(*pair, own, other, seeds).interval
        assert interval is not None
        return float(((interval.mean - interval.low) ** 2 - (plain.mean - plain.low) ** 2) ** 0.5)

    for length, share in step.items():
        assert half(length, length) == pytest.approx(3.0545 * share * 0.4 * (2 / 3) ** 0.5, rel=1e-3)
    one, two = ((0.4 * share) ** 2 / 3 for share in step.values())
    freedom = (one + two) ** 2 / (one**2 / 12 + two**2 / 12)
    assert half(720, 2880) == pytest.approx(float(stdtrit(freedom, 0.995)) * (one + two) ** 0.5, rel=1e-3)
    few = seed_spreads([setting(0.4, 0.41, look_back=720), *settings[2880]])
    assert (few[720].freedom, few[2880].freedom) == (13, 12)  # one degree of freedom is too few
    assert "pooled over all settings of a look-back." in _method(seeds)[0]
    both = seed_spreads([setting(0.4, 0.41, look_back=length) for length in step])  # too few at either, enough in all
    assert "pooled over all settings. It widens" in _method(both)[0]


@pytest.mark.slow
def test_settings_with_equal_seeds_are_rarely_called_different() -> None:
    """Judged by overlapping ranges instead, a third of the pairs with two seeds would differ."""
    draws = np.random.default_rng(0)
    own, other = windows(errors(0.4, 1, spread=1e-6)), windows(errors(0.4, 2, spread=1e-6))
    for count in (2, 5):
        pairs = [
            compare(setting(*draws.normal(0.4, 0.01, count)), setting(*draws.normal(0.4, 0.01, count)), own, other)
            for _ in range(100)
        ]
        assert sum(pair.verdict != NOT_SHOWN for pair in pairs) <= 4


def test_two_forecasts_of_the_linear_path_alone_are_not_tested() -> None:
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    both = compare(setting(0.4, mixing_weight=0), setting(0.4, mixing_weight=0), other, other * (1 + 1e-9))
    assert (both.verdict, both.why) == (NOT_TESTED, "both forecasts use the linear path alone")
    unknown = compare(setting(0.4, mixing_weight=0), setting(0.4, mixing_weight=0), other, "no errors")
    assert unknown.why == "both forecasts use the linear path alone"
    assert (
        compare(setting(0.36, mixing_weight=0), setting(0.4, mixing_weight=0), own, other).verdict == BETTER
    )  # other inputs
    assert compare(setting(0.36, mixing_weight=0), setting(0.4, mixing_weight=0.1), own, other).verdict == ONE_SEED
    assert (
        compare(setting(0.36, mixing_weight=0), setting(0.4, mixing_weight=0, look_back=96), own, other).verdict
        == BETTER
    )


def test_the_lowest_error_is_compared_at_a_corrected_level(tmp_path: Path) -> None:
    for place, name in enumerate(("full", "linear", "taylor", "mean", "efficient")):
        series = errors(0.4, place)
        write_run(tmp_path / name, result_of(name, mse=float(series.mean())), series)
    (group,) = groups_of(read_runs([tmp_path]).runs)
    pairs = compare_all(group)
    assert {pair.level for pair in pairs.with_best.values()} == {1 - (1 - LEVEL) / 10}
    assert {pair.level for pair in pairs.reference.values()} == {LEVEL}
    for key, pair in pairs.with_best.items():
        usual = pairs.reference.get(key)
        if usual is not None and usual.against.key == pair.against.key:
            assert usual.interval is not None
            assert pair.interval is not None
            assert pair.interval.high - pair.interval.low > 1.1 * (usual.interval.high - usual.interval.low)


@pytest.mark.slow
def test_the_best_of_many_equal_settings_is_rarely_significantly_better() -> None:
    """Without the corrected level it would be in half of such studies, since the same windows select and compare it."""
    count = 12
    wrong = 0
    for study in range(20):
        level = 1 - (1 - LEVEL) / math.comb(count, 2)
        all_errors = [errors(0.4, 1000 * study + own) for own in range(count)]
        best = min(all_errors, key=lambda series: float(series.mean()))
        pairs = [
            compare(setting(0.4), setting(0.39), windows(series), windows(best), level)
            for series in all_errors
            if series is not best
        ]
        wrong += any(pair.verdict != NOT_SHOWN for pair in pairs)
    assert wrong <= 1


def test_windows_scored_further_apart_overlap_less() -> None:
    """Every fifth window has nearly the same information: a fifth of the overlap makes as many blocks."""
    own, other = errors(0.388, 1), errors(0.4, 2)
    whole, fifth = (
        compare(setting(0.4, stride=step), setting(0.4, stride=step), windows(own, step), windows(other, step))
        for step in (1, 5)
    )
    assert whole.interval is not None
    assert fifth.interval is not None
    assert fifth.interval.block * 5 == pytest.approx(whole.interval.block, rel=0.3)
    assert fifth.range_per_cent == pytest.approx(whole.range_per_cent, abs=0.6)


def test_too_few_windows_are_not_tested() -> None:
    pair = compared(errors(0.3, 1, count=400), errors(0.4, 2, count=400))
    assert (pair.verdict, pair.interval) == (NOT_TESTED, None)
    assert pair.why == "400 windows with overlap 96 are too few"
    assert pair.per_cent == pytest.approx(0)  # from the results, which are both 0.4 here


def test_errors_are_averaged_over_the_seeds_by_window(tmp_path: Path) -> None:
    first, second = errors(0.4, 1, count=50), errors(0.4, 2, count=50)
    second[3] = np.nan  # a window without a target
    folders = [write_run(tmp_path / name, result_of(windows=50), mse) for name, mse in (("a", first), ("b", second))]
    runs = tuple(FinishedRun(folder.name, folder, result_of(windows=50), "") for folder in folders)
    read = read_windows(Setting("full", 512, runs))
    assert not isinstance(read, str)
    np.testing.assert_allclose(read, np.delete((first + second) / 2, 3))


@pytest.mark.parametrize("damage", ["absent", "torn", "other columns", "fewer windows"])
def test_an_unusable_file_of_errors_is_named(tmp_path: Path, damage: str) -> None:
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


def test_the_linear_path_neither_adds_to_the_variance_between_seeds_nor_is_widened_by_it() -> None:
    own, other = windows(errors(0.36, 1)), windows(errors(0.4, 2))
    path = setting(0.36, 0.36, 0.36, mixing_weight=0)
    trained = setting(0.396, 0.4, 0.404)
    spread = seed_spread([path, path, path, trained])
    assert (spread.freedom, spread.share) == (2, pytest.approx(0.01))
    assert seed_spread([setting(0.0, 0.0)]).freedom == 0
    alone = compare(setting(0.36), setting(0.4), own, other).interval
    widened = comparisons.compare(path, trained, own, other, {512: spread}).interval
    assert alone is not None
    assert widened is not None
    half = 9.925 * 0.01 * 0.4 / 3**0.5
    assert widened.mean - widened.low == pytest.approx(np.hypot(half, alone.mean - alone.low), rel=1e-3)


def test_the_method_of_the_intervals_is_folded_and_the_lowest_error_is_named(made: Made) -> None:
    table = next(part for part in made.chapter.parts if getattr(part, "title", "") == "Compared window by window")
    assert isinstance(table, FoldingTable)
    assert any("bootstrap" in note for note in table.method)
    assert not any("bootstrap" in note for note in table.notes)
    document, text = (made.folder / f"report.{kind}" for kind in ("html", "md"))
    assert "<details><summary>How the intervals are computed</summary>" in document.read_text(encoding="utf-8")
    assert "circular block bootstrap" in text.read_text(encoding="utf-8")
    against = {row[2] for row in table.cells}
    assert len([name for name in against if name.startswith("lowest error: ")]) in (1, 2)
    assert {"full", "mean"} < against
