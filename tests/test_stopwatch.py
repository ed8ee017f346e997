import time

import pytest

from forecast.stopwatch import Stopwatch


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
