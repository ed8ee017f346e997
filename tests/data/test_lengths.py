"""Lengths that follow from the step and the rows of a table."""

import pytest

from forecast.data.lengths import BLOCKS, LEAST_WINDOWS, Lengths, choose_lengths, unit_of
from forecast.data.split import Split, split_rows
from forecast.data.windows import start_rows

STEPS = (
    *("s", "min", "5min", "7min", "10min", "15min", "30min", "h", "2h", "5h", "6h"),
    *("D", "B", "W", "10D", "MS", "QS", "YS"),
)


def split(rows: int) -> Split:
    return split_rows(rows, 0.7, 0.1, 0.2)


def chosen(frequency: str, rows: int, **given: int) -> tuple[int | None, ...]:
    return tuple(vars(choose_lengths(Lengths(**given), frequency, split(rows))).values())


@pytest.mark.parametrize(
    ("frequency", "rows", "lengths"),
    [
        ("h", 1440, (168, 24, 24, 24)),
        ("h", 8760, (512, 96, 24, 24)),
        ("h", 145_366, (512, 96, 24, 24)),
        ("15min", 69_680, (512, 96, 24, 24)),
        ("10min", 52_696, (512, 96, 24, 24)),
        ("D", 730, (84, 7, 7, 7)),
        ("D", 3650, (427, 28, 21, 21)),
        ("W", 260, (52, 13, 13, 13)),
        ("MS", 120, (24, 6, 6, 6)),
        ("YS", 40, (8, 1, 2, 2)),
    ],
)
def test_files_of_ordinary_length_have_these_lengths(frequency: str, rows: int, lengths: tuple[int, ...]) -> None:
    assert chosen(frequency, rows) == lengths


@pytest.mark.parametrize("frequency", STEPS)
def test_every_split_of_a_table_of_any_length_has_windows(frequency: str) -> None:
    for rows in [*range(12, 400, 7), 1000, 5000, 100_000]:
        parts, lengths = split(rows), choose_lengths(Lengths(), frequency, split(rows))
        assert lengths.context_length is not None
        assert lengths.horizon is not None
        assert lengths.patch_length is not None
        for part, targets in vars(parts).items():
            assert len(start_rows(targets, lengths.context_length, lengths.horizon, part=part))
        assert lengths.stride == lengths.patch_length <= lengths.context_length <= 512
        assert lengths.patch_length >= 2
        assert lengths.horizon <= 96
        if len(parts.validation) >= LEAST_WINDOWS:
            assert len(parts.validation) + 1 - lengths.horizon >= LEAST_WINDOWS


def test_a_horizon_of_several_units_leaves_blocks_that_can_prefer_trained_weights() -> None:
    assert [chosen("h", rows)[1] for rows in (2000, 8600, 8640)] == [24, 72, 96]
    for rows in range(4000, 10_000, 500):
        lengths = choose_lengths(Lengths(), "h", split(rows))
        assert lengths.horizon is not None
        assert (len(split(rows).validation) - lengths.horizon + 1) // lengths.horizon >= BLOCKS


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        ({"horizon": 48}, (168, 48, 24, 24)),
        ({"horizon": 200}, (200, 200, 24, 24)),
        ({"context_length": 48}, (48, 24, 12, 12)),
        ({"context_length": 995}, (995, 12, 24, 24)),
        ({"patch_length": 12}, (168, 24, 12, 12)),
        ({"patch_length": 96}, (192, 24, 96, 96)),
        ({"stride": 8}, (168, 24, 24, 8)),
        ({"stride": 48}, (168, 24, 48, 48)),
        ({"context_length": 48, "horizon": 12, "patch_length": 6, "stride": 3}, (48, 12, 6, 3)),
    ],
)
def test_the_other_lengths_follow_from_given_ones(given: dict[str, int], lengths: tuple[int, ...]) -> None:
    assert chosen("h", 1440, **given) == lengths


def test_a_look_back_holds_a_patch_that_is_given() -> None:
    assert chosen("YS", 40, patch_length=16) == (16, 1, 16, 16)


def test_a_long_horizon_keeps_the_look_back_of_a_long_table() -> None:
    assert chosen("h", 17_520, horizon=720)[:2] == (512, 720)


def test_a_unit_divides_the_season_or_holds_it_whole() -> None:
    for season in range(1, 2000):
        unit = unit_of(season)
        assert 4 <= unit <= 24
        assert season % unit == 0 or unit % season == 0 or not any(season % number == 0 for number in range(4, 25))


def test_a_split_in_numbers_of_rows_counts_and_not_the_length_of_the_table() -> None:
    assert choose_lengths(Lengths(), "h", split_rows(20_000, 1008, 144, 288)) == Lengths(168, 24, 24, 24)
