import pandas as pd
import pytest

from benchmarks.studies.stretches import summary
from forecast.evaluation.mixing import MIXING_WEIGHTS


def row(stretch: int, taken: float, *, validation: float, test: float) -> dict[str, float | str]:
    """Return a row whose MSE has its minimum at `validation` and `test`, and is 1 at a mixing weight of 0."""
    minima = {"validation": validation, "test": test}
    curves = {
        f"{part}_at_{weight:.1f}": 1 - best**2 + (weight - best) ** 2
        for part, best in minima.items()
        for weight in MIXING_WEIGHTS
    }
    return {"stretch": stretch, "level": "window", "horizon": 96, "share": taken, **curves}


def test_the_summary_has_the_best_weights_and_their_test_mse() -> None:
    rows = [row(0, 0.2, validation=0.4, test=0.3), row(1, 0.1, validation=1.5, test=-0.5)]
    (means,) = summary(pd.DataFrame(rows)).reset_index().to_dict("records")
    assert means["validation_best"] == pytest.approx((0.4 + 1) / 2)  # at most 1
    assert means["test_best"] == pytest.approx(0.3 / 2)  # at least 0
    assert means["at_selected"] == pytest.approx(((1 - 0.09 + 0.01) + (1 - 0.25 + 0.36)) / 2)
    assert means["at_validation_best"] == pytest.approx(((1 - 0.09 + 0.01) + (1 - 0.25 + 2.25)) / 2)
