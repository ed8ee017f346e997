import pandas as pd
import pytest

from benchmarks.studies.stretches import summary
from forecast.evaluation.mixing import MIXING_WEIGHTS


def row(stretch: int, taken: float, *, validation: float, test: float) -> dict[str, float | str]:
    """Return a row whose MSE is least at `validation` and `test`, and 1 at a share of 0."""
    likes = {"validation": validation, "test": test}
    curves = {
        f"{part}_at_{share:.1f}": 1 - like**2 + (share - like) ** 2
        for part, like in likes.items()
        for share in MIXING_WEIGHTS
    }
    return {"stretch": stretch, "level": "window", "horizon": 96, "share": taken, **curves}


def test_the_summary_has_the_shares_that_are_liked_and_what_they_make_of_the_test_mse() -> None:
    rows = [row(0, 0.2, validation=0.4, test=0.3), row(1, 0.1, validation=1.5, test=-0.5)]
    (told,) = summary(pd.DataFrame(rows)).reset_index().to_dict("records")
    assert told["validation_likes"] == pytest.approx((0.4 + 1) / 2)  # no share is beyond 1
    assert told["test_likes"] == pytest.approx(0.3 / 2)  # or below 0
    assert told["taken"] == pytest.approx(((1 - 0.09 + 0.01) + (1 - 0.25 + 0.36)) / 2)
    assert told["whole"] == pytest.approx(((1 - 0.09 + 0.01) + (1 - 0.25 + 2.25)) / 2)
