import time

import pytest

from forecast.common.timing import Stopwatch, clock


def test_a_block_within_a_block_counts_once_and_an_error_stops_the_watch() -> None:
    watch = Stopwatch()
    with watch:
        time.sleep(0.02)
        with watch:
            time.sleep(0.02)
    assert 0.04 <= watch.seconds < 0.4
    before = watch.seconds
    with pytest.raises(ValueError, match="gone"), watch:
        raise ValueError("gone")
    time.sleep(0.05)
    with watch:
        pass
    assert watch.seconds - before < 0.05


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (599.7, "10 min"),
        (3599.9, "1 h 0 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert clock(seconds) == text
