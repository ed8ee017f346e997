import numpy as np
import pytest

from forecast.data.calendar import HOURS, MONTHS, WEEKDAYS, CalendarPart
from forecast.evaluation.evaluate import PartErrors
from forecast.training.tensorboard.figures import draw_calendar_errors


def orange(pixels: np.ndarray) -> int:
    return int((np.abs(pixels.astype(int) - (255, 127, 14)).sum(-1) < 40).sum())


@pytest.mark.parametrize("part", [HOURS, WEEKDAYS, MONTHS], ids=lambda part: part.name)
def test_the_height_of_a_bar_is_its_error(part: CalendarPart) -> None:
    size = len(part.labels)
    level, half = np.full(size, 8.0), np.full(size, 8.0)
    half[size // 2 :] = 4.0
    whole, less = (draw_calendar_errors(PartErrors("$load_1", part, mae, np.zeros(size))) for mae in (level, half))
    assert orange(less) == pytest.approx(0.75 * orange(whole), rel=0.1)


def test_parts_without_an_error_take_no_space() -> None:
    mae = np.full(24, np.nan)
    mae[5::6] = 8.0
    four = draw_calendar_errors(PartErrors("load", HOURS, mae, mae / 2))
    all_of_them = draw_calendar_errors(PartErrors("load", HOURS, np.full(24, 8.0), np.full(24, 4.0)))
    assert orange(four) == pytest.approx(orange(all_of_them), rel=0.15)  # as wide together as 24 would be
