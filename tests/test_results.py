from dataclasses import replace

import numpy as np
import pytest

from forecast.evaluate import evaluate
from forecast.results import residual_quantiles
from tests.examples import make_windows
from tests.test_evaluate import mean_of_context


def test_the_quantiles_are_those_of_the_residuals_and_nan_where_nothing_was_measured() -> None:
    evaluation = evaluate(mean_of_context, make_windows(), 16, keep_residuals=True)
    assert evaluation.residuals is not None
    residuals = evaluation.residuals.copy()
    residuals[:, 1, 0] = np.nan
    residuals[3:, 2, 1] = np.nan
    stored = residual_quantiles(replace(evaluation, residuals=residuals))
    levels, quantiles = stored["levels"].numpy(), stored["quantiles"].numpy()
    assert quantiles.shape == (len(levels), 3, 2)
    assert np.isnan(quantiles[:, 1, 0]).all()
    assert np.isnan(quantiles).sum() == len(levels)
    assert quantiles[99, 0, 0] == pytest.approx(np.median(residuals[:, 0, 0]), rel=1e-5)
    assert quantiles[99, 2, 1] == pytest.approx(np.median(residuals[:3, 2, 1]), rel=1e-5)
