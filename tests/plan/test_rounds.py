import pytest

from forecast.common.timing import always_less


@pytest.mark.parametrize(
    ("ones", "others", "less"),
    [
        ([1, 2, 3], [4, 5, 6], True),
        ([1, 2, 4], [4, 5, 6], False),
        ([4, 5, 6], [1, 2, 3], False),
        ([1, 2], [4, 5], False),
        ([1, 2, 3], [4, 5], False),
    ],
)
def test_always_less_requires_less_in_every_round(ones: list[float], others: list[float], less: bool) -> None:
    assert always_less(ones, others) is less
