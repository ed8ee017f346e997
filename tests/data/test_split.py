import pytest

from forecast.common.errors import InputError
from forecast.data.split import Split, split_rows


def test_fractions_split_the_rows_as_the_published_tables_do() -> None:
    assert split_rows(17420, 0.7, 0.1, 0.2) == Split(range(12194), range(12194, 13936), range(13936, 17420))
    assert split_rows(26304, 0.7, 0.1, 0.2).train == range(int(26304 * 0.7))


def test_the_standard_borders_of_ett() -> None:
    assert split_rows(17420, 8640, 2880, 2880) == Split(range(8640), range(8640, 11520), range(11520, 14400))


@pytest.mark.parametrize("sizes", [(0.8, 0.2, 0), (0.8, 0.2, 0.0), (80, 20, 0)])
def test_without_a_test_split_the_other_two_have_all_rows(sizes: tuple[float, float, float]) -> None:
    split = split_rows(100, *sizes)
    assert split == Split(range(80), range(80, 100), range(100, 100))
    assert split.scored == "validation"
    assert split_rows(100, 0.7, 0.1, 0.2).scored == "test"


@pytest.mark.parametrize("num_rows", [10, 11, 99, 1001, 17520])
def test_fractions_use_every_row_once_in_order(num_rows: int) -> None:
    split = split_rows(num_rows, 0.6, 0.2, 0.2)
    assert [*split.train, *split.validation, *split.test] == list(range(num_rows))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0.7, 0.1, 0.1), "sum to 1, these sum to 0.9"),
        ((0.8, 0.0, 0.2), "above 0"),
        ((1.2, -0.4, 0.2), "above 0"),
        ((90, 10, 10), "110 rows are requested, the table has 100"),
        ((90, 0, 10), "a split gets 0"),
        ((0.7, 10, 20), "three fractions .* or three whole numbers"),
        ((True, True, True), "three fractions .* or three whole numbers"),
        ((0.985, 0.01, 0.005), "of 100 rows a split gets 0"),
        ((float("nan"), 0.5, 0.5), "sum to 1"),
    ],
)
def test_impossible_sizes_are_refused(sizes: tuple[float, float, float], message: str) -> None:
    with pytest.raises(InputError, match=rf"data\.split .*{message}"):
        split_rows(100, *sizes)
